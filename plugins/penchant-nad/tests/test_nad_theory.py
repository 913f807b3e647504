"""Pooling theory, dipoles and agreement of estimators: closed forms, and what fails without the corrections."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant import testing
from penchant_nad import _pooling
from penchant_nad.dipole import lemma_bound
from penchant_nad.nad_agreement import corr, overlap, rotated_corr
from scipy.stats import norm

HOST = {"device": "cpu", "dtype": torch.float64}


def generator(seed):
    return torch.Generator(device="cpu").manual_seed(seed)


@pytest.mark.parametrize("stride", [2, 4, 8])
@pytest.mark.parametrize("prefilter", ["average", "none"])
def test_corrected_theorem_is_the_exact_discriminant(stride, prefilter):
    """Mahalanobis distance of the pooled classes, by linear algebra on the real pooling matrix: no Fourier transform."""
    taps, ratio = _pooling.window(64, stride, prefilter), 0.7
    chosen = _pooling.frequencies(64, stride)
    accuracies = _pooling.bayes_accuracies(taps, stride, chosen, ratio)
    pooling = _pooling.pooling_matrix(taps, stride)
    exact = []
    for frequency in chosen:
        v = _pooling.cosine((frequency,), (64,), **HOST)
        mean = ratio * pooling @ v
        exact.append(
            norm.cdf(math.sqrt(float(mean @ _pooling.discriminant(pooling, v, ratio, 1.0))))
        )
    np.testing.assert_allclose(accuracies.corrected, exact, atol=1e-6)
    if stride == 8:
        assert float((accuracies.text - accuracies.corrected).abs().max()) > 0.01
        assert float((accuracies.supplement - accuracies.corrected).abs().max()) > 0.01


@pytest.mark.parametrize("stride", [2, 4, 8])
def test_simulated_accuracy_is_the_corrected_theorem(stride):
    draws = 4000
    taps, chosen = _pooling.window(64, stride, "average"), _pooling.frequencies(64, stride)[::2]
    versions = _pooling.bayes_accuracies(taps, stride, chosen, 1.0)
    known = {"epsilon": 1.0, "sigma": 1.0, "draws": draws}
    found = torch.tensor(
        [
            _pooling.simulated_accuracy(taps, stride, each, generator=generator(each), **known)
            for each in chosen
        ],
        **HOST,
    )
    bound = norm.isf(0.005 / len(chosen))

    def deviation(expected):
        return float(
            (
                (found - expected).abs()
                / ((expected * (1 - expected)).clamp(min=1 / draws) / draws).sqrt()
            ).max()
        )

    assert deviation(versions.corrected) < bound
    if stride == 8:
        assert deviation(versions.text) > bound and deviation(versions.supplement) > bound


def test_low_pass_loses_nothing_it_lets_through():
    taps, chosen = _pooling.window(64, 4, "low-pass"), _pooling.frequencies(64, 4)
    accuracies = _pooling.bayes_accuracies(taps, 4, chosen, 1.0).corrected
    inside = torch.tensor([each < 8 for each in chosen])
    assert (accuracies[inside] == 1).all() and (accuracies[~inside] == 0.5).all()
    known = {"epsilon": 1.0, "sigma": 1.0, "draws": 400}
    assert _pooling.simulated_accuracy(taps, 4, 3, generator=generator(0), **known) == 1


def test_average_curvature_is_the_corrected_lemma():
    stride, chosen, draws = 4, [1, 5, 9, 14, 22, 31], 4000
    response = torch.fft.fft(_pooling.window(64, stride, "average")).abs()
    known = {"epsilon": 1.5, "sigma": 0.8}
    phi, theta = _pooling.curvature_law(response, stride, chosen, **known)
    scores, without_stride = [], []
    for number, each in enumerate(chosen):
        found = _pooling.measured_curvature(
            response, stride, each, draws=draws, generator=generator(each), **known
        )
        scores += [
            (found.phi - float(phi[number])) / found.phi_stderr,
            (found.theta - float(theta[number])) / found.theta_stderr,
        ]
        without_stride.append((found.phi - stride * float(phi[number])) / found.phi_stderr)
    bound = norm.isf(0.005 / len(scores))
    assert np.abs(scores).max() < bound < np.abs(without_stride).min()


def test_training_is_slower_where_zeta_is_small():
    response = torch.fft.fft(_pooling.window(32, 4, "average")).abs()
    descent = _pooling.Descent(steps=120, batch=32, rate=0.2, std=0.5, networks=6)
    known = {"epsilon": 1.0, "sigma": 0.3}
    low, high = (
        _pooling.loss_curves(response, 4, each, descent, generator=generator(1), **known).mean(1)
        for each in (1, 15)
    )
    difference = high - low
    assert float(difference.mean()) > 4 * float(difference.std() / math.sqrt(len(difference)))


def test_pooling_theory_conforms(tmp_path):
    small = {
        "size": 32,
        "draws": 200,
        "every": 3,
        "curves": 3,
        "steps": 20,
        "networks": 2,
        "batch": 8,
    }
    result = testing.check_probe("pooling-theory", tmp_path, **small)
    assert result.arrays["loss-curves"].shape == (3, 20)
    assert (
        result.arrays["frequency"].shape
        == result.arrays["simulation-stderr"].shape
        == result.arrays["zeta"].shape
    )
    with pytest.raises(penchant.Error, match="must be a multiple of stride"):
        penchant.measure("pooling-theory", size=30, executor="serial")


def test_lemma_bound_holds_with_alpha_and_not_with_its_square():
    draws = np.random.default_rng(0)
    slopes, sizes = draws.normal(size=(4000, 5)), 1 + draws.exponential(size=(4000, 5))
    alpha, beta = 0.2, 0.05
    measured = (alpha * np.abs(slopes) + beta) * sizes
    bound, stderr = lemma_bound(slopes, sizes, alpha, beta)
    assert (measured.mean(0) < bound).all()
    assert (measured.mean(0) > lemma_bound(slopes, sizes, alpha**2, beta)[0]).all()
    many = [
        lemma_bound(each[:, :1], other[:, :1], alpha, beta)[0]
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
        "every": 12,
        "networks": 96,
        "alpha": 0.1,
        "shape": shape,
        "executor": "serial",
    }
    result = penchant.measure("dipole", architecture=architecture, outputs=1, **options)
    arrays = result.arrays
    limit = norm.isf(0.01 / len(arrays["index"]))
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


def test_dipole_conforms_and_both_routes_to_the_mixed_derivative_agree(tmp_path):
    few = testing.check_probe(
        "dipole", tmp_path / "few", shape=(1, 6, 6), outputs=1, indices=[3], networks=8, beta=0.5
    )
    many = testing.check_probe(
        "dipole",
        tmp_path / "many",
        shape=(1, 6, 6),
        outputs=1,
        every=1,
        networks=8,
        beta=0.5,
        processes=False,
    )
    place = many.arrays["index"].tolist().index(3)
    for name in ("gradient-norm", "bound"):  # one direction by products, many by the matrix
        np.testing.assert_allclose(few.arrays[name][0], many.arrays[name][place], rtol=1e-4)


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


def test_agreement_conforms(tmp_path):
    both = [
        {"name": "gradient-covariance", "method": "impulse"},
        {"name": "gradient-covariance", "method": "autograd"},
    ]
    options = {"samples": 40, "shape": (1, 3, 4), "outputs": 1, "estimators": {"directions": both}}
    result = testing.check_probe("nad-agreement", tmp_path, **options)
    assert result.arrays["overlap"].shape == result.arrays["overlap-null"].shape == (12,)
    assert result.arrays["overlap"][-1] == pytest.approx(1)


@pytest.mark.slow
def test_both_estimators_agree_on_linear_pooling():
    pytest.importorskip("penchant_mixed")
    pytest.importorskip("penchant_architectures")
    architecture = {"name": "linear-pooling", "stride": 2, "prefilter": "average"}
    like = [{"name": "gradient-covariance", "method": "autograd"}, {"name": "mixed-derivative"}]
    options = {
        "samples": 400,
        "shape": (8,),
        "outputs": 1,
        "estimators": {"directions": like},
        "executor": "serial",
        "dtype": "float64",
    }
    result = penchant.measure("nad-agreement", architecture=architecture, **options)
    found = result.quantities["corr"]  # both are proportional to diag(m^2)
    assert abs(found.value - 1) < 4 * found.stderr and found.value - found.null > 4 * found.stderr
