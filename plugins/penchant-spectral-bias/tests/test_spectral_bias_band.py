"""Elastic bands on a landscape that is known, adversarial inputs, and the autoencoder."""

import math

import pytest
import torch
from penchant_spectral_bias.class_paths import elastic_band as band
from penchant_spectral_bias.noise_on_manifold.autoencoder import reconstructions
from penchant_testing import no_trace, strict_devices
from torch import nn

HOST = {"device": "cpu", "dtype": torch.float64}
BEND = {
    "refinements": 4,
    "bends": 20,
    "learning_rate": 0.05,
    "momentum": 0.5,
    "pivots": 3,
    "resolution": 8,
}


class Hill(nn.Module):
    """Class 0 everywhere but on a disc around the origin, which the straight line from (-1, 0.1) to (1, 0.1) must cross."""

    def __init__(self, radius=0.5):
        super().__init__()
        self.radius = radius

    def forward(self, x):
        outside = x.flatten(1).norm(dim=1) - self.radius
        return torch.stack([outside, -outside], dim=1)


class Wall(nn.Module):
    """Class 1 in a strip that no path can go around."""

    def forward(self, x):
        outside = x.flatten(1)[:, 0].abs() - 0.2
        return torch.stack([outside, -outside], dim=1)


def ends():
    return torch.tensor([[-1.0, 0.1], [-1.0, 0.9]], **HOST), torch.tensor(
        [[1.0, 0.1], [1.0, 0.9]], **HOST
    )


def test_band_goes_around_a_hill_and_is_what_it_claims():
    first, last = ends()
    with strict_devices():
        straight = band.bend(Hill(), first, last, 0, **{**BEND, "refinements": 0})
        bent = band.bend(Hill(), first, last, 0, **BEND)
    assert straight.connected.tolist() == [False, True] and bent.connected.tolist() == [True, True]
    assert torch.equal(bent.pivots[:, 0], first) and torch.equal(bent.pivots[:, -1], last)
    keeps, probability = band.classified(Hill(), band.dense(bent.pivots, 50), first.shape[1:], 0)
    assert keeps.all() and (probability > 0.5).all()
    assert (bent.pivots.norm(dim=2).amin(1) > 0.5).all()
    pieces = bent.pivots.diff(dim=1).norm(dim=2)
    assert (
        float(bent.length[0]) == pytest.approx(float(pieces[0].sum() / 2), rel=1e-12)
        and bent.length[0] > 1.05
    )
    assert (pieces.amax(1) / pieces.amin(1) < 1.2).all()  # pivots are evenly spread


def test_straight_lines_are_bands_that_were_not_bent():
    first, last = ends()
    lines = band.straight_lines(Hill(), first, last, 0, points=32)
    unbent = band.bend(Hill(), first, last, 0, **{**BEND, "refinements": 0, "resolution": 8})
    assert lines.connected.tolist() == unbent.connected.tolist() == [False, True]
    torch.testing.assert_close(lines.certainty, unbent.certainty)
    torch.testing.assert_close(lines.length, torch.ones(2, **HOST))


def test_no_pairs_give_no_paths():
    nothing = torch.zeros(0, 2, **HOST)
    assert band.bend(Hill(), nothing, nothing, 0, **BEND).pivots.shape == (0, 33, 2)


def test_wall_cannot_be_crossed():
    bent = band.bend(Wall(), *ends(), 0, **BEND)
    assert not bent.connected.any() and (bent.certainty < 0.5).all()


def test_straight_path_has_the_length_of_its_line():
    straight = band.bend(Hill(), *ends(), 0, **{**BEND, "refinements": 1, "bends": 0})
    torch.testing.assert_close(straight.length, torch.ones(2, **HOST), rtol=1e-12, atol=0)


def test_spreading_keeps_the_curve_and_evens_it():
    angle = torch.tensor([0.0, 0.1, 0.2, 0.9, math.pi / 2], **HOST)
    path = torch.stack([angle.cos(), angle.sin()], dim=1)[None]
    even = band._spread(path)
    assert torch.equal(even[:, [0, -1]], path[:, [0, -1]])
    lengths = even.diff(dim=1).norm(dim=2)
    assert float(lengths.amax() / lengths.amin()) < 1.2
    doubled = band._doubled(path)
    assert doubled.shape[1] == 9 and torch.equal(doubled[:, ::2], path)


def test_adversarial_inputs_reach_their_class_or_say_so():
    inputs = torch.tensor([[0.9, 0.0], [0.0, 2.0]], **HOST)
    moved, there = band.adversarial(Hill(), inputs, 1, step=0.05, steps=100)
    assert (
        there.all() and (moved.norm(dim=1) < 0.5).all() and (moved.norm(dim=1) > 0.45 - 1e-9).all()
    )  # they stop where the class begins
    surer, there = band.adversarial(Hill(), inputs, 1, step=0.05, steps=100, certainty=0.6)
    assert there.all() and (Hill()(surer).softmax(1)[:, 1] >= 0.6).all()
    _, there = band.adversarial(Hill(), inputs, 1, step=0.001, steps=5)
    assert not there.any()


def test_autoencoder_approaches_the_best_plane_it_could_find():
    """On data in two dimensions of ten, two features reconstruct almost everything; without training nothing."""
    mix = torch.linalg.qr(
        torch.randn(10, 2, generator=torch.Generator(device="cpu").manual_seed(0), **HOST)
    ).Q
    data = (
        torch.randn(100, 2, generator=torch.Generator(device="cpu").manual_seed(1), **HOST) @ mix.T
    )
    settings = {"features": 2, "width": 32, "noise": 0.05, "batch": 32, "learning_rate": 1e-2}

    def error(steps):
        return reconstructions(
            data, steps=steps, generator=torch.Generator(device="cpu").manual_seed(2), **settings
        )

    with no_trace(), strict_devices():
        found, after = error(120)
    assert found.shape == data.shape and after == pytest.approx(
        float((found - data).square().mean()), rel=1e-12
    )
    assert after < 0.1 * error(1)[1] and after < 0.05 * float(data.square().mean())
    assert torch.equal(error(3)[0], error(3)[0])
