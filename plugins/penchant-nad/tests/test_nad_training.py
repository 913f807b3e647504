"""What `directional-accuracy` keeps of its trainings."""

import math

import numpy as np
import penchant
import pytest
from penchant import testing
from penchant_nad.directional_accuracy import mean_and_stderr, steps_to_loss

SMALL = {"shape": (1, 6, 6), "train": 64, "test": 64, "training": {"epochs": 2}}


def test_steps_to_loss_is_the_end_of_the_first_window_below():
    losses = np.array([8.0, 4.0, 2.0, 1.0, 0.5, 0.25])
    assert steps_to_loss(losses, 1.0, window=2) == 5  # the mean of steps 4 and 5 is 0.75
    assert steps_to_loss(losses, 1.0, window=1) == 5
    assert math.isnan(steps_to_loss(losses, 0.1, window=3))
    assert steps_to_loss(losses, 100.0, window=50) == 6


def test_standard_errors_add_repeats_to_samples():
    mean, stderr = mean_and_stderr(np.array([[0.8], [0.5]]), 100)
    assert mean.tolist() == [0.8, 0.5] and stderr == pytest.approx([0.04, 0.05], rel=0.01)
    _, repeated = mean_and_stderr(np.array([[0.7, 0.9]]), 100)
    assert repeated[0] == pytest.approx(math.hypot(0.04, 0.1), rel=0.01)


@pytest.mark.slow
def test_curves_sizes_and_repeats_conform(tmp_path):
    options = {
        "basis": "dft-cosine",
        "every": 7,
        "train_sizes": [32, 64],
        "repeats": 2,
        "loss_target": 0.6,
        **SMALL,
    }
    options["training"] = {"epochs": 2, "batch": 8}
    result = testing.check_probe("directional-accuracy", tmp_path, **options)
    count = len(result.arrays["index"])
    assert (
        result.arrays["loss-curves"].shape
        == result.arrays["loss-curves-stderr"].shape
        == (count, 16)
    )
    assert (
        result.arrays["accuracy-by-size"].shape
        == result.arrays["accuracy-by-size-stderr"].shape
        == (2, count)
    )
    assert result.arrays["train-sizes"].tolist() == [32, 64]
    np.testing.assert_array_equal(
        result.arrays["accuracy-by-size"][1], result.arrays["test-accuracy"]
    )
    drawn = {path.stem for path in (tmp_path / "serial").glob("jobs/*/figures/*.png")}
    assert {"accuracy", "loss-curves", "accuracy-by-size", "frequency-map"} <= drawn


def test_loss_that_was_not_reached_is_missing_and_counted():
    options = {
        "basis": "canonical",
        "indices": [0, 5],
        "loss_target": 1e-9,
        "executor": "serial",
        **SMALL,
    }
    result = penchant.measure(
        "directional-accuracy", architecture={"name": "import", "factory": testing.TINY}, **options
    )
    assert np.isnan(result.arrays["steps-to-loss"]).all() and "steps-to-loss" in result.missing
    assert result.quantities["reached"].value == 0


def test_first_repeat_is_the_training_without_repeats():
    options = {"basis": "canonical", "indices": [4], "executor": "serial", **SMALL}
    architecture = {"name": "import", "factory": testing.TINY}
    one, two = (
        penchant.measure(
            "directional-accuracy", architecture=architecture, repeats=count, **options
        )
        for count in (1, 2)
    )
    both = two.arrays["loss-curves"] * 2 - one.arrays["loss-curves"]
    assert not np.allclose(both, one.arrays["loss-curves"])
    assert "loss-curves-stderr" not in one.arrays and two.arrays["loss-curves-stderr"].max() > 0


@pytest.mark.parametrize("shape", [(12,), (1, 5, 6)])
def test_maps_are_drawn_for_signals_and_images(tmp_path, shape):
    options = {"basis": "dft-sine", "every": 1, "loss_target": 10.0, **SMALL, "shape": shape}
    result = testing.check_probe("directional-accuracy", tmp_path, processes=False, **options)
    assert result.arrays["grid"].tolist() == [1, 12] if len(shape) == 1 else [5, 6]
    assert "steps-map" in {path.stem for path in (tmp_path / "serial").glob("jobs/*/figures/*.png")}


@pytest.mark.slow
def test_logistic_regression_learns_every_frequency():
    pytest.importorskip("penchant_architectures")
    options = {
        "basis": "dft-cosine",
        "every": 24,
        "shape": (1, 16, 16),
        "train": 2000,
        "test": 1000,
        "executor": "serial",
    }
    training = {"epochs": 10, "batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5}
    result = penchant.measure(
        "directional-accuracy", architecture="logistic", training=training, **options
    )
    assert result.arrays["test-accuracy"].min() > 0.99
