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
@pytest.mark.parametrize("preset", ["quick", "rising"])
def test_lower_frequencies_are_learnt_first(preset):
    options = {"trainings": 3, "shuffled_trainings": 5}
    result = penchant.measure(
        "frequency-learning", architecture=MLP, preset=preset, shape=(1,), **options
    )
    found, control = (
        result.quantities[name] for name in ("rank-correlation", "shuffled-rank-correlation")
    )
    assert found.value > found.null + 2 * found.null_spread
    assert found.value - control.value > 2 * np.hypot(found.stderr, control.stderr)
    assert abs(control.value) < 3 * control.stderr
    assert result.quantities["learnt-frequencies"].value >= 6


@pytest.mark.slow
def test_lower_frequencies_are_more_robust():
    result = penchant.measure("frequency-robustness", architecture=MLP, shape=(1,))
    assert beyond(result.quantities["robustness-gap"])


@pytest.mark.slow
def test_petals_make_the_same_target_easier():
    # a step small enough that the loss at the last step is not one of Adam's spikes
    options = {
        "frequencies": (10, 20, 30, 40),
        "samples": 160,
        "trainings": 6,
        "shuffled_trainings": 0,
        "petals": 0,
        "compared_petals": (16,),
        "shape": (2,),
        "training": {"steps": 800, "learning_rate": 3e-4},
    }
    result = penchant.measure("frequency-learning", architecture=MLP, **options)
    assert beyond(result.quantities["petal-loss-gain"])


@pytest.mark.slow
@needs("mnist")
def test_slow_noise_hurts_more_than_fast_noise():
    result = penchant.measure("target-noise", architecture=MLP, dataset="mnist")
    found = result.quantities["low-minus-high"]
    both = np.hypot(found.stderr, found.null_stderr)
    assert beyond(found) and found.value > found.null + 4 * both
