"""Bounds (38), (40) and (60) of the thesis, against enumerated signs and drawn samples."""

import itertools
import math

import numpy as np
import penchant
import pytest
import torch
from penchant_tangent.complexity.complexity_measures import margins
from penchant_tangent.shared.margin_bounds import (
    DELTA,
    error_bound,
    multiclass_complexity,
    ramp_loss,
    two_class_complexity,
)

SIGNS = np.array(list(itertools.product((-1, 1), repeat=6)))


def rademacher(values):
    """E_sigma sup_f sum_i sigma_i f(x_i) / n of functions (functions, n), over all signs."""
    return (SIGNS @ values.T).max(1).mean() / values.shape[1]


def ramp(margin, gamma):
    return np.clip(1 - margin / gamma, 0, 1)


def in_the_ball(count, size, radius, random):
    """Weights (count, size) of the ball, most of them on its surface."""
    weights = random.normal(size=(count, size))
    return radius * weights / np.linalg.norm(weights, axis=1, keepdims=True)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 4.0])
def test_losses_of_two_classes_are_at_most_as_complex_as_functions_over_gamma(gamma):
    """(40), and (42) for the ball that the functions are from."""
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(6, 3)), random.choice([-1.0, 1.0], 6)
    radius = 1.5
    functions = in_the_ball(400, 3, radius, random) @ features.T
    losses = rademacher(ramp(functions * labels, gamma))
    assert 0 < losses <= two_class_complexity(rademacher(functions), gamma)
    # the functions are some of the ball, whose complexity is known
    ball = radius * np.linalg.norm(SIGNS @ features, axis=1).mean() / 6
    bound = radius * math.sqrt((features**2).sum()) / 6
    assert 0.9 * ball < rademacher(functions) <= ball <= bound


def test_losses_of_several_classes_are_below_theorem_b_2():
    """(60), and (61), which is equal where all outputs have the same trace."""
    random = np.random.default_rng(1)
    classes, radius, gamma = 3, 1.5, 0.8
    features = random.normal(size=(6, classes, 4))
    labels = random.integers(0, classes, 6)
    weights = in_the_ball(400, 4, radius, random)
    outputs = torch.tensor(np.einsum("fp,ncp->fnc", weights, features))
    own = np.stack([margins(each, torch.tensor(labels)).numpy() for each in outputs])
    losses = rademacher(ramp(own, gamma))

    traces = (features**2).sum((0, 2))  # of every output
    by_output = classes / gamma * radius / 6 * np.sqrt(traces).sum()
    root = radius * math.sqrt(traces.sum())
    bound = multiclass_complexity(root, classes=classes, samples=6, gamma=gamma)
    assert 0 < losses <= by_output <= bound
    alike = multiclass_complexity(radius * 3.0, classes=4, samples=6, gamma=gamma)
    assert alike == pytest.approx(4 / gamma * radius / 6 * 4 * math.sqrt(9.0 / 4))


def test_the_error_is_below_its_bound_for_all_functions_at_once():
    """(38), where the error is known: labels are signs of the first coordinate, one in ten not."""
    random = np.random.default_rng(2)
    samples, gamma, wrong = 2000, 0.5, 0.1
    weights = in_the_ball(50, 2, 1.0, random)
    angles = np.arccos(np.clip(weights[:, 0], -1, 1)) / math.pi  # share of other signs
    errors = angles * (1 - wrong) + (1 - angles) * wrong
    failed = 0
    for _ in range(100):
        inputs = random.normal(size=(samples, 2))
        labels = np.sign(inputs[:, 0]) * np.where(random.random(samples) < wrong, -1, 1)
        bound = 1.0 * math.sqrt((inputs**2).sum()) / samples
        complexity = two_class_complexity(bound, gamma)
        functions = weights @ inputs.T
        bounds = [
            error_bound(ramp_loss(torch.tensor(each * labels), gamma), complexity, samples)
            for each in functions
        ]
        failed += bool((errors > np.array(bounds)).any())
    assert failed <= 100 * DELTA
    # and it says something: the best of them is bounded below chance
    assert min(bounds) < 0.6


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_what_few_samples_add(delta):
    expected = 0.25 + 2 * 0.1 + 3 * math.sqrt(math.log(2 / delta) / 100)
    assert error_bound(0.25, 0.1, 50, delta) == pytest.approx(expected)


def test_interpolators_are_bounded_by_their_complexity_alone():
    """`capacity`: all margins are 1, so that no loss is left; the best norm bounds best."""
    result = penchant.measure(
        "capacity",
        features=40,
        grid_points=40,
        train=10,
        training_sets=4,
        signs=10,
        scalings=[0.0, 0.5],
        executor="serial",
    )
    added = 3 * math.sqrt(math.log(2 / DELTA) / 20)
    for name in ("l2", "optimal"):
        found, bound = result.arrays[f"error-bound-{name}"], result.arrays[f"bound-{name}"]
        assert found == pytest.approx(2 * bound + added, rel=1e-9)
    assert (result.arrays["error-bound-optimal"] <= result.arrays["error-bound-l2"] + 1e-12).all()
    assert (result.arrays["test-error"] <= result.arrays["error-bound-optimal"]).all()


def test_values_that_are_equal_to_rounding_share_their_rank():
    from penchant_tangent.shared.mean_rank_correlation import mean_rank_correlation

    bounds = np.array([[0.8, 0.7, 0.7], [0.8, 0.7, 0.7]])
    rounded = bounds * (1 + 1e-15 * np.arange(6).reshape(2, 3))
    errors = np.array([[0.5, 0.1, 0.3], [0.5, 0.2, 0.1]])
    for each in (bounds, rounded):
        generator = torch.Generator("cpu").manual_seed(0)
        found = mean_rank_correlation(each, errors, generator=generator)
        assert found.values == pytest.approx([0.866, 0.866], abs=1e-3)
