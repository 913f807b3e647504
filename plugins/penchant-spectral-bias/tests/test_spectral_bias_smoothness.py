"""Kernel eigenvectors, nearest neighbours and radial spectra: against closed forms and all distances."""

import math

import pytest
import torch
from penchant_spectral_bias.kernel_spectrum import gaussian_kernel as kernel
from penchant_spectral_bias.manifold_accuracy.probe import neighbour_accuracy, neighbour_probability
from penchant_spectral_bias.manifold_accuracy.radial_spectrum import radial_spectrum

HOST = {"device": "cpu", "dtype": torch.float64}


def generator(seed=0):
    return torch.Generator(device="cpu").manual_seed(seed)


def test_kernel_is_the_gaussian_of_distances():
    points = torch.randn(6, 3, generator=generator(), **HOST)
    found = kernel.kernel_matrix(points, 1.7)
    for i in range(6):
        for j in range(6):
            expected = math.exp(-float((points[i] - points[j]).square().sum()) / 1.7**2)
            assert float(found[i, j]) == pytest.approx(expected, rel=1e-12)


def test_eigenvectors_diagonalise_the_kernel():
    points = torch.randn(20, 3, generator=generator(), **HOST)
    values, vectors = kernel.eigenvectors(points, 1.0)
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(20, **HOST), atol=1e-12, rtol=0)
    torch.testing.assert_close(
        vectors.T * values @ vectors, kernel.kernel_matrix(points, 1.0), atol=1e-12, rtol=0
    )
    assert (values.diff() <= 0).all()


def test_nth_eigenvector_on_a_grid_has_about_half_as_many_periods():
    vectors = kernel.grid_eigenvectors(50, 0.04, device="cpu")
    spectrum = kernel.grid_spectrum(vectors)
    peaks = spectrum.argmax(1).double()
    n = torch.arange(50, **HOST)
    assert (peaks - n / 2).abs().max() <= 0.5


def test_noise_rises_and_is_found_again():
    noise = kernel.rising_noise(40, 2.0, device="cpu")
    assert float(noise[0]) == pytest.approx(1 / 1600) and float(noise[-1]) == 1.0
    share = kernel.learnt_share(torch.stack([0 * noise, 0.3 * noise, noise]), noise, 5)
    torch.testing.assert_close(share, torch.tensor([0.0, 0.3, 1.0], **HOST)[:, None].expand(3, 5))
    half = noise.clone()
    half[20:] = 0  # only the early eigenvectors were learnt
    assert kernel.learnt_share(half, noise, 4).tolist() == pytest.approx([1, 1, 0, 0])


@pytest.mark.parametrize("count", [1, 4, 5])
def test_neighbours_are_those_of_all_distances(count):
    points = torch.randn(80, 2, generator=generator(), **HOST)
    labels = (points[:, 0] * points[:, 1] > 0).long()
    queries = torch.randn(300, 2, generator=generator(1), **HOST)
    truth = (queries[:, 0] * queries[:, 1] > 0).long()
    nearest = (queries[:, None] - points).square().sum(2).argsort(1)[:, :count]
    expected = labels[nearest].double().mean(1)
    torch.testing.assert_close(neighbour_probability(points, labels, queries, count), expected)
    right = ((expected > 0.5) == truth.bool()).double().mean()
    assert neighbour_accuracy(points, labels, queries, truth, count) == pytest.approx(float(right))
    with pytest.raises(ValueError, match="at most the 80 points"):
        neighbour_probability(points, labels, queries, 81)


def test_one_neighbour_is_right_about_its_own_points():
    points = torch.randn(30, 2, generator=generator(), **HOST)
    labels = torch.randint(2, (30,), generator=generator(2), device="cpu")
    assert neighbour_accuracy(points, labels, points, labels, 1) == 1.0


def grid(count, side):
    line = -side / 2 + side * torch.arange(count, **HOST) / count
    return torch.meshgrid(line, line, indexing="ij")


def test_wave_is_at_its_radius():
    y, x = grid(64, 4.0)
    frequency, zeta = radial_spectrum(
        torch.cos(2 * math.pi * (3 * x + 4 * y) / 2), 4.0
    )  # |k| = 2.5 cycles per unit
    assert float(frequency[zeta.argmax()]) == pytest.approx(2.5)
    near = (frequency - 2.5).abs() < 0.6
    assert zeta[near].sum() > 0.99 * zeta.sum()


def test_gaussian_has_the_radial_spectrum_of_a_gaussian():
    """f = exp(-|x|^2 / 2 s^2) has f~ = 2 pi s^2 exp(-2 pi^2 s^2 k^2) and zeta = 2 pi k f~; the window hardly matters to it."""
    side, s = 8.0, 0.15
    y, x = grid(128, side)
    frequency, zeta = radial_spectrum(torch.exp(-(x**2 + y**2) / (2 * s**2)), side)
    expected = (
        2
        * math.pi
        * frequency
        * 2
        * math.pi
        * s**2
        * torch.exp(-2 * math.pi**2 * s**2 * frequency**2)
    )
    some = (frequency > 0.5) & (frequency < 2.0)
    assert (zeta[some] / expected[some] - 1).abs().max() < 0.03


def test_smoother_functions_decay_faster():
    y, x = grid(128, 2.0)
    step, slope = (x + 0.3 * y > 0).double(), torch.tanh(3 * (x + 0.3 * y))
    tails = [
        float(radial_spectrum(each, 2.0)[1][30:].sum() / radial_spectrum(each, 2.0)[1].sum())
        for each in (step, slope)
    ]
    assert tails[0] > 10 * tails[1]
