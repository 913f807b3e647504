"""Nulls: what a basis, a classifier, a plane or a training without the effect gives."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.statistics import random_rotation
from penchant_spectral_bias.class_paths import elastic_band
from penchant_spectral_bias.declarations.curves import ManifoldAccuracy
from penchant_spectral_bias.frequency_learning import figures as frequency_learning
from penchant_spectral_bias.kernel_spectrum import probe as kernel_spectrum
from penchant_spectral_bias.kernel_spectrum.gaussian_kernel import grid_eigenvectors, grid_slope
from penchant_spectral_bias.manifold_accuracy.probe import _accuracy_quantities
from penchant_spectral_bias.manifold_accuracy.radial_spectrum import radial_spectrum, rounding_floor
from penchant_spectral_bias.noise_on_manifold.probe import matched_plane, normal_cloud
from penchant_spectral_bias.shared.band_spectra import decay_exponent
from penchant_spectral_bias.shared.waves import against_control, in_steps
from scipy import stats
from torch import nn

HOST = {"device": "cpu", "dtype": torch.float64}
ADAM = {"optimizer": "adam", "learning_rate": 0.01, "batch": 0}


def stream(seed=0):
    return torch.Generator(device="cpu").manual_seed(seed)


# ---- comparisons


def test_control_of_as_many_trainings_is_compared_by_welchs_test():
    values, control = torch.randn(2, 4, generator=stream(1), **HOST)
    found = against_control(values, control, paired=False)
    expected = stats.ttest_ind(values.numpy(), control.numpy(), equal_var=False).pvalue
    assert found.p == pytest.approx(expected, rel=1e-9)


def test_few_controls_are_compared_with_their_own_degrees_of_freedom():
    """At the p-value, the difference is the mean of both points, weighted by variance."""
    random = stream(1)
    values, control = (torch.randn(count, generator=random, **HOST) for count in (4, 7))
    found = against_control(values, control, paired=False)
    variances = np.array([float(each.var()) / len(each) for each in (values, control)])
    points = stats.t.isf(found.p / 2, [3, 6])
    size = abs(found.value - found.null) / variances.sum() ** 0.5
    assert size == pytest.approx(points @ variances / variances.sum(), rel=1e-9)
    assert found.p > stats.ttest_ind(values.numpy(), control.numpy(), equal_var=False).pvalue
    assert found.df == 3 and found.null == pytest.approx(float(control.mean()))
    # the spread of a mean over four such trainings
    assert found.null_spread == pytest.approx(float(control.std()) / 2)


def test_pairs_are_compared_by_students_test():
    values, control = torch.randn(2, 5, generator=stream(2), **HOST)
    found = against_control(values, control, paired=True)
    expected = stats.ttest_rel(values.numpy(), control.numpy()).pvalue
    assert found.p == pytest.approx(expected, rel=1e-9)


def test_one_training_has_no_p_and_no_degrees_of_freedom():
    one = torch.ones(1, **HOST)
    assert against_control(one, one, paired=True).p is None
    assert against_control(one, one, paired=False).p is None
    assert in_steps(one, 1.0).df is None and in_steps(one.expand(3), 1.0).df == 2


# ---- kernel-spectrum


def cloud(generator):
    inputs = 2 * torch.rand(120, 2, generator=generator, device="cpu") - 1
    labels = (inputs[:, 0] > 0).long()
    return (inputs, labels), (inputs, labels)


def relu_network(shape, outputs):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(shape), 64), nn.ReLU(), nn.Linear(64, outputs)
    )


def _random_basis(values, vectors, generator):
    return values, random_rotation(len(vectors), generator=generator)


def _dealt_to_wrong_samples(values, vectors, generator):
    order = torch.randperm(len(vectors), generator=generator, device="cpu")
    return values, vectors[:, order]


@pytest.mark.parametrize("broken", [_random_basis, _dealt_to_wrong_samples])
def test_eigenvectors_that_are_none_show_no_order(broken, monkeypatch):
    """Noise grows with the number, so that any basis has an order; its null was 0."""
    eigenvectors = kernel_spectrum.eigenvectors
    generator = stream()

    def wrong(points, width):
        return broken(*eigenvectors(points, width), generator)

    monkeypatch.setattr(kernel_spectrum, "eigenvectors", wrong)
    result = penchant.measure(
        "kernel-spectrum",
        architecture=relu_network,
        dataset=cloud,
        training={**ADAM, "steps": 60},
        chosen_classes=(0, 1),
        samples=60,
        kernel_width=0.5,
        bins=10,
        executor="serial",
    )
    found = result.quantities["rank-correlation"]
    assert found.value > 0.5 and found.null > 0.5
    for name in ("rank-correlation", "dip", "noise-at-dip", "noise-at-end"):
        assert result.quantities[name].p > 0.01, name


def test_slope_of_eigenvectors_on_a_grid_is_a_half():
    """Cosines have exactly n / 2 periods (a closed form); eigenvectors nearly so."""
    places = (torch.arange(50, **HOST) + 0.5) / 50
    cosines = torch.cos(math.pi * torch.arange(50, **HOST)[:, None] * places)
    assert grid_slope(cosines) == pytest.approx(0.5, abs=0.01)
    assert grid_slope(grid_eigenvectors(50, 0.04, device="cpu")) == pytest.approx(0.5, abs=0.01)
    draws = [grid_slope(random_rotation(50, generator=stream(n))) for n in range(50)]
    assert abs(np.mean(draws)) < 0.04 and max(draws) < 0.3


# ---- manifold-accuracy


class Constant(nn.Module):
    """The same logit everywhere."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, device="cpu"))

    def forward(self, x):
        return 0 * x.flatten(1)[:, :1] + self.bias


def test_constant_classifier_is_the_null_of_accuracies():
    """40 cycles on 200 samples are 60 : 40: its null was 0.5, and it was called +4.9 errors."""
    result = penchant.measure(
        "manifold-accuracy",
        architecture=lambda shape, outputs: Constant(),
        training={**ADAM, "learning_rate": 0.1, "steps": 30, "loss": "cross-entropy"},
        frequencies=(20, 40),
        petal_counts=(0, 3),
        samples=200,
        trainings=3,
        grid_points=16,
        shape=(2,),
        executor="serial",
    )
    found = result.quantities
    shares = result.arrays["commonest-share"]
    np.testing.assert_allclose(shares, [[0.5, 0.6]] * 2)
    assert found["train-accuracy"].value == pytest.approx(0.55) == found["train-accuracy"].null
    assert found["train-accuracy"].df == 2
    # a network that is equally right at all frequencies loses nothing
    assert found["frequency-loss"].value == pytest.approx(-0.1)
    assert found["frequency-loss"].null == 0
    assert any("nothing was learnt" in text for text in result.warnings)


def test_networks_equally_right_at_all_frequencies_lose_nothing():
    """Labels in random order along the curve: the null was -0.1, of the most frequent class."""
    options = ManifoldAccuracy(frequencies=(20, 40), petal_counts=(0,), samples=200, trainings=4)
    random = torch.Generator().manual_seed(0)
    accuracy = 0.8 + 0.02 * torch.randn(4, 1, 2, generator=random, dtype=torch.float64)
    axes = {"training": range(4), "petals": (0,), "frequency": (20, 40)}
    table = penchant.Table(accuracy, axes)
    found = _accuracy_quantities(options, table, 0.55)["frequency-loss"]
    assert found.value == pytest.approx(float((accuracy[:, 0, 0] - accuracy[:, 0, 1]).mean()))
    assert found.null == 0 and found.null_p_value > 0.05


def test_decay_of_networks_is_compared_with_that_before_training():
    options = {"frequencies": (3,), "petal_counts": (2,), "samples": 24, "trainings": 1}
    result = penchant.measure(
        "manifold-accuracy",
        architecture=relu_network,
        training={**ADAM, "steps": 0, "loss": "cross-entropy"},
        grid_points=16,
        shape=(2,),
        executor="serial",
        **options,
    )
    found = result.quantities["network-decay"]
    assert found.value == found.null and found.p == 1.0 and found.over == "networks"


# ---- noise-on-manifold


def test_plane_has_the_length_and_the_spread_of_the_images():
    """Scaled to the length alone, its variance was half of the images'."""
    images = 3 + torch.randn(60, 12, generator=stream(1), **HOST)
    plane = torch.zeros(60, 12, **HOST)
    plane[:, :4] = torch.rand(60, 4, generator=stream(2), **HOST)
    found = matched_plane(plane, images, features=4)
    for points in (found, normal_cloud(images, generator=stream(3))):
        squares = points.square().sum(1).mean()
        assert float(squares) == pytest.approx(float(images.square().sum(1).mean()), rel=1e-9)
        variance = points.var(0).sum()
        assert float(variance) == pytest.approx(float(images.var(0).sum()), rel=1e-9)
    assert (found[:, 4:] == 0).all()
    assert torch.linalg.matrix_rank(found - found.mean(0)) == 4


def test_normal_cloud_has_the_covariance_of_the_images():
    mixing = torch.randn(5, 5, generator=stream(4), **HOST)
    images = torch.rand(20000, 5, generator=stream(5), **HOST) @ mixing + 2
    found = normal_cloud(images, generator=stream(6))
    np.testing.assert_allclose(found.mean(0), images.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.T.cov(), images.T.cov(), atol=0.05)
    # normal: no excess kurtosis, which sums of uniform numbers have
    assert np.abs(stats.kurtosis(found.numpy())).max() < 0.15


# ---- peak-ablation


class Shifted(nn.Module):
    """A peak at another place: the amplitudes of the peak, and other phases."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, device="cpu"))

    def forward(self, z):
        at = (z.flatten(1)[:, :1] * 16).round()
        return (at == 3).to(z.dtype) + 0 * self.weight


def test_a_peak_elsewhere_is_no_reach():
    """|f_k| has all of the target's amplitude: reach was 1."""
    result = penchant.measure(
        "peak-ablation",
        architecture=lambda shape, outputs: Shifted(),
        training={**ADAM, "steps": 1},
        samples=16,
        weight_clips=(0.0,),
        trainings=2,
        eval_every=1,
        shape=(1,),
        embedding="coordinates",
        executor="serial",
    )
    np.testing.assert_allclose(result.arrays["amplitude"][0, -1], 1 / 16, rtol=1e-6)
    shift = (3 - int(result.arrays["target"].argmax())) / 16
    expected = np.cos(2 * math.pi * result.arrays["frequencies"] * shift)
    np.testing.assert_allclose(result.arrays["learnt-share"][0, -1], expected, atol=1e-6)
    assert result.quantities["reach"].value == pytest.approx((expected >= 0.5).mean())
    assert result.quantities["reach"].p == 1.0  # as before training


# ---- class-paths


class NoCumsum(torch.overrides.TorchFunctionMode):
    """`cumsum` of floats has no deterministic kernel on CUDA."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        assert "cumsum" not in function.__name__
        return function(*arguments, **(keywords or {}))


def test_pivots_are_spread_evenly_without_cumsum():
    path = torch.randn(3, 9, 4, generator=stream(), **HOST)
    with NoCumsum():
        found = elastic_band._spread(path)
    # along the old path, which numpy measures, pivots are equally far from each other
    for old, new in zip(path.numpy(), found.numpy()):
        lengths = np.linalg.norm(np.diff(old, axis=0), axis=1)
        at = np.concatenate([[0], np.cumsum(lengths)])
        wanted = np.linspace(0, at[-1], 9)
        expected = np.stack([np.interp(wanted, at, column) for column in old.T], axis=1)
        np.testing.assert_allclose(new, expected, atol=1e-12)


# ---- frequency-learning


def wide_waves(shape, outputs):
    """Linear in waves so fast that neighbouring inputs have nothing in common."""
    return WideWaves(math.prod(shape))


class WideWaves(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.register_buffer("waves", 300 * torch.randn(inputs, 64, device="cpu"))
        self.weight = nn.Parameter(0.02 * torch.randn(64, 1, device="cpu"))

    def forward(self, x):
        return torch.cos(x.flatten(1) @ self.waves) @ self.weight


WAVES = {"frequencies": (1, 2, 3, 4, 5, 6), "samples": 32, "eval_every": 5, "shape": (1,)}


def test_order_is_compared_with_the_control():
    """Welch's test of the correlations of both, from the stored shares of single trainings."""
    result = penchant.measure(
        "frequency-learning",
        architecture=relu_network,
        training={**ADAM, "steps": 40},
        trainings=3,
        shuffled_trainings=4,
        executor="serial",
        **WAVES,
    )
    found = result.quantities
    own, control = found["rank-correlation"], found["shuffled-rank-correlation"]
    above = found["above-control"]
    assert above.value == pytest.approx(own.value - control.value)
    assert above.stderr == pytest.approx(math.hypot(own.stderr, control.stderr))
    assert 2 < above.df <= 5 and own.df == 2 and control.df == 3
    assert own.p < 0.05


def test_a_loss_above_that_of_a_constant_is_said():
    """A training whose loss was 5.8 where a constant has 4 carried every claim of its figures."""
    diverging = {"optimizer": "sgd", "learning_rate": 1.0, "momentum": 0.0, "batch": 0, "steps": 5}
    options = {**WAVES, "trainings": 2, "shuffled_trainings": 0, "executor": "serial"}
    result = penchant.measure(
        "frequency-learning", architecture=wide_waves, training=diverging, **options
    )
    final = result.quantities["final-loss"]
    assert final.value > final.null
    assert any("of a constant" in text for text in result.warnings)


# ---- rounding


def zero_network(shape, outputs):
    network = relu_network(shape, outputs)
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    return network


def test_a_function_without_amplitude_is_refused():
    """Relative amplitudes of a function that is rounding were reported, 18 % off float64."""
    options = {**WAVES, "trainings": 2, "deltas": (0.0, 1.0), "perturbations": 2}
    del options["eval_every"]
    with pytest.raises(penchant.Error, match="10 times the rounding of its values"):
        penchant.measure(
            "frequency-robustness",
            architecture=zero_network,
            training={**ADAM, "steps": 0},
            executor="serial",
            **options,
        )


def test_a_spectrum_of_zeros_has_no_exponent():
    """Its logarithm was taken of 1e-300: an exponent of 0."""
    k = torch.logspace(0, 3, 600, **HOST)
    assert math.isnan(decay_exponent(k, torch.zeros_like(k)))
    # windows of one width in log k keep a power law
    assert decay_exponent(k, k**-2.0) == pytest.approx(-2.0, abs=0.01)


def test_floor_of_rounding_is_the_spectrum_of_uniform_noise():
    noise = torch.rand(20, 32, 32, generator=stream(), **HOST) - 0.5
    frequencies, zeta = radial_spectrum(noise, 3.2)
    floor = rounding_floor(frequencies, torch.ones(1, **HOST), grid=32, side=3.2)
    # the first ring has less: the mean under the window is taken off
    np.testing.assert_allclose(zeta.mean(0)[1:], floor[0, 1:], rtol=0.1)
    assert zeta.mean(0)[0] < floor[0, 0]


def test_slopes_between_samples_are_not_those_of_rounding():
    """1 + x / 1000 in single precision: neighbours of 4,096 differ by about twice its rounding."""

    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = nn.Parameter(torch.full((1,), 1e-3, device="cpu"))

        def forward(self, x):
            return 1 + self.slope * x.flatten(1)

    options = {"networks": 1, "cycles": 20, "box_networks": 0, "shape": (1,), "executor": "serial"}
    result = penchant.measure(
        "exact-spectrum", architecture=lambda shape, outputs: Line(), **options
    )
    assert result.quantities["lipschitz"].value == pytest.approx(1e-3, rel=1e-6)


def same_inputs(generator):
    (inputs, labels), test = cloud(generator)
    return (torch.ones_like(inputs), labels), test


def one_class(generator):
    (inputs, labels), test = cloud(generator)
    return (inputs, torch.zeros_like(labels)), test


@pytest.mark.parametrize(
    ("data", "message"),
    [(same_inputs, "the kernel matrix has rank one"), (one_class, "found none of 1")],
)
def test_samples_without_eigenvectors_or_classes_are_refused(data, message):
    """Equal inputs had a rank correlation of 0.9, and 1 in double precision."""
    with pytest.raises(penchant.Error, match=message):
        penchant.measure(
            "kernel-spectrum",
            architecture=relu_network,
            dataset=data,
            training={**ADAM, "steps": 1},
            chosen_classes=(0, 1),
            samples=20,
            bins=4,
            executor="serial",
        )


@pytest.mark.parametrize(
    ("probe", "options", "message"),
    [
        ("noise-on-manifold", {"samples": 20, "features": 1}, "expected different inputs"),
        ("class-paths", {"images": 3, "adversarials": 0, "pairs": 4}, "no pair of inputs"),
    ],
)
def test_equal_inputs_are_refused(probe, options, message):
    """They had losses of NaN, and paths 3e9 times as long as the straight line."""
    with pytest.raises(penchant.Error, match=message):
        penchant.measure(
            probe,
            architecture=relu_network,
            dataset=same_inputs,
            training={**ADAM, "steps": 1},
            executor="serial",
            **options,
        )


def deep_network(shape, outputs):
    layers = [nn.Flatten(), nn.Linear(math.prod(shape), 16), nn.ReLU()]
    for _ in range(13):
        layers += [nn.Linear(16, 16), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(16, outputs))


@pytest.mark.parametrize(("dtype", "known"), [("float32", False), ("float64", True)])
def test_decay_of_a_function_that_is_rounding_is_left_out(dtype, known):
    """Fifteen layers: -1.72 in single precision, -1.87 in double, and no warning."""
    result = penchant.measure(
        "manifold-accuracy",
        architecture=deep_network,
        training={**ADAM, "steps": 4, "loss": "cross-entropy"},
        frequencies=(2, 4),
        petal_counts=(0, 3),
        samples=24,
        trainings=2,
        grid_points=16,
        shape=(2,),
        dtype=dtype,
        executor="serial",
    )
    assert math.isfinite(result.quantities["network-decay"].value) == known
    assert any("nothing but rounding" in text for text in result.warnings) != known


# ---- captions


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ({"value": 0.9, "p": 0.001}, "Lower frequencies come first"),
        ({"value": -0.9, "p": 0.001}, "Higher frequencies come first"),
        ({"value": 0.9, "p": 0.03}, "No significant order"),
        # ten errors, of two trainings: p = 0.06
        ({"value": 0.9, "stderr": 0.09, "df": 1}, "No significant order"),
        ({"value": 0.9, "stderr": 0.09, "df": 9}, "Lower frequencies come first"),
        ({"value": math.nan}, "No significant order"),
    ],
)
def test_captions_are_chosen_by_the_p_value(number, said):
    """ "Lower frequencies come first" stood below every number."""
    quantity = penchant.Quantity(null=0.0, **number)
    assert frequency_learning._order(quantity).startswith(said)
