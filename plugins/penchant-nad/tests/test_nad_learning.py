"""What the papers found, on small trainings of real networks; slow."""

import os
from pathlib import Path

import numpy as np
import penchant
import pytest

pytest.importorskip("penchant_architectures")
RECIPE = {"batch": 128, "learning_rate": 0.5, "schedule": "linear", "clip": 0.5}
DATA = Path(os.environ.get("PENCHANT_DATA", ""), "fashion-mnist")


@pytest.mark.slow
def test_lenet_learns_low_frequencies_better_than_high_ones():
    options = {
        "basis": "dft-cosine",
        "every": 8,
        "shape": (1, 16, 16),
        "train": 2000,
        "test": 1000,
        "executor": "serial",
    }
    result = penchant.measure(
        "directional-accuracy", architecture="lenet", training={**RECIPE, "epochs": 5}, **options
    )
    radius = np.linalg.norm(result.arrays["frequencies"], axis=1)
    accuracy = result.arrays["test-accuracy"]
    low, high = accuracy[radius <= 3], accuracy[radius > 7]
    spread = np.hypot(*(each.std(ddof=1) / np.sqrt(len(each)) for each in (low, high)))
    assert low.mean() - high.mean() > 4 * spread


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="PENCHANT_DATA names no folder with fashion-mnist")
def test_a_carrier_on_the_first_nads_hides_the_images():
    pytest.importorskip("penchant_vision")
    dataset = {"name": "fashion-mnist", "resize": 16, "per_class": 300, "test_per_class": 200}
    training = {
        "epochs": 40,
        "batch": 64,
        "learning_rate": 0.05,
        "momentum": 0.9,
        "schedule": "linear",
    }
    options = {
        "carriers": [0, 240],
        "epsilon": 0.1,
        "networks": 400,
        "training": training,
        "executor": "serial",
    }
    result = penchant.measure("poisoned-accuracy", architecture="lenet", dataset=dataset, **options)
    (low, high), (first, last) = (
        result.arrays["test-accuracy"],
        result.arrays["test-accuracy-stderr"],
    )
    assert high - low > 4 * np.hypot(first, last)
