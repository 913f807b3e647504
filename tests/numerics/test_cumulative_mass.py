"""Bounds of the cumulative mass against exact spectra, and the share of negative eigenvalues."""
# ruff: noqa: T201 (the numbers are shown with -s)

import pytest
import torch
from penchant_numerics.cumulative_mass import cumulative_bounds, mass_below, resolution_of
from penchant_numerics.eigenpairs import leading_pairs
from penchant_numerics.lanczos import random_starts
from penchant_numerics.lanczos_quadrature import exact_quadrature, quadrature
from penchant_numerics.operators import Dense, LowRank


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), device="cpu", dtype=torch.float64)


def matrix(values, seed=0):
    Q = torch.linalg.qr(normal(len(values), len(values), seed=seed)).Q
    return (Q * values) @ Q.T


SPECTRA = {
    "semicircle": torch.linalg.eigvalsh(normal(200, 200) + normal(200, 200).T),
    "null space": torch.cat([normal(60, seed=1), torch.zeros(140, dtype=torch.float64)]),
    "two clusters": torch.cat([normal(100, seed=2) / 50 - 3, normal(100, seed=3) / 50 + 3]),
}


@pytest.mark.parametrize("steps", [2, 7, 25])
@pytest.mark.parametrize("values", SPECTRA.values(), ids=list(SPECTRA))
def test_bounds_hold_for_the_measure_of_the_start_vector(values, steps):
    A = Dense(matrix(values))
    measure = quadrature(A, steps=steps, generator=generator(5))
    (start,) = random_starts(1, A, generator=generator(5))
    exact, vectors = torch.linalg.eigh(A.matrix)
    seen = (vectors.T @ (start / start.norm())).square()  # what the start vector sees

    span = float(exact[-1] - exact[0])
    at = torch.linspace(float(exact[0]) - 0.1 * span, float(exact[-1]) + 0.1 * span, 41)
    bounds = cumulative_bounds(measure, at.double())
    for place, lower, upper in zip(at.double(), bounds.lower, bounds.upper):
        truth = float(seen[exact <= place].sum())
        assert float(lower) - 1e-9 <= truth <= float(upper) + 1e-9
    gap = bounds.upper - bounds.lower
    assert bounds.lower_stderr is None
    print(f"{steps} steps: bounds {float(gap.mean()):.3f} apart on average")
    assert bool((gap >= -1e-15).all())


def test_bounds_are_nearer_with_more_steps_and_nearer_than_those_of_the_nodes():
    A = Dense(matrix(SPECTRA["semicircle"]))
    at = torch.linspace(-30, 30, 31).double()
    gaps = []
    for steps in (8, 32):
        measure = quadrature(A, steps=steps, generator=generator())
        bounds = cumulative_bounds(measure, at)
        gaps.append(float((bounds.upper - bounds.lower).mean()))
    assert gaps[1] < gaps[0] / 2

    # between two nodes the plain inequality leaves the weights of both open
    nodes, order = measure.nodes[0].sort()
    weights = measure.weights[0][order]
    plain = []
    for place in at:
        inside = int((nodes <= place).sum())
        plain.append(float(weights[max(0, inside - 1) : inside + 1].sum()))
    assert gaps[1] < 0.75 * sum(plain) / len(plain)


def test_known_eigenvalues_add_no_uncertainty():
    values = torch.cat([SPECTRA["semicircle"], torch.tensor([90.0, 80.0], dtype=torch.float64)])
    A = Dense(matrix(values))
    pairs = leading_pairs(A, 2)
    measure = quadrature(
        A, steps=12, starts=3, generator=generator(), known=(pairs.values, pairs.vectors)
    )
    at = torch.tensor([75.0, 85.0, 95.0], dtype=torch.float64)
    bounds = cumulative_bounds(measure, at)
    torch.testing.assert_close(
        bounds.upper - bounds.lower, torch.zeros(3).double(), atol=1e-8, rtol=0
    )
    torch.testing.assert_close(
        bounds.lower, torch.tensor([200, 201, 202]).double() / 202, atol=1e-8, rtol=0
    )


def test_zeros_of_sample_space_are_known_by_count():
    V = normal(120, 12)
    measure = quadrature(LowRank(V), steps=64, starts=2, generator=generator())
    found = mass_below(measure, 1e-6, resolution=1e-9)
    assert found.below == pytest.approx(108 / 120)
    assert (found.lower, found.upper) == pytest.approx((0.9, 0.9))


def test_the_mean_over_start_vectors_covers_the_exact_share():
    values = SPECTRA["null space"] + torch.where(SPECTRA["null space"] == 0, 0.0, -0.3)
    measure = quadrature(Dense(matrix(values)), steps=40, starts=12, generator=generator(3))
    resolution = 0.1
    truth = float((values < -resolution).double().mean())
    found = mass_below(measure, resolution=resolution)
    print(f"below {found.below:.3f} +- {found.below_stderr:.3f}, truth {truth:.3f}; "
          f"bounds {found.lower:.3f} to {found.upper:.3f}")  # fmt: skip
    assert found.lower <= found.below <= found.upper
    slack = 4 * found.below_stderr
    assert found.lower - slack <= truth <= found.upper + slack
    assert found.within > 0.6


def test_signs_beside_a_null_space_are_not_taken_for_signs():
    """A few eigenvalues below zero pull the node of the whole null space with them."""
    values = torch.cat([normal(40, seed=7).abs() + 0.5, torch.zeros(360, dtype=torch.float64)])
    values[40:60] = -0.01
    measure = quadrature(Dense(matrix(values)), steps=8, starts=4, generator=generator())
    signs = zip(measure.nodes, measure.weights)
    naive = sum(float(weights[nodes < 0].sum()) for nodes, weights in signs) / 4
    found = mass_below(measure)
    print(f"naive {naive:.3f}, below {found.below:.3f}, within {found.within:.3f}, truth 0.05")
    assert naive > 0.5  # what the plain sum over negative nodes says
    assert found.below == 0.0
    assert found.within == pytest.approx(0.9, abs=0.1)
    assert found.resolution == resolution_of(measure)


def test_all_eigenvalues_leave_nothing_open():
    values = torch.tensor([-3.0, -1.0, 0.0, 2.0], device="cpu")
    found = mass_below(exact_quadrature(values, zeros=4))
    assert (found.below, found.within) == (0.25, 0.625)
    assert (found.lower, found.upper) == (0.25, 0.25)
    assert found.below_stderr is None
