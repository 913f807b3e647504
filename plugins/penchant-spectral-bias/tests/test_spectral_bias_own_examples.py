"""What the examples of networks of one's own say, with their controls; minutes, so slow tests."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "spectral_bias"
SEEDS = (0, 1, 2)


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def orders(results):
    return np.array([each.quantities["rank-correlation"].value for each in results])


@pytest.mark.slow
def test_a_siren_learns_slow_waves_first_and_nothing_of_shuffled_ones():
    siren = example("own_siren")
    learnt = [siren.measure(30.0, seed=seed) for seed in SEEDS]
    shuffled = [siren.measure(30.0, shuffled=True, seed=seed) for seed in SEEDS]
    slow = [siren.measure(3.0, seed=seed) for seed in SEEDS]
    assert orders(learnt).min() > 0.9
    # all of the target is learnt, and nothing of it where values are in random order
    assert min(each.arrays["learnt-share"][-1].min() for each in learnt) > 0.95
    assert max(np.abs(each.arrays["learnt-share"][-1]).max() for each in shuffled) < 0.3
    # a small first frequency delays the fast waves
    highest = [each.arrays["learnt-share"][-1, -1] for each in slow]
    assert max(highest) < min(each.arrays["learnt-share"][-1, -1] for each in learnt)


@pytest.mark.slow
def test_an_equation_of_second_order_reverses_the_order_of_slow_waves():
    pinn = example("own_pinn")
    physics = [pinn.measure(physics=True, seed=seed) for seed in SEEDS]
    regression = [pinn.measure(physics=False, seed=seed) for seed in SEEDS]
    assert orders(regression).min() > 0.9
    assert orders(physics).max() < 0.7
    for by_equation, by_values in zip(physics, regression):
        # after 200 steps: the third frequency is ahead of the first in one, behind in the other
        assert by_equation.arrays["learnt-share"][3, 2] > by_equation.arrays["learnt-share"][3, 0]
        assert by_values.arrays["learnt-share"][3, 2] < by_values.arrays["learnt-share"][3, 0]
