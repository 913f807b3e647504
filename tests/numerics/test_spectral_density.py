"""Lanczos: densities against exact spectra, no ghosts, breakdown, sample space."""
# ruff: noqa: T201 (the numbers are shown with -s)

import pytest
import torch
from low_rank import LowRank
from penchant_numerics.curvature import GaussNewton
from penchant_numerics.linear_algebra import (
    Dense,
    exact_quadrature,
    lanczos_eigenpairs,
    log_density,
    quadrature,
)
from penchant_numerics.linear_algebra.lanczos import lanczos
from penchant_numerics.linear_algebra.spectral_density import spectral_density
from torch import nn

SIZE = 600  # of the spiked matrix


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=generator(seed), device="cpu", dtype=dtype)


def distance(density, places):
    """Wasserstein distance to exact places, as a share of their range."""
    found = density.density.cumsum(0) * density.spacing
    exact = torch.searchsorted(places, density.grid + density.spacing / 2).double() / len(places)
    return float((found - exact).abs().sum()) * density.spacing / float(places[-1] - places[0])


@pytest.fixture(scope="module")
def spiked():
    """diag(5, 4, 3, 0, ...) + Z Z^T / SIZE, and its eigenvalues."""
    Z = normal(SIZE, SIZE)
    Y = Z @ Z.T / SIZE + torch.diag(
        torch.tensor([5.0, 4.0, 3.0] + [0.0] * (SIZE - 3), device="cpu", dtype=torch.float64)
    )
    return Y, torch.linalg.eigvalsh(Y)


def test_spiked_matrix_has_its_density_and_its_spikes(spiked):
    Y, values = spiked
    measure = quadrature(Dense(Y), steps=128, starts=20, generator=generator(1))
    density = spectral_density(measure)
    assert density.variant == "full"
    assert density.mass() == pytest.approx(1, abs=1e-6)
    print(
        f"integral - 1: {density.mass() - 1:.1e}; distance {distance(density, values):.5f} of the range"
    )
    assert distance(density, values) < 0.005
    for value in values[-3:].tolist():
        offsets = [float((nodes - value).abs().min()) / density.width for nodes in measure.nodes]
        share = density.mass(value - 4 * density.width, value + 4 * density.width) * SIZE
        print(f"spike {value:.4f}: {max(offsets):.1e} widths off, mass {share:.4f} / {SIZE}")
        assert max(offsets) < 0.5
        assert share == pytest.approx(1, rel=0.3)
    assert measure.count(above=4.2) == 3
    assert len(measure.simple) >= 3


def test_without_reorthogonalisation_the_density_is_as_good_and_nothing_is_counted(spiked):
    Y, values = spiked
    measure = quadrature(Dense(Y), steps=128, starts=20, generator=generator(1), variant="none")
    density = spectral_density(measure)
    masses = [
        density.mass(value - 4 * density.width, value + 4 * density.width) * SIZE
        for value in values[-3:].tolist()
    ]
    print(
        f"none: distance {distance(density, values):.5f}, masses {masses}, each +- 0.32 by chance"
    )
    assert distance(density, values) < 0.005
    assert density.mass() == pytest.approx(1, abs=1e-6)
    assert all(abs(mass - 1) < 4 * 0.32 for mass in masses)  # chi-squared over twenty vectors
    with pytest.raises(ValueError, match="not counted without reorthogonalisation"):
        measure.count(above=4.2)


def test_known_pairs_have_their_exact_mass(spiked):
    Y, values = spiked
    pairs = lanczos_eigenpairs(Dense(Y), 3, generator=generator(), tolerance=1e-9)
    measure = quadrature(
        Dense(Y),
        steps=32,
        generator=generator(1),
        variant="none",
        known=(pairs.values, pairs.vectors),
    )
    density = spectral_density(measure)
    assert density.stderr is None
    assert density.mass() == pytest.approx(1, abs=1e-6)
    above = sum(
        float(weights[nodes > 4.2].sum()) for nodes, weights in zip(measure.nodes, measure.weights)
    )
    assert above * SIZE == pytest.approx(3, abs=1e-6)


def test_standard_errors_over_start_vectors_cover_the_mean(spiked):
    Y, _ = spiked
    few, many = (
        spectral_density(quadrature(Dense(Y), steps=24, starts=n, generator=generator(n)))
        for n in (8, 40)
    )
    grid = torch.linspace(0.5, 3.5, 30, device="cpu", dtype=torch.float64)
    at = [torch.searchsorted(each.grid, grid) for each in (few, many)]
    error = (few.stderr[at[0]].square() + many.stderr[at[1]].square()).sqrt()
    z = (few.density[at[0]] - many.density[at[1]]) / error
    print(f"z scores: rms {float(z.square().mean().sqrt()):.2f}")
    assert 0.2 < float(z.square().mean().sqrt()) < 2.5


def test_heavy_tails_are_seen_on_the_log_axis():
    Z = torch.rand(
        300, 600, generator=generator(), device="cpu", dtype=torch.float64
    ).reciprocal()  # Pareto, index 1
    Y = Z @ Z.T / 600
    places = (torch.linalg.eigvalsh(Y) + 1e-5).log()
    density = log_density(
        quadrature(Dense(Y), steps=128, starts=10, generator=generator(1)), epsilon=1e-5
    )
    nothing = torch.ones_like(density.grid)  # the distribution function of a point mass at zero
    exact = torch.searchsorted(places, density.grid + density.spacing / 2).double() / len(places)
    at_zero = float((nothing - exact).abs().sum()) * density.spacing / float(places[-1] - places[0])
    print(
        f"log axis: distance {distance(density, places):.4f} of the range, a point mass at zero {at_zero:.4f}"
    )
    assert density.log
    assert density.mass() == pytest.approx(1, abs=1e-6)
    assert distance(density, places) < 0.02
    assert at_zero > 0.1


@pytest.mark.parametrize("steps", [3, 64, 2048])
def test_densities_integrate_to_one_however_many_steps(steps):
    A = Dense(torch.diag(torch.logspace(-6, 1, 300, device="cpu", dtype=torch.float64)))
    measure = quadrature(A, steps=steps, starts=2, generator=generator())
    for density in (
        spectral_density(measure),
        log_density(measure, epsilon=1e-7),
        spectral_density(measure, points=64),
    ):
        assert density.mass() == pytest.approx(1, abs=1e-6)
        assert len(density.stderr) == len(density.grid)


@pytest.mark.parametrize("seed", range(4))
def test_twenty_distinct_eigenvalues_give_twenty_nodes(seed):
    for values in (torch.arange(1.0, 21.0), torch.logspace(-3, 0, 20)):
        A = Dense(torch.diag(values.to(torch.float64).repeat(10)))
        measure = quadrature(A, steps=64, starts=3, generator=generator(seed))
        assert [len(nodes) for nodes in measure.nodes] == [20, 20, 20]
        assert measure.complete
        for nodes in measure.nodes:
            torch.testing.assert_close(nodes, values.double(), rtol=1e-8, atol=1e-8)
        assert len(measure.simple) == 0  # each has multiplicity ten
        assert measure.count(above=float(values[-2:].mean())) == 1


def test_a_closed_krylov_space_stops_cleanly():
    A = Dense(torch.diag(torch.tensor([2.0, 2.0, 2.0, 7.0], device="cpu", dtype=torch.float64)))
    (T,) = lanczos(A, normal(1, 4), steps=4)
    assert T.complete
    assert len(T.diagonal) == 2
    density = spectral_density(
        quadrature(
            Dense(torch.eye(5, device="cpu", dtype=torch.float64)), generator=generator(), steps=5
        )
    )
    assert density.mass() == pytest.approx(1, abs=1e-6)
    assert float(density.grid[density.density.argmax()]) == pytest.approx(
        1, abs=2 * density.spacing
    )


def test_sample_space_has_the_spectrum_of_the_whole():
    V = normal(300, 12)
    A = LowRank(V)
    exact = torch.linalg.eigvalsh(V @ V.T)
    measure = quadrature(A, steps=64, starts=3, generator=generator())
    assert measure.variant == "sample"
    for nodes, weights in zip(measure.nodes, measure.weights):
        torch.testing.assert_close(nodes.sort().values[-12:], exact[-12:])
        assert float(weights[nodes.abs() < 1e-9].sum()) == pytest.approx(288 / 300)
        assert float(weights.sum()) == pytest.approx(1)
    assert measure.count(above=1e-6) == 12
    density = spectral_density(measure)
    assert density.mass() == pytest.approx(1, abs=1e-6)
    assert density.variant == "sample"
    with pytest.raises(ValueError, match="fewer columns than its 300 rows, found no factor"):
        quadrature(Dense(V @ V.T), variant="sample", generator=generator())
    with pytest.raises(ValueError, match="found 'fast'"):
        quadrature(A, variant="fast", generator=generator())


def test_a_multiple_of_the_identity_has_densities():
    for dtype in (torch.float32, torch.float64):
        A = Dense(3 * torch.eye(7, device="cpu", dtype=dtype))
        measure = quadrature(A, steps=5, starts=3, generator=generator())
        for density in (spectral_density(measure), log_density(measure)):
            assert density.mass() == pytest.approx(1, abs=1e-6)


def test_gauss_newton_in_sample_space():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, x = (
            nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)).double(),
            torch.randn(9, 6).double(),
        )
    G = GaussNewton(network, (x, None), batch=4)
    exact = torch.linalg.eigvalsh(G.dense()).flip(0)
    measure = quadrature(G, steps=64, starts=2, generator=generator())
    assert measure.variant == "sample"
    found = measure.nodes[0].sort(descending=True).values
    count = measure.count(above=1e-9, tolerance=1e-8)
    assert count == int((exact > 1e-9).sum())
    torch.testing.assert_close(found[:count], exact[:count], rtol=1e-8, atol=1e-10)


def test_zeros_are_added_by_count_and_all_eigenvalues_need_no_lanczos():
    V = normal(300, 12)
    whole, gram = quadrature(LowRank(V), steps=64, generator=generator()), Dense(V.T @ V)
    inner = quadrature(gram, steps=64, generator=generator(), zeros=288)
    assert inner.variant == "sample"
    grid = spectral_density(whole).grid
    densities = [spectral_density(each, grid=grid).density for each in (whole, inner)]
    torch.testing.assert_close(*densities)
    exact = exact_quadrature(torch.linalg.eigvalsh(V.T @ V), zeros=288, steps=64)
    assert spectral_density(exact).mass() == pytest.approx(1, abs=1e-6)
    assert float(exact.mean(lambda value: value)) * 300 == pytest.approx(float(V.square().sum()))
    assert exact.count(above=1e-6) == 12


def test_variant_follows_from_sizes_and_is_recorded():
    A = Dense(torch.diag(torch.arange(50.0, device="cpu", dtype=torch.float64)))
    assert quadrature(A, steps=20, generator=generator()).variant == "full"
    assert (
        quadrature(A, steps=20, generator=generator(), basis_bytes=20 * 50 * 8 - 1).variant
        == "none"
    )
    with pytest.raises(ValueError, match="found 1 and 1"):
        quadrature(A, steps=1, generator=generator())


def test_single_precision_is_enough_for_densities(spiked):
    Y, values = spiked
    density = spectral_density(
        quadrature(Dense(Y.float()), steps=64, starts=4, generator=generator(1))
    )
    assert distance(density, values) < 0.01
    assert density.mass() == pytest.approx(1, abs=1e-6)
