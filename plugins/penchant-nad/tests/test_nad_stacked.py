"""Off the CPU many trainings are one stack and one shard; on the CPU each is trained by itself."""

from pathlib import Path

import numpy as np
import penchant
import penchant_testing as testing
import pytest
from penchant_numerics.training import Stacked

TINY = {"name": "import", "factory": testing.TINY}
# Stored directions: how networks are drawn for NADs is tested elsewhere.
IMAGES = {
    "dataset": {"name": "import", "factory": "nad_test_images:few"},
    "directions": np.eye(16),
    "trainings": 2,
}
# In double precision rounding flips no answer, and all numbers agree to ten digits.
SETTINGS = {"executor": "serial", "figures": False, "dtype": "float64"}
CLOSE = {"rtol": 1e-8, "atol": 1e-10}

STEPS = {"steps": 2, "batch": 16, "learning_rate": 0.1, "clip": 0.5, "momentum": 0.9}
WAVES = {"basis": "dft-cosine", "every": 7, "train_sizes": [20]}
CASES = {
    # Two directions; and again with fewer samples, which share no stack with others.
    "directional-accuracy": ({"shape": (1, 4, 4), "train": 32, "test": 32, **WAVES}, [2, 2]),
    "poisoned-accuracy": ({**IMAGES, "carriers": [0, 10]}, [2, 4]),  # without a carrier, and with
    "flipped-accuracy": (IMAGES, [4]),
}


@pytest.fixture(autouse=True)
def _images(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def made(monkeypatch):
    """Networks of every stack that is made, where there are several."""
    found = []
    begin = Stacked.__init__

    def noted(self, networks, *given, **named):
        if len(networks) > 1:
            found.append(len(networks))
        begin(self, networks, *given, **named)

    monkeypatch.setattr(Stacked, "__init__", noted)
    return found


def run(name, **changes):
    options = {**CASES[name][0], "training": STEPS, **SETTINGS, **changes}
    return penchant.measure(name, architecture=TINY, **options)


def on_device(name, **changes):
    with testing.emulated_device() as counts:
        result = run(name, device="emulated", **changes)
    return result, counts


def assert_close(found, expected):
    assert found.arrays.keys() == expected.arrays.keys()
    for name, values in expected.arrays.items():
        np.testing.assert_allclose(found.arrays[name], values, err_msg=name, **CLOSE)


@pytest.mark.parametrize("name", CASES)
def test_stacks_give_the_numbers_of_single_trainings(name, made):
    alone = run(name)
    assert not made
    together, _ = on_device(name)
    assert made == CASES[name][1]
    assert_close(together, alone)
    assert together.warnings == alone.warnings


def test_a_swept_learning_rate_is_searched_for_every_training_by_itself(made):
    swept = {**STEPS, "learning_rates": [0.01, 0.1]}
    alone = run("flipped-accuracy", training=swept)
    together, _ = on_device("flipped-accuracy", training=swept)
    assert not made
    assert_close(together, alone)
    assert "learning rate" in together.conventions


def test_losses_are_read_every_so_often():
    steps = {**STEPS, "steps": 8}
    options = {"train_sizes": None}
    _, few = on_device("directional-accuracy", **options)
    _, many = on_device("directional-accuracy", training=steps, **options)
    assert many.waits == few.waits  # 2 steps, or 8
