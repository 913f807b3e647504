"""What cannot be vectorised is done one by one and said; other errors are not taken for that."""

import pytest
import torch
from penchant_numerics.curvature import sample_traces
from penchant_numerics.data import Samples
from penchant_numerics.device.vectorisation import NotVectorisedWarning
from penchant_numerics.jacobians import Outputs, sample_gradients
from penchant_numerics.layers import TangentFeatures, tangent_kernel
from penchant_numerics.training import batched_training
from torch import nn

NO_RULE = RuntimeError("Batching rule not implemented for aten::lstm.input\nmore lines")
NOT_FOR_IT = [
    RuntimeError("FIND was unable to find an engine to execute this computation"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    torch.OutOfMemoryError("CUDA out of memory"),
    torch.AcceleratorError("CUDA error: device-side assert triggered"),
]


def normal(*shape):
    generator = torch.Generator("cpu").manual_seed(0)
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float64)


def normed():
    """A network with parameters that are no linear layer's."""
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double()


def gradients(network, x):
    return sample_gradients.sample_gradients(Outputs(network), x)


def traces(network, x):
    return sample_traces.sample_traces(network, x)


def kernel(network, x):
    return tangent_kernel(network, x)


def features(network, x):
    found = TangentFeatures(network, x)(x)
    return {name: each.squares() for name, each in found.items()}


def raising(error):
    def vectorised(*arguments, **options):
        raise error

    return vectorised


ROUTES = {
    "gradients": (gradients, sample_gradients, "_vectorised"),
    "traces": (traces, sample_traces._Passes, "_vectorised_squares"),
    "features": (features, sample_gradients, "_vectorised"),
    "kernel": (kernel, sample_gradients, "_vectorised"),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("error", NOT_FOR_IT, ids=lambda error: type(error).__name__)
@pytest.mark.filterwarnings(
    "ignore::penchant_numerics.device.memory.MemoryWarning"
)  # blocks are halved
def test_a_lack_of_memory_or_a_failed_device_is_raised(monkeypatch, route, error):
    compute, owner, name = ROUTES[route]
    network, x = normed(), normal(5, 3)
    monkeypatch.setattr(owner, name, raising(error))
    with pytest.raises(type(error), match=str(error)[:20]):
        compute(network, x)


@pytest.mark.parametrize("route", ROUTES)
def test_one_by_one_gives_the_same_and_is_said_with_its_reason(monkeypatch, route):
    compute, owner, name = ROUTES[route]
    network, x = normed(), normal(5, 3)
    expected = compute(network, x)
    monkeypatch.setattr(owner, name, raising(NO_RULE))
    with pytest.warns(NotVectorisedWarning, match="longer: Batching rule .* aten::lstm.input$"):
        found = compute(network, x)
    torch.testing.assert_close(found, expected)


class Recipe:
    learning_rates = ()

    def total_steps(self, samples):
        return 1


class Trains:
    """As much of a context as a limit of stacks asks for."""

    device = torch.device("cpu")
    training = Recipe()


@pytest.mark.parametrize("error", [NO_RULE, *NOT_FOR_IT], ids=lambda error: str(error)[:20])
def test_stacks_are_given_up_only_where_networks_cannot_be_stacked(monkeypatch, error):
    learner = batched_training.Learner(normed(), Samples(normal(5, 3), normal(5)), ())
    monkeypatch.setattr(batched_training, "stacking_obstacle", lambda *given: None)
    monkeypatch.setattr(batched_training, "group_size", lambda device: 32)
    monkeypatch.setattr(batched_training, "step_bytes", raising(error))
    if error is NO_RULE:
        with pytest.warns(NotVectorisedWarning, match="trainings are taken one by one"):
            assert batched_training._limit(Trains, learner).networks == 1
    else:
        with pytest.raises(type(error)):
            batched_training._limit(Trains, learner)
