"""Known information against independent routes: scipy's integration, closed forms, Monte Carlo over the families' own draws."""

import functools
import math

import numpy as np
import pytest
import torch
from penchant_mine.shared.information import families as maps
from penchant_mine.shared.information import known_information as known
from penchant_mine.shared.information.families import FAMILIES, MAPS, Setting
from scipy import integrate, special, stats


def test_sign_plus_noise_of_variance_one_fifth_is_the_known_number():
    assert known.sign_plus_noise(math.sqrt(0.2)) == pytest.approx(0.6587, abs=5e-5)


# Finding the nodes takes longer than all that is done with them.
gauss_legendre = functools.cache(np.polynomial.legendre.leggauss)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("name", list(MAPS))
def test_noisy_maps_agree_with_adaptive_integration(name, sigma):
    f = {"identity": lambda x: x, "cube": lambda x: x**3, "sine": np.sin}[name]
    nodes, weights = gauss_legendre(500)

    def minus_p_log_p(y):
        p = (weights * stats.norm.pdf(y, f(nodes), sigma)).sum() / 2
        return -p * math.log(p) if p > 0 else 0.0

    entropy, _ = integrate.quad(
        minus_p_log_p, -1 - 12 * sigma, 1 + 12 * sigma, limit=400, points=(-1, 0, 1), epsabs=1e-10
    )
    assert known.noisy_map(MAPS[name], sigma) == pytest.approx(
        entropy - known.gaussian_entropy(sigma), abs=1e-7
    )


def test_equal_noise_is_not_equal_information():
    values = [known.noisy_map(MAPS[name], 0.3) for name in MAPS]
    assert max(values) - min(values) > 0.05


def test_limits():
    assert known.noisy_map(MAPS["identity"], 0.03) == pytest.approx(
        math.log(2) - known.gaussian_entropy(0.03), abs=0.04
    )
    assert known.shared_sign(0.05) == pytest.approx(math.log(2), abs=1e-6)
    assert known.student(2, 0.3, 1e6) == pytest.approx(known.correlated_gaussians(2, 0.3), abs=1e-4)
    assert known.student(1, 0.0, 2.0) > 0.05  # uncorrelated, and not independent
    assert known.correlated_gaussians(3, known.correlation_for(1.7, 3)) == pytest.approx(1.7)


def log_ratio_student(x, z, rho, freedom):
    joint = stats.multivariate_t([0, 0], [[1, rho], [rho, 1]], df=freedom).logpdf(
        np.stack([x, z], 1)
    )
    return joint - stats.t(freedom).logpdf(x) - stats.t(freedom).logpdf(z)


def log_ratio_shared_sign(x, z, sigma):
    p = [[stats.norm.pdf(v, s, sigma) for s in (1, -1)] for v in (x, z)]
    joint = 0.5 * (p[0][0] * p[1][0] + p[0][1] * p[1][1])
    return np.log(joint / (0.25 * sum(p[0]) * sum(p[1])))


def log_ratio_discrete(x, z, sigma):
    return np.log(
        stats.norm.pdf(z, x, sigma)
        / (0.5 * (stats.norm.pdf(z, 1, sigma) + stats.norm.pdf(z, -1, sigma)))
    )


@pytest.mark.parametrize(
    ("family", "parameter", "ratio"),
    [
        ("student", 3.0, lambda x, z: log_ratio_student(x, z, 0.5, 3.0)),
        ("mixture", 0.7, lambda x, z: log_ratio_shared_sign(x, z, 0.7)),
        ("discrete", 0.6, lambda x, z: log_ratio_discrete(x, z, 0.6)),
    ],
)
def test_truth_is_the_mean_log_density_ratio_of_the_draws(family, parameter, ratio):
    chosen = FAMILIES[family]
    x, z = chosen.draw(Setting(), parameter, 200000, torch.Generator(device="cpu").manual_seed(3))
    values = ratio(x[:, 0].double().numpy(), z[:, 0].double().numpy())
    error = values.std() / math.sqrt(len(values))
    assert abs(values.mean() - chosen.truth(Setting(), parameter)) < 3.5 * error
    assert error < 0.003


def test_spiral_keeps_lengths_and_moves_points():
    setting = Setting(3, 3, turns=1.5)
    x, z = FAMILIES["spiral"].draw(setting, 0.6, 500, torch.Generator(device="cpu").manual_seed(0))
    plain_x, plain_z = FAMILIES["gaussian"].draw(
        setting, 0.6, 500, torch.Generator(device="cpu").manual_seed(0)
    )
    assert torch.equal(z, plain_z)
    assert torch.allclose(x.norm(dim=1), plain_x.norm(dim=1), atol=1e-5) and not torch.allclose(
        x, plain_x, atol=0.1
    )
    assert FAMILIES["spiral"].truth(setting, 0.6) == pytest.approx(
        known.correlated_gaussians(3, 0.6)
    )


def test_sizes_may_differ_for_normal_pairs():
    x, z = FAMILIES["gaussian"].draw(
        Setting(4, 2), 0.9, 20000, torch.Generator(device="cpu").manual_seed(0)
    )
    correlation = torch.corrcoef(torch.cat([x, z], 1).T)[:4, 4:]
    expected = torch.zeros(4, 2, device="cpu")
    expected[0, 0] = expected[1, 1] = 0.9
    assert torch.allclose(correlation, expected, atol=0.03)
    assert FAMILIES["gaussian"].truth(Setting(4, 2), 0.9) == pytest.approx(
        known.correlated_gaussians(2, 0.9)
    )


def f(x):
    """What a Student vector of `x` degrees of freedom adds to the normal value."""
    return math.lgamma(x / 2) - x / 2 * special.digamma(x / 2)


@pytest.mark.parametrize(("size", "rho", "freedom"), [(1, 0.0, 1.0), (5, 0.0, 2.0), (3, 0.5, 4.0)])
def test_student_agrees_with_the_formula_of_the_benchmark(size, rho, freedom):
    added = f(freedom) + f(freedom + 2 * size) - 2 * f(freedom + size)
    expected = known.correlated_gaussians(size, rho) + added
    assert known.student(size, rho, freedom) == pytest.approx(expected, abs=1e-12)


def test_student_without_correlation_has_the_published_value():
    assert known.student(1, 0.0, 1.0) == pytest.approx(0.2242, abs=5e-5)
    assert known.student(5, 0.0, 2.0) == pytest.approx(0.448, abs=5e-4)


@pytest.mark.parametrize(("x_size", "z_size", "rho"), [(1, 1, 0.75), (3, 3, 0.5), (2, 25, 0.3)])
def test_dense_normals_have_the_information_of_their_determinants(x_size, z_size, rho):
    def log_det(size):
        matrix = (1 - rho) * np.eye(size) + rho
        return np.linalg.slogdet(matrix)[1]

    expected = 0.5 * (log_det(x_size) + log_det(z_size) - log_det(x_size + z_size))
    assert known.dense_gaussians(x_size, z_size, rho) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("width", [0.1, 0.4, 0.5, 0.75, 3.0])
def test_uniform_noise_is_the_entropy_of_the_sum_less_that_of_the_noise(width):
    def density(y):
        return (min(1.0, y + width) - max(0.0, y - width)) / (2 * width)

    def minus_p_log_p(y):
        return -special.xlogy(density(y), density(y))

    corners = sorted((width, 1 - width))
    entropy, _ = integrate.quad(minus_p_log_p, -width, 1 + width, points=corners, epsabs=1e-10)
    assert known.uniform_noise(width) == pytest.approx(entropy - math.log(2 * width), abs=1e-8)


@pytest.mark.parametrize(
    ("family", "base"),
    [
        *((name, "gaussian") for name in ("asinh", "half-cube", "wiggly", "bimodal")),
        ("asinh-student", "student"),
    ],
)
def test_maps_that_can_be_undone_keep_the_order_of_every_column(family, base):
    setting, parameter = Setting(2, 2), 3.0 if base == "student" else 0.6
    drawn = {}
    for name in (family, base):
        generator = torch.Generator(device="cpu").manual_seed(0)
        drawn[name] = FAMILIES[name].draw(setting, parameter, 2000, generator)
    for mapped, plain in zip(drawn[family], drawn[base]):
        assert torch.equal(mapped.argsort(0), plain.argsort(0))
        assert not torch.allclose(mapped, plain, atol=0.1)
    assert FAMILIES[family].truth(setting, parameter) == FAMILIES[base].truth(setting, parameter)


def test_two_bumps_have_the_density_of_the_mixture():
    values = torch.randn(20000, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    mapped = maps.bimodal(values).double().numpy()

    def cdf(x):
        return 0.5 * (stats.norm.cdf(x - maps.SPACING) + stats.norm.cdf(x + maps.SPACING))

    assert stats.kstest(mapped, cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("family", "expected"), [("dense", 0.5), ("sparse", [[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0]])]
)
def test_draws_have_the_correlations_they_say(family, expected):
    generator = torch.Generator(device="cpu").manual_seed(0)
    x, z = FAMILIES[family].draw(Setting(3, 3), 0.5, 20000, generator)
    correlation = torch.corrcoef(torch.cat([x, z], 1).T)[:3, 3:]
    assert np.allclose(correlation, expected, atol=0.03)
