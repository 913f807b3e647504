"""Networks trained side by side: stacked and one by one make the same steps; clamping; groups."""

import pytest
import torch
from penchant import Training
from penchant.testing import strict_devices
from penchant_numerics.data import Samples
from penchant_spectral_bias.numerics import side_by_side as side
from penchant_spectral_bias.numerics.perturbations import perturbed_outputs, unit_vector
from torch import nn

HOST = {"device": "cpu", "dtype": torch.float64}


def networks(count, outputs=1):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [
            nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, outputs)).double()
            for _ in range(count)
        ]


def samples(count, classes=False):
    generator = torch.Generator(device="cpu").manual_seed(1)
    labels = [torch.rand(20, generator=generator, **HOST) for _ in range(count)]
    inputs = [torch.randn(20, 2, generator=generator, **HOST) for _ in range(count)]
    return [Samples(x, (y > 0.5).long() if classes else y) for x, y in zip(inputs, labels)]


@pytest.mark.parametrize(
    "recipe",
    [
        {"optimizer": "adam", "learning_rate": 0.01, "loss": "squared-error"},
        {"optimizer": "adam", "learning_rate": 0.01, "loss": "cross-entropy", "weight_decay": 0.1},
        {
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "momentum": 0.9,
            "loss": "squared-error",
            "schedule": "linear",
        },
    ],
    ids=["adam", "classes", "sgd"],
)
@pytest.mark.parametrize("limit", [None, 0.2])
def test_stacked_networks_make_the_steps_of_single_ones(recipe, limit):
    training = Training(batch=0, steps=25, **recipe)
    data = samples(3, classes=recipe["loss"] == "cross-entropy")
    settings = {"seeds": [0, 1, 2], "limit": limit}
    single = side.OneByOne(networks(3), data, training, **settings)
    with strict_devices():
        stacked = side.Stacked(networks(3), data, training, **settings)
        for until in (10, 25):
            single.run(until)
            stacked.run(until)
            torch.testing.assert_close(
                stacked.outputs(data[0].inputs),
                single.outputs(data[0].inputs),
                rtol=1e-9,
                atol=1e-11,
            )
    for name, weight in single.weights().items():
        torch.testing.assert_close(stacked.weights()[name], weight, rtol=1e-9, atol=1e-11)
    for one, other in zip(single.networks(), stacked.networks()):
        torch.testing.assert_close(
            other(data[0].inputs), one(data[0].inputs), rtol=1e-9, atol=1e-11
        )
    if limit is not None:
        assert (
            max(
                float(part.detach().abs().max())
                for network in single.networks()
                for part in network.parameters()
            )
            <= limit
        )


def test_rule_stacks_on_a_gpu_only_and_only_what_can_be():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert side.groups(5, cpu) == [[0], [1], [2], [3], [4]] and side.groups(5, gpu) == [
        [0, 1, 2, 3, 4]
    ]
    full = Training(batch=0, steps=1)
    plain, counting = networks(1)[0], nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert side.can_stack(plain, full) and not side.can_stack(counting, full)
    assert not side.can_stack(plain, Training(batch=4, steps=1)) and not side.can_stack(
        plain, Training(batch=0, steps=1, clip=1.0)
    )
    assert isinstance(side.side_by_side(networks(2), samples(2), full, seeds=[0, 1]), side.OneByOne)


def test_divergence_of_stacked_networks_is_said():
    training = Training(batch=0, steps=60, optimizer="sgd", learning_rate=1e8, loss="squared-error")
    with pytest.raises(FloatingPointError, match="training diverged"):
        side.Stacked(networks(2), samples(2), training, seeds=[0, 1]).run(60)


def test_recorded_steps_have_both_ends():
    assert (
        side.recorded_steps(10, 4) == [0, 4, 8, 10]
        and side.recorded_steps(8, 4) == [0, 4, 8]
        and side.recorded_steps(0, 5) == [0]
    )


def generator(index):
    return torch.Generator(device="cpu").manual_seed(index)


def test_perturbations_are_unit_vectors_in_all_parameters():
    network = networks(1)[0]
    parts = unit_vector(network, generator(0))
    assert float(sum(part.square().sum() for part in parts.values())) == pytest.approx(
        1.0, rel=1e-12
    )
    rows = torch.stack(
        [
            torch.cat([p.flatten() for p in unit_vector(network, generator(i)).values()])
            for i in range(3000)
        ]
    )
    size = rows.shape[1]
    moment = rows.T @ rows / len(rows) * size
    # on the sphere in D dimensions D v_i v_j has the variance D^2 (3 or 1) / (D (D + 2)) minus the square of its mean
    spread = (
        torch.where(torch.eye(size, **HOST).bool(), 3 * size / (size + 2) - 1, size / (size + 2))
        .div(len(rows))
        .sqrt()
    )
    z = (moment - torch.eye(size, **HOST)) / spread
    assert z.abs().max() < torch.distributions.Normal(0, 1).icdf(
        torch.tensor(1 - 0.005 / (size * (size + 1) / 2), device="cpu")
    )


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_stacked_perturbations_are_single_ones(chunk):
    network, inputs = networks(1)[0], samples(1)[0].inputs
    found = perturbed_outputs(network, inputs, [0.0, 0.5], generator, 7, chunk=chunk)
    assert found.shape == (7, 2, 20)
    before = network(inputs)[:, 0].detach()
    for index in range(7):
        moves = unit_vector(network, generator(index))
        moved = {
            name: part.detach() + 0.5 * moves[name] for name, part in network.named_parameters()
        }
        torch.testing.assert_close(
            found[index, 1], torch.func.functional_call(network, moved, (inputs,))[:, 0]
        )
        torch.testing.assert_close(found[index, 0], before)
