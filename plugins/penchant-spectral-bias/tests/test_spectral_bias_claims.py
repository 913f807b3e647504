"""What the thesis claims, at the size of the quick presets; minutes each, so they are slow tests. Real data: PENCHANT_DATA."""

import os
from pathlib import Path

import numpy as np
import penchant
import pytest

MLP = {"name": "mlp", "widths": [256] * 5}


def needs(folder):
    root = os.environ.get("PENCHANT_DATA")
    there = root is not None and (Path(root) / folder).is_dir()
    return pytest.mark.skipif(not there, reason=f"PENCHANT_DATA names no folder with {folder}")


def beyond(quantity, errors=4.0):
    return quantity.value > errors * quantity.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "order"), [("quick", 0.9), ("rising", 0.7)])
def test_lower_frequencies_are_learnt_first(preset, order):
    result = penchant.measure("frequency-learning", architecture=MLP, preset=preset, shape=(1,))
    found = result.quantities["order-correlation"]
    assert found.value > order and result.quantities["reached"].value >= 6
    assert abs(found.null) < found.null_stderr


@pytest.mark.slow
def test_lower_frequencies_are_more_robust():
    result = penchant.measure("frequency-robustness", architecture=MLP, shape=(1,))
    assert beyond(result.quantities["robustness-gap"])


@pytest.mark.slow
def test_petals_make_the_same_target_easier():
    # a step small enough that the loss at the last step is not one of Adam's spikes
    training = {"steps": 800, "learning_rate": 3e-4}
    options = {
        "frequencies": (10, 20, 30, 40),
        "points": 160,
        "draws": 6,
        "shuffled_draws": 0,
        "shape": (2,),
        "training": training,
    }
    losses = [
        penchant.measure(
            "frequency-learning", architecture=MLP, petals=petals, **options
        ).quantities["final-loss"]
        for petals in (0, 16)
    ]
    assert losses[0].value - losses[1].value > 4 * np.hypot(losses[0].stderr, losses[1].stderr)


@pytest.mark.slow
@needs("mnist")
def test_slow_noise_hurts_more_than_fast_noise():
    result = penchant.measure("target-noise", architecture=MLP, dataset="mnist")
    found = result.quantities["low-minus-high"]
    assert beyond(found) and found.value > found.null + 4 * np.hypot(
        found.stderr, found.null_stderr
    )


@pytest.mark.slow
@needs("fashion-mnist")
def test_inputs_of_a_class_are_joined():
    result = penchant.measure(
        "class-paths", architecture="lenet", dataset={"name": "fashion-mnist", "per_class": 200}
    )
    assert result.quantities["confirmed"].value == 1.0
    assert result.quantities["connected"].value >= result.quantities["connected"].null
    assert result.quantities["connected-image-image"].value > 0.8
