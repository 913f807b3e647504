"""Theorem 8.1: eigenspaces, eigenvalues and multiplicities against the expected matrix, and against samples."""
# ruff: noqa: T201 (the numbers are shown with -s)

import penchant
import pytest
import torch
from penchant_class_structure.logistic_theory.canonical_model import (
    gauss_newton,
    mean_and_stderr,
    multiplicities,
    symmetric_probabilities,
    theory,
    traces_on_eigenspaces,
)
from penchant_class_structure.logistic_theory.probe import _largest_p_value
from penchant_numerics.curvature import GaussNewton
from torch import nn


def expected_matrix(C, D, t, alpha):
    """E G = (t^2 / C) blkdiag(U_1, ..., U_C, 0) + I x Ave U_c (lemma 8.1)."""
    p = symmetric_probabilities(torch.arange(C), C, alpha)
    U = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    G = torch.kron(torch.eye(D, dtype=torch.float64), U.mean(0))
    for c in range(C):
        G[c * C : (c + 1) * C, c * C : (c + 1) * C] += t**2 / C * U[c]
    return G


@pytest.mark.parametrize(
    ("C", "D", "t", "alpha"), [(4, 12, 2.0, 0.2), (6, 20, 3.0, 0.05), (3, 4, 0.5, 0.6)]
)
def test_theory_is_the_spectrum_of_the_expected_matrix(C, D, t, alpha):
    values = torch.linalg.eigvalsh(expected_matrix(C, D, t, alpha)).flip(0)
    steps = torch.repeat_interleave(theory(C, t, alpha), multiplicities(C, D))
    torch.testing.assert_close(values, steps, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize(("C", "D"), [(4, 12), (6, 20)])
def test_traces_are_those_of_eigenspaces_of_the_expected_matrix(C, D):
    x = torch.randn(5, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = torch.rand(5, C, generator=torch.Generator().manual_seed(1), dtype=torch.float64).softmax(1)
    vectors = torch.linalg.eigh(expected_matrix(C, D, 3.0, 0.1)).eigenvectors.flip(1)
    counts = multiplicities(C, D).tolist()
    for number in range(5):
        G = gauss_newton(x[number : number + 1], p[number : number + 1])
        means = [float((V.T @ G @ V).trace()) / V.shape[1] for V in vectors.split(counts, dim=1)]
        torch.testing.assert_close(
            traces_on_eigenspaces(x, p)[number],
            torch.tensor(means, dtype=torch.float64),
            atol=1e-12,
            rtol=1e-9,
        )


def test_gauss_newton_is_that_of_the_network():
    network = nn.Linear(6, 4, bias=False).double()
    x = torch.randn(11, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    G = (
        gauss_newton(x, network(x).detach().softmax(1))
        .reshape(6, 4, 6, 4)
        .permute(1, 0, 3, 2)
        .reshape(24, 24)
    )
    torch.testing.assert_close(G, GaussNewton(network, (x, None)).dense())


@pytest.mark.parametrize(("C", "D"), [(4, 12), (6, 20)])
def test_samples_agree_with_the_theorem(C, D):
    options = {
        "classes": C,
        "inputs": D,
        "separation": 2.0,
        "alpha": 0.2,
        "separations": [2.0],
        "training": {"epochs": 3},
    }
    result = penchant.measure("logistic-theory", executor="serial", **options)
    measured, expected, stderr = (
        result.arrays[name] for name in ("measured", "theory", "measured-stderr")
    )
    print(
        f"(C, D) = ({C}, {D}), probabilities set: measured {measured[:3].round(5)}, theory {expected[:3].round(5)}, +- {stderr[:3].round(5)}"
    )
    print(
        f"  largest |z| {result.quantities['largest-deviation'].value:.2f}, 1 % point {result.quantities['critical-deviation'].value:.2f}"
    )
    print(
        f"  trained (a = {result.quantities['error-probability'].value:.3f}): {result.arrays['trained'][:3].round(4)}",
        end="",
    )
    print(
        f", theory {result.arrays['trained-theory'][:3].round(4)}, difference {result.quantities['trained-difference'].value:.2f}"
    )
    assert (
        result.quantities["largest-deviation"].value < result.quantities["critical-deviation"].value
    )
    assert abs(measured[3]) < 1e-12
    assert result.arrays["spectrum"].sum() == pytest.approx(
        float((result.arrays["measured"] * result.arrays["multiplicity"]).sum())
    )


def test_deviations_are_standard_normal():
    """Over many samples of the model the standardised deviations have spread one: the standard errors are right."""
    C, D, t, alpha = 4, 8, 2.0, 0.2
    generator = torch.Generator().manual_seed(0)
    z = []
    for _ in range(150):
        labels = torch.arange(400) % C
        x = torch.randn(400, D, generator=generator, dtype=torch.float64)
        x[torch.arange(400), labels] += t
        mean, stderr = mean_and_stderr(
            traces_on_eigenspaces(x, symmetric_probabilities(labels, C, alpha)), labels
        )
        z.append(((mean - theory(C, t, alpha)) / stderr)[:3])
    z = torch.stack(z)
    print(f"means {z.mean(0).tolist()}, spreads {z.std(0).tolist()}")
    assert (z.mean(0).abs() < 3.3 / 150**0.5 * 1.1).all()
    assert ((z.std(0) > 0.82) & (z.std(0) < 1.2)).all()


def test_the_null_of_outliers_to_bulk_is_the_classifier_before_training():
    """Classes that are apart raise the ratio of equal probabilities: (t^2 / C + r) / r, r = 1."""
    C, t = 4, 2.0
    options = {"classes": C, "inputs": 12, "separation": t, "separations": [t], "train": 20000}
    result = penchant.measure(
        "logistic-theory", executor="serial", training={"steps": 0}, **options
    )
    found = result.quantities["outliers-to-bulk"]
    assert found.value == pytest.approx(found.null)
    expected = theory(C, t, 1 - 1 / C)
    assert found.null == pytest.approx(float(expected[0] / expected[2]), rel=0.05)
    assert found.null > 1.5


def test_the_largest_of_three_has_the_p_value_of_three():
    from scipy.special import ndtri

    critical = -ndtri(0.005 / 3)
    assert _largest_p_value(critical, 3) == pytest.approx(0.01, rel=0.01)
    generator = torch.Generator().manual_seed(0)
    largest = torch.randn(100000, 3, generator=generator).abs().amax(1)
    share = float((largest > 2).double().mean())
    assert abs(share - _largest_p_value(2.0, 3)) < 4 * (share / 100000) ** 0.5
