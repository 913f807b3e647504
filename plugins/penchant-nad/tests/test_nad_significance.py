"""Numbers are called significant where they are, with the errors that they have."""

import math
import os
from pathlib import Path

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_nad.nad import probe
from penchant_nad.pooling_theory.probe import rank_correlation_stderr
from penchant_nad.shared import image_trainings
from penchant_nad.shared.rank_correlations import largest_deviation
from penchant_numerics.inputs import isotropic_spectra
from penchant_numerics.statistics import binomial_stderr
from scipy.stats import spearmanr

HERE = str(Path(__file__).parent)
FAST = {"executor": "serial", "figures": False}
TINY = {"name": "import", "factory": testing.TINY}
HALF = {"name": "import", "factory": "nad_test_images:HalfBlind"}
TWO_OF_GRADIENTS = {"directions": ["gradient-covariance", "gradient-covariance:method=autograd"]}


@pytest.fixture(autouse=True)
def _networks(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]))


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


# ---- errors against their spread


def test_the_error_of_a_deviation_from_a_wrong_theory_is_its_spread():
    """The theory expects accuracies near 1, whose errors are far smaller than the true ones."""
    truth, theory, samples = np.array([0.9, 0.93, 0.95]), np.full(3, 0.995), 1000
    expected = binomial_stderr(theory, samples)
    random = np.random.default_rng(0)
    values, errors = [], []
    for seed in range(40):
        shares = random.binomial(samples, truth) / samples
        found = largest_deviation(
            (shares - theory) / expected,
            generator=generator(seed),
            two_sided=True,
            spreads=binomial_stderr(shares, samples) / expected,
        )
        values.append(found["value"])
        errors.append(found["stderr"])
    spread = np.std(values, ddof=1)
    assert 0.5 < np.mean(errors) / spread < 2
    assert spread > 3, "a standard error of one would be far too small"


def test_the_error_of_a_rank_correlation_of_given_pairs_is_over_trainings():
    random = np.random.default_rng(1)
    order = np.arange(5.0)
    values, errors = [], []
    for seed in range(60):
        efforts = order[:, None] + random.normal(0, 1.6, (5, 4))
        values.append(spearmanr(efforts.mean(1), order).statistic)
        errors.append(rank_correlation_stderr(efforts, order, generator=generator(seed)))
    ratio = np.sqrt(np.mean(np.square(errors))) / np.std(values, ddof=1)
    assert 0.5 < ratio < 2


def test_the_theory_of_pooling_says_what_its_correlation_is_over():
    result = penchant.measure(
        "pooling-theory",
        inputs=32,
        simulations=100,
        steps=20,
        trainings=4,
        batch=8,
        every=2,
        **FAST,
    )
    found = result.quantities["rank-correlation"]
    assert found.over == "trainings (bootstrap)" and found.count == 4
    assert found.p is not None and found.p >= 1 / 60
    assert result.quantities["text-deviation"].p is not None


# ---- paired differences


def test_what_both_conditions_share_cancels_in_their_difference():
    random = np.random.default_rng(2)
    hard = random.random(400) < 0.5  # samples that no training gets right
    right = ~hard & (random.random((3, 400)) < 0.98)
    worse = right & (random.random((3, 400)) < 0.95)
    axes = {"training": range(3), "sample": range(400)}
    before, after = (penchant.Table(each, axes) for each in (right, worse))
    crossed = ("training", "sample")
    fall = before.minus(after).mean(crossed, null=0.0).quantity()
    both = [table.mean(crossed, null=0.1).quantity() for table in (before, after)]
    assert fall.value == pytest.approx(both[0].value - both[1].value)
    assert fall.stderr < 0.4 * math.hypot(both[0].stderr, both[1].stderr)
    assert fall.df >= 2 and fall.count == 3


def test_flipped_and_poisoned_accuracies_are_compared_in_pairs():
    images = {"name": "import", "factory": "nad_test_images:few"}
    arguments = {
        "architecture": TINY,
        "dataset": images,
        "directions": np.eye(16).tolist(),
        "training": {"steps": 2, "batch": 16},
        "trainings": 3,
        **FAST,
    }
    flipped = penchant.measure("flipped-accuracy", **arguments).quantities
    difference = flipped["original-test-accuracy"].value - flipped["flipped-test-accuracy"].value
    assert flipped["fall"].value == pytest.approx(difference)
    assert flipped["fall"].df >= 2 and flipped["fall"].null == 0

    result = penchant.measure("poisoned-accuracy", carriers=[8, 0], **arguments)
    accuracy = result.arrays["test-accuracy"]
    clean = result.quantities["clean-test-accuracy"].value
    np.testing.assert_allclose(result.arrays["test-accuracy-change"], accuracy - clean)
    assert result.quantities["rise"].value == pytest.approx(accuracy[0] - accuracy[1])
    assert (result.arrays["test-accuracy-change-df"] >= 2).all()


def test_the_null_of_an_accuracy_is_the_commonest_class():
    labels = torch.tensor([0, 0, 0, 1, 2], device="cpu")
    assert image_trainings.commonest_class(labels) == pytest.approx(0.6)


# ---- directions


def test_isotropic_spectra_have_no_preferred_direction():
    norms = torch.rand(60, generator=generator(), device="cpu", dtype=torch.float64) + 0.5
    stream = generator(1)
    found = 0
    for _ in range(40):
        spectra = isotropic_spectra(norms, 30, generator=stream, draws=21)
        found += probe.count_above(spectra[0].numpy(), probe.isotropic_limits(spectra[1:])) > 0
    assert found <= 3, "1 % of the first eigenvalues, one-sided 0.5 %"


def test_directions_count_up_to_the_first_that_is_not_above_its_limit():
    values = np.array([[9.0, 4.0, 1.0, 0.9], [2.0, 4.0, 3.0, 1.0]])
    found = probe.count_above(values, np.array([3.0, 2.0, 1.0, 0.5]))
    assert found.tolist() == [2, 0]


def test_one_input_has_no_direction_above_the_null():
    null = torch.full((20, 1), 0.3, device="cpu", dtype=torch.float64)
    value = null[0] * (1 + 1e-15)
    assert probe.count_above(value.numpy(), probe.isotropic_limits(null)) == 0
    assert probe.first_p_value(value, null) == 1


def test_the_error_of_the_count_is_its_spread():
    """Three eigenvalues with known errors around their limits."""
    random = np.random.default_rng(5)
    truth, stderr, limits = (
        np.array([4.0, 2.2, 0.9]),
        np.array([0.3, 0.2, 0.2]),
        np.array([3, 2, 1]),
    )
    values, errors = [], []
    for seed in range(60):
        own = truth + stderr * random.standard_normal(3)
        values.append(probe.count_above(own, limits))
        errors.append(probe.count_stderr(own, stderr, limits, generator=generator(seed)))
    assert 0.5 < np.mean(errors) / np.std(values, ddof=1) < 2


def test_few_networks_say_how_many_directions_lie_above_the_null():
    result = penchant.measure("nad", architecture=TINY, shape=(1, 8, 8), networks=16, **FAST)
    above = result.quantities["directions-above-null"]
    (text,) = result.warnings
    expected = f"at most 16 directions can be estimated; {above.value:.0f} of them lie above"
    assert expected in text
    assert above.stderr is not None and 0 < above.p <= 1


def test_inputs_that_no_network_sees_are_counted():
    result = penchant.measure("nad", architecture=HALF, shape=(1, 4, 4), networks=40, **FAST)
    (text,) = result.warnings
    assert text.startswith("16 inputs, of which 8 reach the output")


@pytest.mark.parametrize(
    ("probe", "options"),
    [
        ("nad", {"networks": 40}),
        ("nad-agreement", {"networks": 12, "groups": 4, "estimators": TWO_OF_GRADIENTS}),
        ("dipole", {"basis": "canonical", "networks": 8}),
        ("directional-accuracy", {"networks": 40, "training": {"steps": 1}}),
    ],
)
def test_a_constant_network_is_refused(probe, options):
    blind = {"name": "import", "factory": "nad_test_images:Blind"}
    with pytest.raises(penchant.Error, match="exactly zero in every network"):
        penchant.measure(probe, architecture=blind, shape=(1, 4, 4), **options, **FAST)


def test_an_untrained_network_has_no_losses():
    result = penchant.measure(
        "directional-accuracy",
        architecture=TINY,
        shape=(1, 4, 4),
        basis="canonical",
        every=8,
        train=16,
        test=16,
        training={"steps": 0},
        **FAST,
    )
    assert np.isnan(result.arrays["steps-to-loss"]).all()
    assert result.quantities["reached-share"].value == 0


def test_directions_that_are_not_above_the_null_are_pale():
    from penchant_nad.nad.figures import VEIL, draw

    result = penchant.measure("nad", architecture=HALF, shape=(1, 4, 4), networks=200, **FAST)
    above = int(result.quantities["directions-above-null"].value)
    assert 0 < above < 12
    figure = draw(result)["directions"]
    opacities = {}
    for axes in figure.axes:
        if axes.get_title():
            opacities[int(axes.get_title())] = axes.images[0].get_alpha()
    for index, opacity in opacities.items():
        assert opacity == (None if index < above else VEIL)
