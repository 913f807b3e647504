"""Pooling theory, dipoles and agreement of estimators: closed forms, and what fails without the corrections."""

import math

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_nad.dipole.lemma_2 import Dipole, lemma_bound, tightness
from penchant_nad.nad_agreement.probe import mean_overlap_spread, overlap_spreads
from penchant_nad.pooling_theory import pooling
from penchant_nad.shared import rank_correlations
from penchant_numerics.inputs import rotated_corr_of_means as rotated_corr
from penchant_numerics.inputs.correlation import corr_of_means as corr
from penchant_numerics.inputs.pooling_filters import taps as taps_of
from penchant_numerics.linear_algebra import nested_overlaps as overlap
from scipy.stats import norm

HOST = {"device": "cpu", "dtype": torch.float64}


def generator(seed):
    return torch.Generator(device="cpu").manual_seed(seed)


@pytest.mark.parametrize("stride", [2, 4, 8])
@pytest.mark.parametrize("prefilter", ["average", "none"])
def test_corrected_theorem_is_the_exact_discriminant(stride, prefilter):
    """Mahalanobis distance of the pooled classes, by linear algebra on the real pooling matrix: no Fourier transform."""
    taps, ratio = taps_of(prefilter, inputs=64, stride=stride), 0.7
    chosen = pooling.frequencies(64, stride)
    accuracies = pooling.bayes_accuracies(taps, stride, chosen, ratio)
    matrix = pooling.pooling_matrix(taps, stride)
    classes = pooling.Classes(epsilon=ratio, sigma=1.0)
    exact = []
    for frequency in chosen:
        v = pooling.cosine((frequency,), (64,), **HOST)
        mean = ratio * matrix @ v
        distance = float(mean @ pooling.discriminant(matrix, v, classes))
        exact.append(norm.cdf(math.sqrt(distance)))
    np.testing.assert_allclose(accuracies.corrected, exact, atol=1e-6)
    if stride == 8:
        assert float((accuracies.text - accuracies.corrected).abs().max()) > 0.01
        assert float((accuracies.supplement - accuracies.corrected).abs().max()) > 0.01


UNIT = pooling.Classes(epsilon=1.0, sigma=1.0)


@pytest.mark.parametrize("stride", [2, 4, 8])
def test_simulated_accuracy_is_the_corrected_theorem(stride):
    simulations = 4000
    taps, chosen = (
        taps_of("average", inputs=64, stride=stride),
        pooling.frequencies(64, stride)[::4],
    )
    versions = pooling.bayes_accuracies(taps, stride, chosen, 1.0)
    found = []
    for each in chosen:
        found.append(
            pooling.simulated_accuracy(
                taps, stride, each, UNIT, simulations=simulations, generator=generator(each)
            )
        )
    found = torch.tensor(found, **HOST)
    bound = norm.isf(0.005 / len(chosen))

    def deviation(expected):
        variance = (expected * (1 - expected)).clamp(min=1 / simulations) / simulations
        return float(((found - expected).abs() / variance.sqrt()).max())

    assert deviation(versions.corrected) < bound
    if stride == 8:
        assert deviation(versions.text) > bound and deviation(versions.supplement) > bound


def test_low_pass_loses_nothing_it_lets_through():
    taps, chosen = taps_of("low-pass", inputs=64, stride=4), pooling.frequencies(64, 4)
    accuracies = pooling.bayes_accuracies(taps, 4, chosen, 1.0).corrected
    inside = torch.tensor([each < 8 for each in chosen])
    assert (accuracies[inside] == 1).all() and (accuracies[~inside] == 0.5).all()
    known = {"simulations": 400, "generator": generator(0)}
    assert pooling.simulated_accuracy(taps, 4, 3, UNIT, **known) == 1


def test_average_curvature_is_the_corrected_lemma():
    stride, chosen = 4, [1, 9, 22]
    response = torch.fft.fft(taps_of("average", inputs=64, stride=stride)).abs()
    classes = pooling.Classes(epsilon=1.5, sigma=0.8)
    phi, theta = pooling.curvature_law(response, stride, chosen, classes)
    scores, without_stride = [], []
    for number, each in enumerate(chosen):
        found = pooling.measured_curvature(
            response, stride, each, classes, simulations=4000, generator=generator(each)
        )
        scores += [
            (found.phi - float(phi[number])) / found.phi_stderr,
            (found.theta - float(theta[number])) / found.theta_stderr,
        ]
        without_stride.append((found.phi - stride * float(phi[number])) / found.phi_stderr)
    bound = norm.isf(0.005 / len(scores))
    assert np.abs(scores).max() < bound < np.abs(without_stride).min()


def test_training_is_slower_where_zeta_is_small():
    response = torch.fft.fft(taps_of("average", inputs=32, stride=4)).abs()
    descent = pooling.Descent(steps=60, batch=32, rate=0.2, std=0.5, trainings=6)
    classes = pooling.Classes(epsilon=1.0, sigma=0.3)
    low, high = (
        pooling.loss_curves(response, 4, each, classes, descent, generator=generator(1)).mean(1)
        for each in (1, 15)
    )
    difference = high - low
    assert float(difference.mean()) > 4 * float(difference.std() / math.sqrt(len(difference)))


def test_inputs_that_do_not_fit_the_stride_are_refused():
    with pytest.raises(penchant.Error, match="must be a multiple of stride"):
        penchant.measure("pooling-theory", inputs=30, executor="serial")


@pytest.mark.parametrize("two_sided", [True, False])
def test_the_null_of_the_largest_deviation_is_that_of_normal_numbers(two_sided):
    """Against the exact distribution: P(max <= x) = F(x)^n."""
    count = 30
    grid = np.linspace(-8, 8, 20001)
    single = norm.cdf(grid) - norm.cdf(-grid) if two_sided else norm.cdf(grid)
    below = np.clip(single, 0, 1) ** count
    density = np.diff(below)
    centre = (grid[1:] + grid[:-1]) / 2
    mean = float((centre * density).sum())
    spread = math.sqrt(float(((centre - mean) ** 2 * density).sum()))
    found = rank_correlations.largest_deviation(
        np.zeros(count), generator=generator(0), two_sided=two_sided
    )
    assert abs(found["null"] - mean) < 4 * spread / math.sqrt(rank_correlations.DRAWS)
    assert found["null_spread"] == pytest.approx(spread, rel=0.1)


def test_a_large_deviation_is_certain_to_one_standard_error():
    scores = np.array([0.0, 40.0, 1.0])
    found = rank_correlations.largest_deviation(scores, generator=generator(0), two_sided=True)
    assert found["value"] == 40 and found["stderr"] == pytest.approx(1, abs=0.1)


def test_lemma_bound_holds_with_alpha_and_not_with_its_square():
    draws = np.random.default_rng(0)
    slopes, sizes = draws.normal(size=(4000, 5)), 1 + draws.exponential(size=(4000, 5))
    alpha, beta = 0.2, 0.05
    measured = (alpha * np.abs(slopes) + beta) * sizes
    bound, stderr = lemma_bound(slopes, sizes, Dipole(alpha, beta))
    assert (measured.mean(0) < bound).all()
    assert (measured.mean(0) > lemma_bound(slopes, sizes, Dipole(alpha**2, beta))[0]).all()
    many = [
        lemma_bound(each[:, :1], other[:, :1], Dipole(alpha, beta))[0]
        for each, other in zip(np.split(slopes, 20), np.split(sizes, 20))
    ]
    assert (
        0.5 < np.std(many) / math.sqrt(20) / stderr[0] < 2
    )  # the delta method against twenty pieces


ARCHITECTURES = {
    "lenet": ({"name": "lenet", "activation": "gelu"}, (1, 16, 16)),
    "mlp": ({"name": "mlp", "widths": [30, 30], "activation": "gelu"}, (1, 8, 8)),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_lemma_2_and_markov_hold_at_every_direction(name):
    pytest.importorskip("penchant_architectures")
    architecture, shape = ARCHITECTURES[name]
    options = {
        "basis": "dft-cosine",
        "every": 24,
        "networks": 32,
        "alpha": 0.1,
        "shape": shape,
        "executor": "serial",
    }
    result = penchant.measure("dipole", architecture=architecture, outputs=1, **options)
    arrays = result.arrays
    limit = norm.isf(0.01 / len(arrays["indices"]))
    spread = np.hypot(arrays["gradient-norm-stderr"], arrays["bound-stderr"])
    assert ((arrays["gradient-norm"] - arrays["bound"]) / spread < limit).all()
    assert result.quantities["largest-excess"].value < limit
    assert result.quantities["largest-markov-excess"].value < limit
    with_square, its_spread = (
        0.1 * arrays["bound"],
        0.1 * arrays["bound-stderr"],
    )  # beta is 0: the bound is proportional to alpha
    excess = (arrays["gradient-norm"] - with_square) / np.hypot(
        arrays["gradient-norm-stderr"], its_spread
    )
    assert (excess > 0).all() and np.median(excess) > limit


def test_both_routes_to_the_mixed_derivative_agree():
    """One direction goes by products, many by the matrix."""
    architecture = {"name": "import", "factory": testing.TINY}
    arguments = {"shape": (1, 4, 4), "outputs": 1, "networks": 8, "beta": 0.5, "executor": "serial"}
    few = penchant.measure("dipole", architecture=architecture, indices=[3], **arguments)
    many = penchant.measure("dipole", architecture=architecture, every=1, **arguments)
    place = many.arrays["indices"].tolist().index(3)
    for name in ("gradient-norm", "bound"):
        np.testing.assert_allclose(few.arrays[name][0], many.arrays[name][place], rtol=1e-4)


def test_tightness_is_as_uncertain_as_its_spread_over_networks():
    draws = np.random.default_rng(1)
    values, errors = [], []
    for _ in range(40):
        slopes = draws.normal(size=(32, 1)) * np.ones(5)  # all directions share their networks
        sizes = 1 + draws.exponential(size=(32, 1)) * np.ones(5)
        value, error = tightness(slopes, sizes, Dipole(2.0, 0.0))
        values.append(value)
        errors.append(error)
    assert 0.7 < np.mean(errors) / np.std(values) < 1.4


def test_overlap_is_one_for_equal_spaces_and_k_over_d_for_random_ones():
    bases = [
        torch.linalg.qr(torch.randn(40, 40, generator=generator(seed), **HOST)).Q
        for seed in range(60)
    ]
    assert torch.allclose(overlap(bases[0], bases[0]), torch.ones(40, **HOST))
    curves = torch.stack([overlap(each, other) for each, other in zip(bases[::2], bases[1::2])])
    null = torch.arange(1, 41, **HOST) / 40
    scores = (curves.mean(0) - null)[:-1] / (curves.std(0)[:-1] / math.sqrt(len(curves)))
    assert float(scores.abs().max()) < norm.isf(0.005 / 39)
    assert math.isclose(float(curves[0, -1]), 1, rel_tol=1e-12)


def test_corr_has_no_bias_from_sampling():
    """Isotropic vectors: both moments are the identity, whose corr is 1; the plain cosine of the samples is far below."""
    groups = [torch.randn(4, 30, 40, generator=generator(seed), **HOST) for seed in range(40)]
    moments = [each.mT @ each / 30 for each in groups]
    values = torch.stack([corr(each, other) for each, other in zip(moments[::2], moments[1::2])])
    assert abs(float(values.mean()) - 1) < 4 * float(values.std() / math.sqrt(len(values)))
    plain = [
        (a.mean(0) * b.mean(0)).sum() / (a.mean(0).norm() * b.mean(0).norm())
        for a, b in zip(moments[::2], moments[1::2])
    ]
    assert float(torch.stack(plain).mean()) < 0.85
    assert math.isclose(
        float(rotated_corr(moments[0], moments[1])),
        float(corr(moments[0], moments[1])),
        rel_tol=0.1,
    )


def test_rotation_null_is_the_mean_over_rotations():
    spectrum = torch.diag(torch.linspace(0.1, 3, 20, **HOST) ** 3)
    groups = spectrum.expand(2, 20, 20)
    turns = [
        torch.linalg.qr(torch.randn(20, 20, generator=generator(seed), **HOST)).Q
        for seed in range(300)
    ]
    values = torch.stack([corr(groups, turn @ groups @ turn.T) for turn in turns])
    assert abs(float(values.mean() - rotated_corr(groups, groups))) < 4 * float(
        values.std() / math.sqrt(300)
    )


def test_spread_of_random_overlaps_is_what_random_bases_show():
    size, rank = 12, 5
    curves = []
    for seed in range(400):
        basis = torch.linalg.qr(torch.randn(size, size, generator=generator(seed), **HOST)).Q
        curves.append(overlap(torch.eye(size, **HOST), basis)[:rank])
    curves = torch.stack(curves)
    ratio = curves.std(0) / overlap_spreads(rank, size)
    assert float((ratio - 1).abs().max()) < 0.15
    assert float(curves.mean(1).std()) == pytest.approx(mean_overlap_spread(rank, size), rel=0.15)


def test_leading_pairs_are_refused_where_the_matrix_is_compared():
    pytest.importorskip("penchant_mixed")
    both = [{"name": "gradient-covariance"}, {"name": "mixed-derivative", "leading": 2}]
    arguments = {"shape": (6,), "outputs": 1, "networks": 16, "estimators": {"directions": both}}
    with pytest.raises(penchant.Error, match="found leading pairs only"):
        penchant.measure(
            "nad-agreement",
            architecture={"name": "import", "factory": testing.TINY},
            executor="serial",
            **arguments,
        )


def test_a_correlation_without_signal_is_missing_and_told():
    """Two isotropic sums of four networks: an unbiased squared norm may be negative."""
    from penchant_nad.nad_agreement.probe import Pair, _compared

    noise = torch.randn(4, 8, 8, generator=generator(0), **HOST)
    centred = noise - noise.mean(0)  # their mean is zero, so its unbiased square is negative
    result = _compared(Pair(centred, torch.eye(8, **HOST).expand(4, 8, 8), 8), ("one", "other"))
    corr_found = result.quantities["corr"]
    assert corr_found.missing and corr_found.stderr is None and result.missing == ("corr",)
    result.check()


@pytest.mark.slow
def test_both_estimators_agree_on_linear_pooling():
    pytest.importorskip("penchant_mixed")
    pytest.importorskip("penchant_architectures")
    architecture = {"name": "linear-pooling", "stride": 2, "prefilter": "average"}
    like = [{"name": "gradient-covariance", "method": "autograd"}, {"name": "mixed-derivative"}]
    options = {
        "networks": 400,
        "shape": (8,),
        "outputs": 1,
        "estimators": {"directions": like},
        "executor": "serial",
        "dtype": "float64",
    }
    result = penchant.measure("nad-agreement", architecture=architecture, **options)
    found = result.quantities["corr"]  # both are proportional to diag(m^2)
    assert abs(found.value - 1) < 4 * found.stderr and found.value - found.null > 4 * found.stderr
