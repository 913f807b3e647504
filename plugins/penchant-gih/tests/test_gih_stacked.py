"""Off the CPU many trainings are one stack; on the CPU each is trained by itself."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
from penchant_numerics.training import Stacked

TINY = {"name": "import", "factory": testing.TINY}
CIRCLES = {"name": "two-circles", "input_shape": [4], "train": 20, "test": 10}
# In double precision rounding flips no answer, and all numbers agree to six digits and more: G is
# measured in single precision on its way to directions and scores.
SETTINGS = {"executor": "serial", "figures": False, "dtype": "float64", "memory": 4.0}
CLOSE = {"rtol": 1e-6, "atol": 1e-8}

STEPS = {"steps": 2, "batch": 10, "learning_rate": 0.1}
SMALL = {"shape": [4], "networks": 12, "train": 20, "test": 10}
ALONG = {"networks": 12, "inputs": 1}
CASES = {
    "feature-preference": ({**SMALL, "indices": [2, 3], "trainings": 2}, [4]),
    "direction-generalization": ({**SMALL, "indices": [0, -1], "trainings": 2}, [4]),
    "decision-plane": ({**SMALL, "grid_points": 3, "trainings": 2}, [4]),
    "input-curvature": (
        {"dataset": CIRCLES, "trainings": 3, "samples": 3, "eval_steps": [0, 2]},
        [3],
    ),
    "feature-elimination": (
        {"dataset": CIRCLES, "networks": 12, "removed": [0, 2], "trainings": 1},
        [2, 2],
    ),
    "sample-pruning": (
        {"dataset": CIRCLES, "networks": 12, "fractions": [0.2, 0.6], "trainings": 2},
        [2, 2, 2, 2],
    ),
    "geometry-training": (
        {**ALONG, "trainings": 3, "dataset": CIRCLES, "data": "dataset", "eval_steps": [0, 2]},
        [3],
    ),
    "geometry-evolution": ({"dataset": CIRCLES, "networks": 12, "eval_steps": [2]}, [12]),
}


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


def test_a_training_that_stops_early_stays_where_it_is(made):
    early = {"steps": 16, "batch": 10, "learning_rate": 1.0, "until_loss": 0.65}
    options = {"training": early, "eval_steps": [0, 12, 16]}
    alone = run("input-curvature", **options)
    together, _ = on_device("input-curvature", **options)
    assert made == [3]
    assert_close(together, alone)
    np.testing.assert_array_equal(together.arrays["weight"][-2], together.arrays["weight"][-1])
