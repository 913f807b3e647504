"""What a recorded pass keeps: small, and with the same numbers as whole constants."""

import pytest
import torch
from penchant_numerics.curvature import GaussNewton
from penchant_numerics.jacobians import linearisation, tape
from penchant_numerics.jacobians.compact_records import Positions, Shape, Signs
from torch import nn

HOST = {"device": "cpu"}


def network():
    """Activations that pooling makes unnecessary: only where they were positive is needed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(256, 4))


def inputs(count):
    generator = torch.Generator("cpu").manual_seed(1)
    return torch.randn(count, 3, 16, 16, generator=generator, **HOST)


def test_small_forms_have_the_same_effect():
    numbers = torch.randn(3, 7, generator=torch.Generator("cpu").manual_seed(0), **HOST)
    assert torch.equal(Signs(numbers).restore(), (numbers > 0).float())
    places = torch.arange(11, **HOST)
    assert torch.equal(Positions(places).restore(), places)
    shape = Shape(numbers).restore()
    assert shape.shape == numbers.shape and shape.untyped_storage().nbytes() == 4


def test_a_record_takes_a_fifth_and_gives_the_same_bits(monkeypatch):
    data = (inputs(32), None)
    lean = GaussNewton(network(), data, cache=2**30)
    v = torch.ones(lean.size, **HOST).cos()
    # whole constants, tangents among them, as they were stored before
    monkeypatch.setattr(tape.Tape, "pack", lambda self: {})
    plain = linearisation.SavedTensors
    monkeypatch.setattr(
        linearisation, "SavedTensors", lambda is_tangent: plain(lambda tensor: False)
    )
    whole = GaussNewton(network(), data, cache=2**30)
    assert torch.equal(lean @ v, whole @ v)
    leaves = lean.size * 4  # one set of tangents for all batches
    assert 5 * (lean.cached_bytes - leaves) <= whole.cached_bytes - leaves


@pytest.mark.parametrize("samples", [8, 32])
def test_nothing_of_the_size_of_parameters_is_kept_with_a_batch(samples):
    small = GaussNewton(network(), (inputs(samples), None), cache=2**30)
    a_sample = (small.cached_bytes - 4 * small.size) / samples
    double = GaussNewton(network(), (inputs(2 * samples), None), cache=2**30)
    assert double.cached_bytes - small.cached_bytes == pytest.approx(a_sample * samples, rel=0.01)
