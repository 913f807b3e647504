"""Gaps, overlaps of subspaces, and log densities of several spectra on one grid."""

import math

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.linear_algebra import Dense, exact_quadrature, quadrature, spectra


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def numbers(*values):
    return torch.tensor(values, device="cpu", dtype=torch.float64)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), device="cpu", dtype=torch.float64)


def orthonormal(size, count, seed=0):
    return torch.linalg.qr(normal(size, count, seed=seed)).Q


def test_the_largest_gap_and_its_margin_are_those_of_all_ratios():
    values = numbers(100.0, 50.0, 40.0, 4.0, 2.0, 0.1)
    gap = spectra.largest_gap(values, first=1, last=5)
    assert (gap.position, gap.ratio, gap.margin) == pytest.approx((5, 20.0, 2.0))
    assert spectra.largest_gap(values, first=2, last=4).position == 3
    assert spectra.largest_gap(values, first=3, last=3).margin == 10.0  # no other gap to beat


def test_a_window_ends_with_the_positive_eigenvalues_unless_a_floor_is_given():
    values = numbers(9.0, 8.0, 2.0, 0.0, -1e-18)
    assert spectra.largest_gap(values, first=1, last=4).position == 2
    assert spectra.largest_gap(values, first=1, last=4, floor=1e-300).position == 3
    with pytest.raises(ValueError, match="needs 4 that are positive, found 3"):
        spectra.largest_gap(values, first=3, last=4)


def test_overlap_is_one_for_equal_spaces_and_the_share_of_dimensions_for_random_ones():
    U = orthonormal(60, 6)
    turned = U @ orthonormal(6, 6, seed=1)
    assert spectra.subspace_overlap(U, turned) == pytest.approx(1)
    overlaps = [spectra.subspace_overlap(U, orthonormal(60, 6, seed=seed)) for seed in range(2, 42)]
    assert sum(overlaps) / 40 == pytest.approx(6 / 60, abs=0.02)


def test_nested_overlaps_are_those_of_each_leading_part():
    U, V = orthonormal(20, 5).T, orthonormal(20, 5, seed=1).T
    found = spectra.nested_overlaps(U, V)
    for k in range(1, 6):
        assert float(found[k - 1]) == pytest.approx(spectra.subspace_overlap(U[:k].T, V[:k].T))


def test_share_in_span_equals_the_projection_in_the_large_space():
    V, rows = normal(40, 12), normal(3, 12, seed=1)
    rows = torch.cat([rows, rows[:1] + rows[1:2]])  # a dependent row changes nothing
    K = V.T @ V
    values, vectors = torch.linalg.eigh(K)
    values, leading = values.flip(0)[:4], vectors.flip(1).T[:4]
    found = spectra.share_in_span(values, leading, rows, rows @ K @ rows.T)

    x = (V @ leading.T) / values.sqrt()  # unit eigenvectors of V V^T
    basis = torch.linalg.qr(V @ rows[:3].T).Q
    expected = (basis.T @ x).square().sum() / 4
    assert found == pytest.approx(float(expected))


@pytest.fixture(scope="module")
def measures():
    """One spectrum known entirely and by Lanczos, and a wider one."""
    values = torch.logspace(-4, 1, 300, device="cpu", dtype=torch.float64)
    seen = quadrature(Dense(torch.diag(values)), steps=60, starts=3, generator=generator())
    return [exact_quadrature(values, steps=60), seen, exact_quadrature(10 * values, steps=60)]


def test_densities_on_a_common_log_grid_integrate_to_one_and_are_where_the_eigenvalues_are(
    measures,
):
    grid = spectra.common_log_grid(measures, floor=1e-8, points=256, steps=60)
    exact, seen, shifted = (grid.density(measure) for measure in measures)
    for density, _ in (exact, seen, shifted):
        assert float(density.sum()) * grid.spacing == pytest.approx(1, abs=1e-9)
    assert exact[1] is None
    assert seen[1].shape == (256,)

    # ten times the eigenvalues are one decade further
    means = [
        float((density * grid.centres).sum()) * grid.spacing for density, _ in (exact, shifted)
    ]
    assert means[1] - means[0] == pytest.approx(1, abs=1e-3)

    # 300 eigenvalues over five decades
    middle = (grid.centres > -3) & (grid.centres < 0)
    assert float(exact[0][middle].mean()) == pytest.approx(0.2, rel=0.02)


def test_zeros_stand_at_the_floor():
    values = torch.ones(10, device="cpu", dtype=torch.float64)
    measure = exact_quadrature(values, zeros=30, steps=60)
    grid = spectra.common_log_grid([measure], floor=1e-6, points=512, steps=60)
    density, _ = grid.density(measure)
    low = grid.centres < -3
    assert float(density[low].sum()) * grid.spacing == pytest.approx(0.75, abs=1e-9)
    peak = grid.centres[int(density.argmax())]
    assert float(peak) == pytest.approx(-6, abs=2 * grid.spacing)


def test_log_densities_share_one_grid_that_spans_all(measures):
    found = spectra.log_densities({"a": measures[0], "b": measures[2]}, epsilon=1e-6, points=200)
    assert torch.equal(found["a"].grid, found["b"].grid)
    assert len(found["a"].grid) == 200
    assert float(found["a"].grid[-1]) > math.log(100.0)
    for density in found.values():
        assert density.mass() == pytest.approx(1, abs=1e-3)


def test_cumulative_sums_are_taken_on_the_host():
    """CUDA has no deterministic kernel for them."""
    values, first, second = normal(7).abs(), orthonormal(5, 5), orthonormal(5, 5, seed=1)
    expected = [spectra.trace_ratios(values), spectra.nested_overlaps(first, second)]
    with testing.emulated_device() as counts:
        found = [
            spectra.trace_ratios(values.to("emulated")),
            spectra.nested_overlaps(first.to("emulated"), second.to("emulated")),
        ]
        assert not any("cumsum" in name for name in counts.operators)
        assert all(each.device.type == "emulated" for each in found)
        found = [each.cpu() for each in found]
    for each, exact in zip(found, expected):
        torch.testing.assert_close(each, exact)
