"""The probes `supernat` and `capacity` against closed forms and dense parameters."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_tangent.capacity import probe as capacity
from penchant_tangent.capacity.probe import ball, optimal_rescaling, random_features
from penchant_tangent.shared.supernat import (
    descend,
    noisy_problem,
    population_errors,
    positive_part,
)
from penchant_tangent.supernat.probe import run as run_supernat

DOUBLE = torch.float64


def problem(seed=0, train=30, inputs=4):
    generator = torch.Generator().manual_seed(seed)
    return noisy_problem(train=train, inputs=inputs, noise=0.1, generator=generator)


def decomposed(Phi):
    left, singular, right = torch.linalg.svd(Phi, full_matrices=False)
    return singular.square(), left, right


def test_gradient_descent_follows_its_closed_form():
    made = problem()
    values, vectors, _ = decomposed(made.Phi)
    found = descend(values, vectors, made.y, steps=7, rate=0.5, stretch=False)
    learnt = 1 - (1 - 0.5 * values / values.max()) ** 7
    assert torch.allclose(found.coefficients[-1], learnt * (vectors.T @ made.y), rtol=1e-12)


@pytest.mark.parametrize("stretch", [False, True])
def test_descent_is_that_of_dense_parameters_in_the_rescaled_metric(stretch):
    made = problem()
    values, vectors, right = decomposed(made.Phi)
    found = descend(values, vectors, made.y, steps=5, rate=0.5, stretch=stretch)

    # natural gradient descent with a metric that every step rescales along right singular vectors
    n = len(made.y)
    rate = 0.5 * n / float(values.max())
    w = torch.zeros(made.Phi.shape[1], dtype=DOUBLE)
    inverse = torch.eye(len(w), dtype=DOUBLE)
    for step in range(5):
        error = (made.Phi @ w - made.y) / n
        w = w - rate * inverse @ made.Phi.T @ error
        sizes = (vectors.T @ error).abs()
        if stretch:
            inverse = inverse @ (right.T * (sizes / sizes.max())) @ right
        expected = vectors.T @ (made.Phi @ w)
        assert torch.allclose(found.coefficients[step + 1], expected, rtol=1e-9)
        residual = (made.Phi @ w - made.y).square().mean()
        assert float(found.train_errors[step + 1]) == pytest.approx(float(residual))


def test_noise_is_projected_on_the_noise_features():
    made = problem()
    away = made.y - made.Phi[:, 0]
    fit = torch.linalg.lstsq(made.Phi[:, 1:], away[:, None]).solution
    assert torch.allclose(made.Phi[:, 1:] @ fit[:, 0], away)


def test_the_population_error_is_the_mean_over_new_samples():
    generator = torch.Generator().manual_seed(1)
    weights = torch.tensor([0.7, 0.5, -1.0], dtype=DOUBLE)
    fresh = torch.randn(200000, 3, generator=generator, dtype=DOUBLE)
    fresh[:, 1:] /= 2**0.5
    squares = (fresh @ weights - fresh[:, 0]).square()
    error = float(squares.std()) / len(squares) ** 0.5
    assert abs(float(squares.mean() - population_errors(weights))) < 4 * error


def test_gradient_descent_ends_at_the_expected_error_of_least_squares(tmp_path):
    # E |theta|^2 / d = sigma^2 d / (n - d - 1), inverse Wishart
    options = {"trainings": 100, "inputs": 4, "train": 20, "rate": 1.0, "descent_steps": 100}
    context = testing.context("supernat", tmp_path, **options)
    result = run_supernat(context.options, context)
    found = result.quantities["final-error-gradient-descent"]
    assert abs(found.value - 0.1 * 4 / (20 - 4 - 1)) < 4 * found.stderr


def test_supernat_ends_with_a_lower_error(tmp_path):
    context = testing.context("supernat", tmp_path, trainings=20)
    result = run_supernat(context.options, context)
    difference = result.quantities["final-difference"]
    assert difference.value < -4 * difference.stderr
    last = result.arrays["eigenvalues-last"]
    assert (last <= result.arrays["eigenvalues-first"]).all()


def test_features_of_networks_need_both_axes(tmp_path):
    context = testing.context("supernat", tmp_path, architecture="logistic", shape=[2])
    with pytest.raises(penchant.Error, match="found only the architecture"):
        run_supernat(context.options, context)


def test_a_linear_network_has_the_features_of_its_inputs(tmp_path):
    arguments = {"architecture": "logistic", "dataset": "two-blobs", "dtype": "float64"}
    options = {"trainings": 2, "train": 20, "noise": 0.0, "rate": 1.0, "descent_steps": 2000}
    context = testing.context("supernat", tmp_path, **arguments, **options)
    result = run_supernat(context.options, context)
    # least squares on inputs and a constant leaves this error
    order = torch.randperm(200, generator=context.generator("samples", 0))[:20]
    inputs = context.data.train.inputs[order]
    labels = torch.nn.functional.one_hot(context.data.train.labels[order], 2).double()
    labels = labels - labels.mean(0)
    design = torch.cat([inputs, torch.ones(20, 1, dtype=DOUBLE)], 1)
    away = labels - design @ torch.linalg.lstsq(design, labels).solution
    first = float(away.square().mean())
    assert np.isfinite(first)
    order = torch.randperm(200, generator=context.generator("samples", 1))[:20]
    inputs = context.data.train.inputs[order]
    labels = torch.nn.functional.one_hot(context.data.train.labels[order], 2).double()
    labels = labels - labels.mean(0)
    design = torch.cat([inputs, torch.ones(20, 1, dtype=DOUBLE)], 1)
    away = labels - design @ torch.linalg.lstsq(design, labels).solution
    second = float(away.square().mean())
    found = result.arrays["train-error-gradient-descent"][-1]
    assert found == pytest.approx((first + second) / 2, rel=1e-6)


def test_random_features_approach_their_kernel():
    points = torch.linspace(-1, 1, 6, dtype=DOUBLE)
    generator = torch.Generator().manual_seed(0)
    Phi = random_features(points, count=40000, gamma=1.5, generator=generator)
    exact = torch.exp(-1.5 * (points[:, None] - points).square())
    assert float((Phi @ Phi.T - exact).abs().max()) < 5 / 40000**0.5


def gram(seed=0):
    generator = torch.Generator().manual_seed(seed)
    Phi = torch.randn(8, 12, generator=generator, dtype=DOUBLE)
    y = torch.randn(8, generator=generator, dtype=DOUBLE)
    signs = 2.0 * torch.randint(2, (4000, 8), generator=generator).to(DOUBLE) - 1
    return Phi, y, signs


def test_the_usual_ball_holds_the_interpolator_of_least_norm():
    Phi, y, signs = gram()
    values, vectors = positive_part(*torch.linalg.eigh(Phi @ Phi.T))
    found = ball(values, vectors, y, rescaling=None, signs=signs)
    w = torch.linalg.pinv(Phi) @ y
    assert found.bound == pytest.approx(float(w.norm() * Phi.norm()) / 8)
    # the supremum over the ball, sign by sign
    exact = float(w.norm() * (signs @ Phi).norm(dim=1).mean()) / 8
    assert found.complexity == pytest.approx(exact)


def test_no_rescaling_has_a_smaller_bound_than_the_best_one():
    Phi, y, signs = gram()
    values, vectors = positive_part(*torch.linalg.eigh(Phi @ Phi.T))
    best = optimal_rescaling(values, vectors, y)
    smallest = ball(values, vectors, y, rescaling=best, signs=signs)
    assert smallest.bound == pytest.approx(float((vectors.T @ y).abs().sum()) / 8)
    generator = torch.Generator().manual_seed(3)
    for _ in range(20):
        other = best * torch.rand(8, generator=generator, dtype=DOUBLE).exp()
        assert ball(values, vectors, y, rescaling=other, signs=signs).bound >= smallest.bound
    assert ball(values, vectors, y, rescaling=None, signs=signs).bound >= smallest.bound


def test_complexities_stay_below_their_bounds_and_white_features_have_bound_one(tmp_path):
    options = {"features": 80, "grid_points": 80, "training_sets": 10, "signs": 50, "train": 20}
    context = testing.context("capacity", tmp_path, **options)
    result = capacity.run(context.options, context)
    assert result.arrays["bound-l2"][0] == pytest.approx(1)
    # white features tell nothing of points that were not seen
    assert result.arrays["test-error"][0] == 0.5
    for name in ("l2", "optimal"):
        assert (result.arrays[f"rademacher-{name}"] <= result.arrays[f"bound-{name}"] * 1.05).all()
    assert (result.arrays["bound-optimal"] <= result.arrays["bound-l2"] + 1e-12).all()
    assert result.quantities["bound-ratio"].value > 2


def test_features_are_made_once_for_all_shards(tmp_path, monkeypatch):
    made = []

    def counted(points, **options):
        made.append(len(points))
        return random_features(points, **options)

    monkeypatch.setattr(capacity, "random_features", counted)
    options = {"features": 40, "grid_points": 40, "training_sets": 30, "signs": 2, "train": 10}
    context = testing.context("capacity", tmp_path, scalings=[0.0, 0.5], **options)
    result = capacity.run(context.options, context)
    assert result.arrays["solutions"].shape == (2, 30, 2)
    assert made == [40]


def test_scaling_one_says_that_no_interpolator_is_left(tmp_path):
    options = {"features": 80, "grid_points": 80, "training_sets": 2, "signs": 5, "scalings": [1.0]}
    result = testing.check_probe("capacity", tmp_path, figures=False, **options)
    assert any("no interpolator is left" in text for text in result.warnings)
    with pytest.raises(penchant.Error, match="train must be below grid_points"):
        testing.context("capacity", grid_points=40)
    with pytest.raises(penchant.Error, match="features must be at least grid_points"):
        testing.context("capacity", features=100)
