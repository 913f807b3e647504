"""The estimator `mixed-derivative`: closed forms, both methods, matrix-free pairs, conformance."""

import math
from collections.abc import Callable

import attrs
import penchant
import pytest
import torch
from penchant import testing
from penchant_mixed import MixedDerivative
from penchant_mixed._block_krylov import leading_pairs
from penchant_mixed.mixed_derivative import as_text, estimate, from_text
from scipy.stats import norm
from torch import nn

CPU = torch.device("cpu")


@attrs.frozen
class Setting:
    """What the estimator needs of a context, without a run."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    outputs: int = 1
    dtype: torch.dtype = torch.float64
    device: torch.device = CPU

    @property
    def architecture(self):
        return self

    def seed_of(self, index):
        return 1000 + index

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make().eval()

    def generator(self, *keys):
        return torch.Generator(device="cpu").manual_seed(sum(map(len, map(str, keys))))

    def map(self, function, items):
        return (function(self, item) for item in items)


def smooth_mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(40, 20), nn.GELU(), nn.Linear(20, 1))


class Pooling(nn.Module):
    """f = theta . A (m * phi * x) with 12 inputs folded on 4."""

    def __init__(self):
        super().__init__()
        self.theta, self.phi = (
            nn.Parameter(2.0 * torch.randn(1, 4)),
            nn.Parameter(0.5 * torch.randn(12)),
        )
        self.register_buffer("m", torch.linspace(0.2, 1.3, 12))

    def forward(self, x):
        return (self.m * self.phi * x).unflatten(1, (3, 4)).sum(1) @ self.theta.T / math.sqrt(3)


def test_linear_pooling_has_its_closed_form_entry_by_entry():
    samples, s_t, s_p, folds = 400, 2.0, 0.5, 3
    found = estimate(MixedDerivative(), Setting(Pooling, (12,)), samples=samples)
    m = torch.linspace(0.2, 1.3, 12, dtype=torch.float64)
    law = (s_t**2 + s_p**2) / folds * torch.diag(m**2)
    aliased = (torch.arange(12)[:, None] - torch.arange(12)) % 4 == 0
    variances = (
        torch.outer(m, m).square() / folds**2 * (s_p**4 + torch.eye(12) * (s_p**4 + 2 * s_t**4))
    )
    scores = (found.matrix - law)[aliased] / (variances[aliased] / samples).sqrt()
    bound = norm.isf(0.005 / int(aliased.sum()))
    assert float(scores.abs().max()) < bound
    assert not found.matrix[~aliased].any()
    assert abs(found.trace - float(law.trace())) < norm.isf(0.005) * found.trace_stderr
    printed_in_the_paper = (s_t**2 + s_p**2 / folds) * torch.diag(m**2)
    off = (found.matrix - printed_in_the_paper).diagonal() / (variances.diagonal() / samples).sqrt()
    assert float(off.abs().min()) > bound


def test_linear_networks_give_the_identity_exactly():
    found = estimate(
        MixedDerivative(),
        Setting(lambda: nn.Sequential(nn.Flatten(), nn.Linear(30, 1)), (1, 5, 6)),
        samples=6,
    )
    assert torch.equal(found.matrix, torch.eye(30, dtype=torch.float64))
    assert found.trace == 30 and found.trace_stderr == 0


def test_two_logits_are_their_difference():
    found = estimate(
        MixedDerivative(), Setting(lambda: nn.Linear(7, 2), (7,), outputs=2), samples=3
    )
    assert torch.equal(found.matrix, 2 * torch.eye(7, dtype=torch.float64))
    with pytest.raises(penchant.Error, match="one output or two logits, found 3 outputs"):
        estimate(MixedDerivative(), Setting(lambda: nn.Linear(7, 3), (7,), outputs=3), samples=3)


def test_small_steps_are_the_derivative_and_large_ones_are_not():
    setting = Setting(smooth_mlp, (40,))
    exact = estimate(MixedDerivative(), setting, samples=8).matrix
    errors = [
        float(
            (
                estimate(
                    MixedDerivative(method="finite-difference", step=step), setting, samples=8
                ).matrix
                - exact
            ).norm()
            / exact.norm()
        )
        for step in (0.1, 0.05, 100.0)
    ]
    assert 1.9 < math.log2(errors[0] / errors[1]) < 2.1
    assert errors[2] > 0.1


@pytest.mark.parametrize("method", ["exact", "finite-difference"])
def test_leading_pairs_are_those_of_the_matrix(method):
    setting = Setting(smooth_mlp, (40,))
    whole = estimate(MixedDerivative(method=method, step=1.0), setting, samples=8)
    some = estimate(
        MixedDerivative(method=method, step=1.0, leading=3, tolerance=1e-9), setting, samples=8
    )
    torch.testing.assert_close(some.eigenvalues, whole.eigenvalues[:3], rtol=1e-9, atol=0)
    overlaps = (some.vectors @ whole.vectors[:3].T).abs()
    torch.testing.assert_close(overlaps, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-6)
    assert float(some.residuals.max()) <= 1e-9 * float(some.eigenvalues[0]) and not some.warnings
    actual = (some.vectors @ whole.matrix - some.eigenvalues[:, None] * some.vectors).norm(dim=1)
    torch.testing.assert_close(some.residuals, actual, rtol=0, atol=1e-10)
    assert abs(some.trace - whole.trace) < 4 * (some.trace_stderr + 1e-12)


def test_pairs_that_have_not_converged_say_so():
    some = estimate(
        MixedDerivative(leading=3, iterations=1, tolerance=1e-9),
        Setting(smooth_mlp, (40,)),
        samples=4,
    )
    assert "not converged in 1 passes" in some.warnings[0]


def test_large_inputs_need_leading():
    with pytest.raises(penchant.Error, match="set leading = k"):
        estimate(MixedDerivative(), Setting(lambda: nn.Linear(10000, 1), (10000,)), samples=2)
    with pytest.raises(penchant.Error, match="leading must be at most 7"):
        estimate(MixedDerivative(leading=8), Setting(lambda: nn.Linear(7, 1), (7,)), samples=2)


def test_more_networks_extend_fewer():
    """The moment of eight networks is the mean of those of the first four and of the others."""
    few, many = (
        estimate(MixedDerivative(), Setting(smooth_mlp, (40,)), samples=count) for count in (4, 8)
    )
    rest = 2 * many.matrix - few.matrix
    assert float(torch.linalg.eigvalsh(rest).min()) > -1e-12
    assert many.jackknife.shape == (2, 40) and few.jackknife is None


def test_block_krylov_stops_cleanly_when_the_space_is_exhausted():
    generator = torch.Generator(device="cpu").manual_seed(0)
    rank_two = torch.diag(torch.tensor([3.0, 2.0, 0, 0, 0, 0, 0, 0, 0, 0], dtype=torch.float64))
    pairs = leading_pairs(
        lambda rows: rows @ rank_two, 10, 4, generator=generator, passes=50, tolerance=1e-12
    )
    torch.testing.assert_close(
        pairs.eigenvalues, torch.tensor([3.0, 2, 0, 0], dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert pairs.passes < 5


def test_vectors_survive_the_way_to_a_shard():
    rows = torch.randn(3, 7, dtype=torch.float64)
    assert torch.equal(from_text(as_text(rows), 7), rows)


@pytest.mark.parametrize("offer", testing.offers("penchant-mixed"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


@pytest.mark.parametrize(
    "options", [{}, {"method": "finite-difference", "step": 10.0}, {"leading": 2}]
)
def test_probe_nad_takes_it(tmp_path, options):
    pytest.importorskip("penchant_nad")
    estimators = {"directions": {"name": "mixed-derivative", **options}}
    result = testing.check_probe(
        "nad",
        tmp_path,
        shape=[12],
        outputs=1,
        estimators=estimators,
        samples=9,
        processes="leading" in options,
    )
    assert ("residuals" in result.arrays) == ("leading" in options)
    assert "mixed derivative" in result.conventions


@pytest.mark.parametrize(
    "architecture",
    [{"name": "vit", "patch": 4, "layers": 2, "heads": 2, "width": 24, "hidden": 48}, "timm"],
)
def test_transformers_work(tmp_path, architecture):
    pytest.importorskip("penchant_nad")
    pytest.importorskip("penchant_timm" if architecture == "timm" else "penchant_architectures")
    named = {"name": "timm", "model": "test_vit"} if architecture == "timm" else architecture
    side = 32 if architecture == "timm" else 8
    estimators = {"directions": {"name": "mixed-derivative", "leading": 2, "iterations": 2}}
    options = {"shape": [1, side, side], "outputs": 1, "estimators": estimators, "samples": 4}
    result = testing.check_probe("nad", tmp_path, architecture=named, processes=False, **options)
    assert result.quantities["trace"].value > 0
