"""Probes on problems whose answer is known: linear models with a spectrum of our choice, and other routes to stored numbers."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_spectral_bias.frequency_learning import probe as frequency_learning
from penchant_spectral_bias.shared.waves import wave
from torch import nn

POINTS, RATE = 32, 0.1
SGD = {
    "optimizer": "sgd",
    "momentum": 0.0,
    "batch": 0,
    "learning_rate": RATE,
    "steps": 40,
    "loss": "squared-error",
}
WAVES = {
    "frequencies": (1, 2, 3, 4, 5, 6),
    "samples": POINTS,
    "trainings": 3,
    "eval_every": 5,
    "shuffled_trainings": 0,
    "shape": (1,),
}


class FourierFeatures(nn.Module):
    """A linear model in the features s_k cos(2 pi k z), s_k sin(2 pi k z), from zero: it learns frequency k at the rate s_k^2 / 2."""

    def __init__(self, scales):
        super().__init__()
        self.register_buffer("scales", torch.tensor(scales, device="cpu"))
        self.weights = nn.Parameter(torch.zeros(2 * len(scales), 1, device="cpu"))

    def forward(self, z):
        angle = 2 * math.pi * torch.arange(1, len(self.scales) + 1, device=z.device) * z.flatten(1)
        return (
            torch.cat([self.scales * angle.cos(), self.scales * angle.sin()], dim=1) @ self.weights
        )


def learn(scales, *, steps=40, **more):
    def factory(shape, outputs):
        return FourierFeatures(scales)

    options = {**WAVES, **more}
    return penchant.measure(
        "frequency-learning",
        architecture=factory,
        training={**SGD, "steps": steps},
        executor="serial",
        **options,
    )


@pytest.mark.parametrize(
    ("power", "order"), [(-0.5, 1.0), (0.5, -1.0)], ids=["low first", "high first"]
)
def test_order_is_that_of_a_linear_model_with_known_rates(power, order):
    scales = [float(k) ** power for k in range(1, 7)]
    result = learn(scales)
    expected = 1 - (1 - RATE * np.array(scales) ** 2 / 2) ** result.arrays["steps"][:, None]
    np.testing.assert_allclose(result.arrays["amplitude"], expected, atol=1e-5)
    assert result.quantities["rank-correlation"].value == pytest.approx(order)
    assert result.arrays["amplitude-stderr"].max() < 1e-5  # phases do not matter to this model
    reached = 1 - (1 - RATE * np.array(scales) ** 2 / 2) ** 40 >= 0.8
    assert result.quantities["learnt-frequencies"].value == reached.sum()
    assert np.isfinite(result.arrays["first-fit"]).tolist() == reached.tolist()


def test_first_fit_is_the_first_recorded_step_above_the_share():
    result = learn([2.0] * 6, learnt_at=0.5)
    step = next(s for s in result.arrays["steps"] if 1 - (1 - RATE * 2) ** s >= 0.5)
    assert (result.arrays["first-fit"] == step).all()
    assert math.isnan(
        result.quantities["first-fit-rank-correlation"].value
    )  # all at once: no order


def test_rising_amplitudes_are_divided_out():
    scales, amplitudes = [1.0] * 6, (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    result = learn(scales, amplitudes=amplitudes)
    expected = 1 - (1 - RATE / 2) ** result.arrays["steps"][:, None]
    np.testing.assert_allclose(
        result.arrays["amplitude"],
        np.broadcast_to(expected, result.arrays["amplitude"].shape),
        atol=1e-4,
    )


def test_amplitudes_are_those_of_the_stored_prediction():
    training = {"steps": 30, "learning_rate": 0.01}
    result = penchant.measure(
        *("frequency-learning",), architecture={"name": "import", "factory": "penchant_testing:tiny_network"}, training=training,
        **{**WAVES, "trainings": 1, "amplitudes": (0.5, 1.0, 2.0, 1.0, 0.2, 0.3), "executor": "serial"},
    )  # fmt: skip
    transform = 2 * np.abs(np.fft.rfft(result.arrays["prediction"].astype(float))) / POINTS
    np.testing.assert_allclose(
        result.arrays["amplitude"],
        transform[:, 1:7] / np.array([0.5, 1.0, 2.0, 1.0, 0.2, 0.3]),
        rtol=1e-6,
    )
    residual = (result.arrays["prediction"] - result.arrays["target"]).astype(float)
    np.testing.assert_allclose(result.arrays["loss"], (residual**2).mean(1), rtol=1e-6)
    target = 2 * np.abs(np.fft.rfft(result.arrays["target"].astype(float)))[1:7] / POINTS
    np.testing.assert_allclose(target, [0.5, 1.0, 2.0, 1.0, 0.2, 0.3], atol=1e-6)


RISING = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


@pytest.mark.parametrize("amplitudes", [None, RISING], ids=["equal", "rising"])
def test_control_reads_no_order(amplitudes):
    """Rates of a model on dealt samples have nothing to do with the frequency.

    With amplitudes instead of projections, and one permutation for all trainings, rising amplitudes
    gave 0.6 to 0.83: what leaks into a frequency is divided by the target's small amplitude there.
    """
    scales = [float(k) ** -0.5 for k in range(1, 7)]
    options = {"amplitudes": amplitudes, "trainings": 1, "shuffled_trainings": 40}
    result = learn(scales, steps=8, eval_every=4, **options)
    found = result.quantities["shuffled-rank-correlation"]
    # correlations of six in no order vary by 1 / sqrt(5)
    assert found.stderr == pytest.approx(1 / math.sqrt(5 * 40), rel=0.3)
    assert abs(found.value) < 3 * found.stderr


def test_trainings_of_the_control_are_dealt_differently(monkeypatch):
    """On one wave from one start, trainings differ by their permutation alone."""

    def first_wave(context, training, petals):
        return wave(context, 0, petals)

    monkeypatch.setattr(frequency_learning, "wave", first_wave)
    scales = [float(k) ** -0.5 for k in range(1, 7)]
    result = learn(scales, steps=4, trainings=3, shuffled_trainings=3)
    assert result.arrays["learnt-share-stderr"].max() < 1e-12
    assert result.arrays["shuffled-learnt-share-stderr"][-1].min() > 1e-4


def test_one_training_stores_no_errors():
    """Zeros stood there, as if everything were certain."""
    result = learn([1.0] * 6, trainings=1)
    assert not [name for name in result.arrays if name.endswith("-stderr")]
    assert result.quantities["final-loss"].stderr is None


def test_flowers_are_compared_on_the_same_waves():
    options = {"petals": 0, "compared_petals": (3,), "trainings": 2, "shape": (2,)}
    training = {"steps": 10, "learning_rate": 0.01}
    result = penchant.measure(
        "frequency-learning",
        architecture={"name": "import", "factory": "penchant_testing:tiny_network"},
        training=training,
        executor="serial",
        **{**WAVES, **options},
    )
    losses = result.arrays["petal-losses"]
    assert result.arrays["petals"].tolist() == [0, 3] and losses.shape == (2, 3)
    np.testing.assert_array_equal(losses[0], result.arrays["loss"])
    gain = result.quantities["petal-loss-gain"].value
    assert gain == pytest.approx(losses[0, -1] - losses[1, -1], rel=1e-12)


class Linear(nn.Module):
    """f = w . features, all parameters alike: the mean of a perturbed linear model is the model itself."""

    def __init__(self):
        super().__init__()
        self.inner = FourierFeatures([1.0] * 6)

    def forward(self, z):
        return self.inner(z)


def test_linear_model_has_the_robustness_of_its_noise():
    """theta + delta u changes f by a function of zero mean, so that the mean function keeps its spectrum up to chance."""
    result = penchant.measure(
        *("frequency-robustness",), architecture=lambda shape, outputs: Linear(), executor="serial",
        training={**SGD, "steps": 100}, frequencies=WAVES["frequencies"], samples=POINTS, trainings=2, deltas=(0.0, 0.5),
        perturbations=100, shape=(1,),
    )  # fmt: skip
    relative, floor = result.arrays["relative-amplitude"], result.arrays["noise-floor"]
    np.testing.assert_allclose(relative[0], 1.0, atol=1e-6)
    assert (np.abs(relative - 1) < 5 * floor + 1e-6).all()
    # a unit vector over 12 weights moves the two of a frequency by |u|^2 = 2 / 12 on average
    np.testing.assert_allclose(floor[1], 0.5 * math.sqrt(2 / 12 / 100), rtol=0.2)
    assert abs(result.quantities["robustness-gap"].value) < 0.1


def test_exact_spectrum_of_a_known_network():
    """f = relu(x - 1/2) on [0, 1] minus its line is a tent upside down: one bend, two pieces, |f~| known."""

    def factory(shape, outputs):
        net = nn.Sequential(nn.Flatten(), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
        for layer, weight, bias in ((net[1], 1.0, -0.5), (net[3], 2.0, 3.0)):
            nn.init.constant_(layer.weight, weight)
            nn.init.constant_(layer.bias, bias)
        return net

    options = {"networks": 2, "cycles": 32, "gradients": 0, "box_networks": 0, "shape": (1,)}
    result = penchant.measure("exact-spectrum", architecture=factory, executor="serial", **options)
    k = 2 * math.pi * result.arrays["frequencies"]
    np.testing.assert_allclose(
        result.arrays["amplitude"], 2 * np.abs(1 - np.cos(k / 2)) / k**2, atol=1e-12
    )
    assert result.quantities["pieces"].value == 2 and result.quantities[
        "lipschitz"
    ].value == pytest.approx(2.0)
    assert result.quantities["lipschitz-bound"].value == pytest.approx(2.0)


def test_share_of_high_frequency_parameters_falls_with_the_cut_off():
    options = {
        "networks": 2,
        "cycles": 200,
        "gradients": 0,
        "box_networks": 40,
        "shape": (1,),
        "executor": "serial",
    }
    result = penchant.measure("exact-spectrum", architecture=_relu_network, **options)
    share = result.arrays["share"]
    assert (np.diff(share) <= 0).all() and share[0] > 0.9 and share[-1] < 0.1


def _relu_network(shape, outputs):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(1, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 1)
    )


def test_peak_under_a_clip_is_bounded_by_it():
    training = {"steps": 30, "learning_rate": 0.02}
    options = {
        "samples": 16,
        "weight_clips": (0.05, 0.0),
        "trainings": 2,
        "eval_every": 10,
        "shape": (1,),
        "executor": "serial",
    }
    result = penchant.measure(
        "peak-ablation", architecture=_relu_network, training=training, **options
    )
    slopes, bounds = result.arrays["lipschitz"], result.arrays["lipschitz-bound"]
    assert (slopes <= bounds).all() and slopes[0] <= 0.05**3 * 12 * 12 < slopes[1]
    np.testing.assert_allclose(
        result.arrays["amplitude"][0, 0], result.arrays["amplitude"][1, 0]
    )  # the same network to begin with
    transform = np.abs(np.fft.rfft(result.arrays["prediction"].astype(float))) / 16
    assert transform.shape == result.arrays["amplitude"].shape


class Length(nn.Module):
    """f(x) = |x| - 1, whatever it is taught."""

    def __init__(self):
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1, device="cpu"))

    def forward(self, x):
        return x.flatten(1).norm(dim=1, keepdim=True) - 1 + 0 * self.nothing


@pytest.mark.parametrize("shape", [(2,), (3, 5)])
def test_plane_is_that_of_the_curve_in_any_input(shape):
    """Curves are placed isometrically, so that |x| on the plane is the distance from the centre of the flower."""
    options = {
        "frequencies": (3,),
        "petal_counts": (2,),
        "samples": 24,
        "trainings": 1,
        "grid_points": 20,
        "shape": shape,
        "executor": "serial",
    }
    result = penchant.measure(
        "manifold-accuracy",
        architecture=lambda shape, outputs: Length(),
        training={"steps": 0},
        **options,
    )
    axis = result.arrays["plane-axis"]
    expected = np.hypot(axis[None, :], axis[:, None]) - 1
    np.testing.assert_allclose(result.arrays["plane"], np.stack([expected] * 2), atol=1e-5)
    outside = np.hypot(*result.arrays["plane-points"].T) > 1
    accuracy = (outside == result.arrays["plane-labels"].astype(bool)).mean()
    assert result.arrays["train-accuracy"][0, 0] == pytest.approx(accuracy)


def test_planes_are_compared_at_the_length_of_the_images():
    options = {"samples": 40, "features": 2, "trainings": 2, "encoder_steps": 5, "eval_every": 5}
    result = penchant.measure(
        "noise-on-manifold",
        architecture=_relu_image_network,
        dataset=_blobs,
        training={"steps": 10, "learning_rate": 0.01},
        executor="serial",
        **options,
    )
    found = result.quantities
    for name in ("plane", "unscaled-plane"):
        expected = found["manifold-loss"].value - found[f"{name}-loss"].value
        assert found[f"manifold-minus-{name}"].value == pytest.approx(expected, rel=1e-9)
    assert found["norm-ratio"].value < 0.9  # reconstructions are shorter than the plane's inputs
    scaled, unscaled = result.arrays["plane-loss"], result.arrays["unscaled-plane-loss"]
    assert np.abs(scaled - unscaled).max() > 1e-6


def _relu_image_network(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, outputs))


def _blobs():
    generator = torch.Generator(device="cpu").manual_seed(0)
    labels = torch.arange(400, device="cpu") % 2
    inputs = torch.randn(400, 1, 4, 4, generator=generator, device="cpu") * 0.5
    inputs[:, 0, 0, 0] += 3.0 * labels
    return (inputs[:300], labels[:300]), (inputs[300:], labels[300:])


def _ring():
    """Class 1 lies on a ring around class 0: straight lines between its inputs cross the other."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    labels = torch.arange(400, device="cpu") % 2
    angle = 2 * math.pi * torch.rand(400, generator=generator, device="cpu")
    radius = 0.9 + 1.1 * labels
    inputs = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return (inputs[:300], labels[:300]), (inputs[300:], labels[300:])


RING = {
    "chosen_classes": (1,),
    "images": 14,
    "adversarials": 0,
    "pairs": 60,
    "learning_rate": 0.02,
    "training": {"optimizer": "adam", "learning_rate": 0.01, "batch": 64, "epochs": 20},
    "executor": "serial",
}


def _plane_network(shape, outputs):
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, outputs))


def test_bent_paths_connect_where_straight_lines_do_not():
    found = penchant.measure(
        "class-paths", architecture=_plane_network, dataset=_ring, **RING
    ).quantities
    gain = found["bent-minus-straight"]
    assert gain.value > 4 * gain.stderr and found["connected"].null < 0.7
    assert found["connected"].value - found["connected"].null == pytest.approx(gain.value)
    assert found["test-accuracy"].value > 0.95 and found["length-ratio"].value > 1.05


def test_paths_that_are_bent_too_far_are_not_rescued_by_straight_lines():
    """Connected was bent or straight, so that it could not be below its null."""
    few = {**RING, "images": 6, "pairs": 12}
    wild = {**few, "chosen_classes": (0,), "learning_rate": 50.0, "momentum": 0.0}
    result = penchant.measure("class-paths", architecture=_plane_network, dataset=_ring, **wild)
    found = result.quantities["connected"]
    assert found.null == 1.0 and found.value < found.null
    assert any("straight lines keep the class" in text for text in result.warnings)


def test_paths_are_classified_as_claimed():
    """The stored pivots of connected paths, evaluated again with the network trained again, have their class everywhere."""
    from penchant_spectral_bias.class_paths import elastic_band as band

    kept = {}

    def factory(shape, outputs):
        kept["network"] = nn.Sequential(
            nn.Flatten(), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, outputs)
        )
        return kept["network"]

    options = {
        "images": 4,
        "adversarials": 4,
        "pairs": 10,
        "attack_step": 0.2,
        "stored_paths": 10,
        "executor": "serial",
    }
    result = penchant.measure(
        "class-paths", architecture=factory, dataset=_blobs, training={"epochs": 10}, **options
    )
    paths, labels, connected = (
        result.arrays[name] for name in ("paths", "path-classes", "path-connected")
    )
    assert connected.any() and result.quantities["confirmed"].value == 1.0
    network = kept["network"]  # the last one made was filled with the trained parameters
    for path, label, joined in zip(paths, labels, connected):
        points = band.dense(torch.as_tensor(path, device="cpu").flatten(1)[None], 7)
        keeps, _ = band.classified(network, points, (1, 4, 4), int(label))
        assert bool(keeps.all()) == bool(joined)
    shares = result.quantities["connected"]
    assert shares.value == pytest.approx(
        result.arrays["connected"].mean()
    ) and shares.null == pytest.approx(result.arrays["straight"].mean())
    np.testing.assert_array_less(1 - 1e-5, result.arrays["length-ratios"])


def test_nulls_of_frequency_learning_are_the_best_constant_and_dealt_samples():
    options = {**WAVES, "amplitudes": (0.1, 0.3, 0.5, 0.7, 0.9, 1.1), "shuffled_trainings": 3}
    found = penchant.measure(
        "frequency-learning",
        architecture="mlp:widths=[8]",
        training={**SGD, "steps": 10},
        executor="serial",
        **options,
    )
    variance = found.arrays["target"].astype(np.float64).var()
    assert found.quantities["final-loss"].null == pytest.approx(variance, rel=1e-5)
    shares = found.arrays["shuffled-learnt-share"]
    learnt = found.quantities["learnt-frequencies"]
    # ten small steps teach nothing; a count is known to one, 1 / sqrt(12 * 3) for three trainings
    assert shares.max() < 0.8 and learnt.null == 0
    assert learnt.null_spread == pytest.approx(1 / 6) and learnt.p == 1.0


TEN = {"name": "import", "factory": lambda shape: nn.Sequential(nn.Linear(*shape, 10))}


@pytest.mark.parametrize(
    "probe", ["frequency-learning", "frequency-robustness", "peak-ablation", "manifold-accuracy"]
)
def test_networks_of_ten_outputs_are_refused_in_a_sentence(probe):
    shape = [1] if probe == "peak-ablation" else [2]
    settings = {"architecture": TEN, "shape": shape, "outputs": 10, "executor": "serial"}
    if probe != "peak-ablation":
        settings["frequencies"] = [1, 2]
    with pytest.raises(penchant.Error, match="gives 10 outputs where one was requested"):
        penchant.measure(probe, samples=16, trainings=2, **settings)


def test_a_spectrum_of_ten_outputs_is_refused():
    settings = {"architecture": TEN, "shape": [2], "outputs": 10, "executor": "serial"}
    with pytest.raises(penchant.Error, match="gives 10 outputs where one was requested"):
        penchant.measure("exact-spectrum", networks=2, cycles=20, **settings)
