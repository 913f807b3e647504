"""The probe `hessian-spectrum` against dense Hessians, and the power law against known tails."""
# ruff: noqa: T201 (the numbers are shown with -s)

import doctest

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_class_structure.hessian_spectrum import negative_mass as negative_masses
from penchant_class_structure.hessian_spectrum import power_law as power_laws
from penchant_class_structure.hessian_spectrum.power_law import power_law, semicircle_slope
from penchant_class_structure.logistic_theory import canonical_model
from penchant_numerics.linear_algebra import Operator, exact_quadrature, quadrature
from penchant_testing.builders import run_unreported
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional

OPTIONS = {
    "architecture": {"name": "import", "factory": testing.TINY},
    "dataset": {"name": "import", "factory": "penchant_testing:tiny_samples"},
    "training": {"steps": 0},
    "executor": "serial",
    "dtype": "float64",
}


class Diagonal(Operator):
    """diag(d) by its products: as a matrix it would take most of the time."""

    def __init__(self, diagonal):
        super().__init__(len(diagonal), device=diagonal.device, dtype=diagonal.dtype)
        self.diagonal = diagonal

    def _rows(self, rows):
        return rows * self.diagonal


@pytest.mark.parametrize("module", [canonical_model, negative_masses, power_laws])
def test_examples_in_docstrings_run(module):
    assert doctest.testmod(module).failed == 0


def test_estimated_spectra_are_the_exact_ones():
    exact = penchant.measure("hessian-spectrum", **OPTIONS)
    free = penchant.measure(
        "hessian-spectrum", **OPTIONS, exact_limit=0, lanczos_steps=4, starts=1, trace_samples=50
    )
    for prefix in ("", "test-"):
        np.testing.assert_allclose(
            free.arrays[f"{prefix}top-eigenvalues"],
            exact.arrays[f"{prefix}top-eigenvalues"],
            rtol=1e-4,
        )
        for name in ("hessian", "gauss-newton"):
            found, expected = (
                free.quantities[f"{prefix}trace-{name}"],
                exact.quantities[f"{prefix}trace-{name}"],
            )
            assert abs(found.value - expected.value) <= 4 * (found.stderr or 1e-9)


def test_the_probe_measures_what_torch_func_gives(tmp_path):
    """The dense Hessian and G of the very network and samples of a run, rebuilt from its checkpoint and seed."""
    run = run_unreported(
        {
            "seeds": [3],
            "dtype": "float64",
            "executor": "serial",
            "figures": False,
            "store_networks": True,
            "architectures": [{"name": "import", "factory": testing.TINY}],
            "datasets": [{"name": "import", "factory": "penchant_testing:tiny_samples"}],
            "probes": [
                {
                    "name": "hessian-spectrum",
                    "split": "train",
                    "training": {"epochs": 2, "batch": 30},
                }
            ],
        },
        tmp_path / "run",
    )
    (result,) = run.results()
    (checkpoint,) = (tmp_path / "run" / "networks").glob("*/step-6-*.pt")
    state = torch.load(checkpoint, weights_only=True)["network"]
    network = testing.tiny_network((4,), 3).double()
    network.load_state_dict(state)
    seed = testing.seed(3, "dataset", "import")
    train, _ = testing.tiny_samples(torch.Generator().manual_seed(seed))
    x, y = train[0].double(), train[1]
    sizes = [value.numel() for value in state.values()]
    flat = torch.cat([value.flatten() for value in state.values()])

    def outputs(theta):
        pairs = zip(state.items(), theta.split(sizes))
        return functional_call(
            network, {name: own.view_as(value) for (name, value), own in pairs}, (x,)
        )

    H = hessian(lambda theta: functional.cross_entropy(outputs(theta), y))(flat)
    J, p = jacrev(outputs)(flat), outputs(flat).softmax(1)
    G = torch.einsum(
        "ncp,ncd,ndq->pq", J, torch.diag_embed(p) - p[:, :, None] * p[:, None], J
    ) / len(x)
    print(f"trace {float(H.trace()):.6f}, found {result.quantities['trace-hessian'].value:.6f}")
    assert result.quantities["trace-hessian"].value == pytest.approx(float(H.trace()), rel=1e-9)
    assert result.quantities["trace-gauss-newton"].value == pytest.approx(
        float(G.trace()), rel=1e-9
    )
    np.testing.assert_allclose(
        result.arrays["top-eigenvalues"], torch.linalg.eigvalsh(H).flip(0)[:3], rtol=1e-9
    )
    np.testing.assert_allclose(
        result.arrays["top-eigenvalues-gauss-newton"],
        torch.linalg.eigvalsh(G).flip(0)[:3],
        rtol=1e-9,
    )
    grid, density = result.arrays["density-grid"], result.arrays["density-residual"]
    mean = float((grid * density).sum() * (grid[1] - grid[0])) * len(H)
    assert mean == pytest.approx(
        float((H - G).trace()), abs=1e-6 * len(H) * float(np.abs(grid).max()) + 1e-9
    )


@pytest.mark.parametrize("exponent", [2.0, 3.0])
def test_power_laws_are_recovered_and_a_semicircle_is_not_one(exponent):
    places = (torch.arange(1, 4001, dtype=torch.float64) - 0.5) / 4000
    values = places ** (-1 / (exponent - 1))  # density ~ |value|^-exponent
    signs = torch.where(torch.arange(4000) % 2 == 0, 1.0, -1.0)
    measure = exact_quadrature(values * signs)
    line = power_law(measure, low=3 / float(values.max()), high=0.5)
    print(f"exponent {-exponent}, found {line.slope:.3f}, R^2 {line.fit:.4f}")
    assert line.slope == pytest.approx(-exponent, abs=0.15)
    assert line.fit > 0.98
    angles = torch.cos(torch.linspace(0, torch.pi, 4000, dtype=torch.float64))
    flat = power_law(exact_quadrature(angles), low=0.01, high=0.5)
    assert abs(flat.slope) < 0.2
    assert semicircle_slope(low=0.01, high=0.5) == pytest.approx(-0.02, abs=0.01)


def test_lanczos_sees_the_tail_too():
    values = ((torch.arange(1, 1501, dtype=torch.float64) - 0.5) / 1500) ** -0.5
    generator = torch.Generator().manual_seed(0)
    measure = quadrature(Diagonal(values), steps=200, starts=4, generator=generator)
    line = power_law(measure, low=0.04, high=0.5)
    assert line.slope == pytest.approx(-3, abs=0.4)
    assert line.fit > line.exponential


def laplace(count=4000):
    """Eigenvalues with the density exp(-|x|) / 2, which is no power law."""
    shares = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    signs = torch.where(torch.arange(count) % 2 == 0, 1.0, -1.0)
    return -torch.log(shares) * signs


@pytest.mark.parametrize("steps", [None, 256])
def test_a_laplace_spectrum_is_no_power_law(steps):
    values = laplace()
    measure = exact_quadrature(values) if steps is None else seen_by_lanczos(values, steps, 0)
    line = power_law(measure, low=0.01, high=0.5)
    assert line.exponential > 0.98
    assert line.fit < line.exponential - 0.05


def test_a_window_of_few_bins_has_no_line():
    """Three bins over 0.58 decades gave a Laplace spectrum the exponent -2.39 and R^2 0.986."""
    measure = seen_by_lanczos(laplace(), 48, 0)
    assert power_law(measure, low=0.01, high=0.5) is None
    assert power_laws.line_errors(measure, low=0.01, high=0.5) is None
    # one decade, six bins
    enough = seen_by_lanczos(laplace(), 150, 0)
    line = power_law(enough, low=0.01, high=0.5)
    assert len(line.positions) >= 6
    assert line.high / line.low >= 10
    assert power_law(exact_quadrature(laplace()), low=0.1, high=0.5) is None


def test_deflation_makes_bumps_narrower_and_leaves_the_mass():
    options = {**OPTIONS, "exact_limit": 0, "lanczos_steps": 20, "starts": 1, "split": "train"}
    options["matrices"] = ["hessian"]
    plain, deflated = (
        penchant.measure("hessian-spectrum", **options, deflate=deflate)
        for deflate in (False, True)
    )
    assert "top-eigenvalues" not in plain.arrays
    for result in (plain, deflated):
        grid = result.arrays["density-grid"]
        assert result.arrays["density-hessian"].sum() * (grid[1] - grid[0]) == pytest.approx(
            1, abs=1e-6
        )
    assert deflated.arrays["density-hessian"].max() > plain.arrays["density-hessian"].max()


def test_subspace_iteration_finds_the_same_pairs():
    options = {**OPTIONS, "exact_limit": 0, "split": "train", "lanczos_steps": 4, "starts": 1}
    options["matrices"] = ["hessian"]
    lanczos, subspace = (
        penchant.measure("hessian-spectrum", **options, method=method)
        for method in ("lanczos", "subspace")
    )
    np.testing.assert_allclose(
        lanczos.arrays["top-eigenvalues"],
        np.sort(subspace.arrays["top-eigenvalues"])[::-1],
        rtol=2e-2,
    )


def with_a_null_space(seed, size=400):
    """Eigenvalues like a network's: most are nearly zero, of both signs, and there are two tails."""
    generator = torch.Generator().manual_seed(seed)
    tiny = 1e-6 * torch.randn(size // 2, generator=generator, dtype=torch.float64)
    rest = torch.rand(size - len(tiny), generator=generator, dtype=torch.float64)
    signs = torch.where(torch.rand(len(rest), generator=generator) < 0.4, -1.0, 1.0)
    return torch.cat([tiny, signs * rest**3])


def seen_by_lanczos(values, steps, seed, starts=3):
    generator = torch.Generator().manual_seed(seed)
    return quadrature(Diagonal(values), steps=steps, starts=starts, generator=generator)


@pytest.mark.parametrize("steps", [16, 64])
def test_bounds_of_the_negative_mass_hold_and_its_error_is_honest(steps):
    """The exact share lies between the bounds, but for what start vectors differ; few steps see a coarser one."""
    far = []
    for seed in range(8):
        values = with_a_null_space(seed)
        measure = seen_by_lanczos(values, steps, seed, starts=6)
        found = negative_masses.negative_mass(measure, uncertain=0.1)
        exact = float((values < -found.resolution).double().mean())
        of_starts = (exact / len(values) / 3) ** 0.5
        assert found.least - 3 * of_starts <= exact <= found.most + 3 * of_starts
        assert found.least <= found.value <= found.most
        far.append((found.value - exact) / found.stderr)
    assert torch.tensor(far).square().mean().sqrt() < 1.5


def test_signs_of_a_null_space_do_not_enter_the_negative_mass():
    """The sum of weights of negative nodes, which was reported once, is far from any share."""
    values = with_a_null_space(0)
    measure = seen_by_lanczos(values, 48, 0)
    old = [
        float(weights[nodes < -1e-6].sum())
        for nodes, weights in zip(measure.nodes, measure.weights)
    ]
    found = negative_masses.negative_mass(measure, uncertain=0.1)
    exact = float((values < -found.resolution).double().mean())
    assert abs(found.value - exact) < 0.06
    assert max(abs(each - exact) for each in old) > 0.1


def test_all_eigenvalues_have_their_own_share():
    values = with_a_null_space(1)
    found = negative_masses.negative_mass(exact_quadrature(values), uncertain=0.1)
    assert found.stderr is None
    exact = float((values < -found.resolution).double().mean())
    assert found.value == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("steps", [150, 240])
def test_the_tail_is_that_of_all_eigenvalues_where_lanczos_resolves_it(steps):
    """In the window that the steps resolve, the slope is the exact one within its error."""
    far = []
    for seed in range(6):
        values = with_a_null_space(seed, size=1200)
        measure = seen_by_lanczos(values, steps, seed)
        low = power_laws.resolved_from(measure)
        assert low == pytest.approx(2 * np.pi / steps)
        line = power_law(measure, low=0.01, high=0.5)
        exact = power_law(exact_quadrature(values), low=low, high=0.5)
        error = power_laws.line_errors(measure, low=0.01, high=0.5).slope
        far.append((line.slope - exact.slope) / error)
    print(f"{steps} steps: (found - exact) / error {[round(each, 1) for each in far]}")
    assert torch.tensor(far).square().mean().sqrt() < 1.6


def test_densities_are_those_of_all_eigenvalues():
    """Smoothed alike, Lanczos and the exact spectrum differ by the error over start vectors."""
    exact = penchant.measure("hessian-spectrum", **OPTIONS, split="train", lanczos_steps=12)
    free = penchant.measure(
        "hessian-spectrum", **OPTIONS, split="train", exact_limit=0, lanczos_steps=12, starts=8
    )
    for name in ("hessian", "gauss-newton", "residual"):
        grid, expected = exact.arrays["density-grid"], exact.arrays[f"density-{name}"]
        found = np.interp(grid, free.arrays["density-grid"], free.arrays[f"density-{name}"])
        stderr = np.interp(grid, free.arrays["density-grid"], free.arrays[f"density-{name}-stderr"])
        apart = np.abs(found - expected) - 4 * stderr
        mass = np.clip(apart, 0, None).sum() * (grid[1] - grid[0])
        print(f"{name}: mass that differs by more than four errors {mass:.4f}")
        assert mass < 0.1


def tails_of(**options):
    quick = {"dataset": "digits:per_class=4", "split": "train"}
    quick["architecture"] = "mlp:widths=[8],activation=tanh"
    how = {"training": {"steps": 0}, "matrices": ["residual"], "executor": "serial"}
    return penchant.measure("hessian-spectrum", **quick, **how, **options)


def test_a_tail_that_lanczos_does_not_resolve_is_missing_and_warned_of():
    result = tails_of(exact_limit=0, lanczos_steps=24, starts=2)
    assert result.quantities["tail-exponent"].missing
    assert result.quantities["tail-fit"].missing
    assert any("no power law is fitted" in text for text in result.warnings)
    assert "tail-line" not in result.arrays


def test_the_window_of_the_tail_is_reported():
    result = tails_of(exact_limit=4000)
    low, high = result.arrays["tail-window"]
    assert high / low >= 10
    assert "decades" in result.conventions["tail (train)"]
    fit, exponential = result.quantities["tail-fit"], result.quantities["tail-fit-exponential"]
    warned = any("is no power law" in text for text in result.warnings)
    assert warned == (exponential.value >= fit.value)
