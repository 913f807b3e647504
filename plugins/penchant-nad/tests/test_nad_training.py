"""What `directional-accuracy` keeps of its trainings."""

import math

import numpy as np
import penchant
import penchant_testing as testing
import pytest
from penchant_nad.directional_accuracy.probe import steps_to_loss

SMALL = {"shape": (1, 6, 6), "train": 64, "test": 64, "training": {"epochs": 2}}


def test_steps_to_loss_is_the_end_of_the_first_window_below():
    losses = np.array([8.0, 4.0, 2.0, 1.0, 0.5, 0.25])
    assert steps_to_loss(losses, 1.0, window=2) == 5  # the mean of steps 4 and 5 is 0.75
    assert steps_to_loss(losses, 1.0, window=1) == 5
    assert math.isnan(steps_to_loss(losses, 0.1, window=3))
    assert steps_to_loss(losses, 100.0, window=50) == 6


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
    assert result.quantities["reached-share"].value == 0


def test_the_first_of_two_trainings_is_the_only_one_of_one():
    options = {"basis": "canonical", "indices": [4], "executor": "serial", **SMALL}
    architecture = {"name": "import", "factory": testing.TINY}
    one, two = (
        penchant.measure(
            "directional-accuracy", architecture=architecture, trainings=count, **options
        )
        for count in (1, 2)
    )
    both = two.arrays["loss-curves"] * 2 - one.arrays["loss-curves"]
    assert not np.allclose(both, one.arrays["loss-curves"])
    assert "loss-curves-stderr" not in one.arrays and two.arrays["loss-curves-stderr"].max() > 0


def drawn(result):
    from penchant_nad.directional_accuracy.figures import draw

    return draw(result)


@pytest.mark.parametrize("shape", [(8,), (1, 3, 4)])
def test_maps_are_drawn_for_signals_and_images(shape):
    options = {"basis": "dft-sine", "every": 1, "loss_target": 10.0, **SMALL, "shape": shape}
    result = penchant.measure(
        "directional-accuracy",
        architecture={"name": "import", "factory": testing.TINY},
        executor="serial",
        **options,
    )
    assert result.arrays["grid"].tolist() == ([1, 8] if len(shape) == 1 else [3, 4])
    assert {"accuracy", "frequency-map", "steps-map"} <= drawn(result).keys()


def test_sizes_are_in_order_and_contain_the_probe_s_own():
    options = {"basis": "canonical", "indices": [0, 5], "train_sizes": [128, 32], **SMALL}
    architecture = {"name": "import", "factory": testing.TINY}
    result = penchant.measure(
        "directional-accuracy", architecture=architecture, executor="serial", **options
    )
    assert result.arrays["train-sizes"].tolist() == [32, 64, 128]
    own = result.arrays["accuracy-by-size"][1]
    np.testing.assert_array_equal(own, result.arrays["test-accuracy"])
    assert "accuracy-by-size" in drawn(result)


def test_a_recipe_that_learns_no_direction_is_told():
    options = {"basis": "canonical", "indices": [0, 5], "executor": "serial", **SMALL}
    options |= {"training": {"steps": 1, "learning_rate": 1e-6}, "train": 400}
    architecture = {"name": "import", "factory": testing.TINY}
    result = penchant.measure("directional-accuracy", architecture=architecture, **options)
    assert any("nothing was learnt along any direction" in text for text in result.warnings)


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
