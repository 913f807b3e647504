"""Formulas of the thesis that are printed wrongly, against enumeration and dense features."""

import itertools

import numpy as np
import pytest
import torch
from penchant_numerics.layers import tangent_kernel
from torch import nn

SIGNS = np.array(list(itertools.product((-1, 1), repeat=5)))


def rademacher(values):
    """E_sigma sup_f sum_i sigma_i f(x_i) / n of a finite class (functions, n), over all signs."""
    return (SIGNS @ values.T).max(1).mean() / values.shape[1]


def margins(outputs, labels):
    """f_y - max of the others, (functions, n), of outputs (functions, n, c)."""
    own = np.take_along_axis(outputs, labels[None, :, None], 2)[:, :, 0]
    others = outputs.copy()
    np.put_along_axis(others, np.broadcast_to(labels, own.shape)[:, :, None], -np.inf, 2)
    return own - others.max(2)


@pytest.mark.parametrize("seed", range(5))
def test_lemma_b_2_holds_with_the_functions_of_single_outputs(seed):
    random = np.random.default_rng(seed)
    c, gamma = 3, 0.7
    outputs = random.normal(size=(20, 5, c))
    # a class that holds the negative of each function, as norm balls do
    outputs = np.concatenate([outputs, -outputs])
    labels = random.integers(0, c, 5)
    ramp = np.clip(1 - margins(outputs, labels) / gamma, 0, 1)
    single = sum(rademacher(outputs[:, :, y]) for y in range(c))
    assert rademacher(ramp) <= c / gamma * single
    # the printed bound is c times one that (53) gives already
    by_class = sum(rademacher(margins(outputs, np.full(5, y))) for y in range(c))
    assert rademacher(ramp) <= by_class / gamma
    assert by_class <= c * single
    # (56): 1 and 0 from 1 and -1
    indicator = (labels == 0).astype(float)
    signs = 2 * indicator - 1
    assert np.array_equal((signs + 1) / 2, indicator)
    assert not np.array_equal((signs + 0.5) / 2, indicator)


def test_the_trace_of_a_kernel_is_the_square_of_the_norm_of_its_features():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
        inputs = torch.randn(5, 3, dtype=torch.float64)

    def outputs(parameters):
        return torch.func.functional_call(network, parameters, (inputs,))

    jacobians = torch.func.jacrev(outputs)(dict(network.named_parameters()))
    features = torch.cat([each.reshape(10, -1) for each in jacobians.values()], 1)
    features = features.detach()
    trace = float(tangent_kernel(network, inputs).trace())
    assert trace == pytest.approx(float(features.norm()) ** 2)
    assert trace != pytest.approx(float(features.norm()), rel=0.1)


def test_updates_along_an_eigenvector_have_the_sign_and_the_rate_of_the_descent():
    """Below (28): v_j . dw = -eta sqrt(lambda_j) u_j . grad L, which (27) turns into (25)."""
    random = np.random.default_rng(0)
    eta = 0.3
    features = random.normal(size=(6, 9))
    gradient = random.normal(size=6)  # of the loss in the outputs
    u, roots, v = np.linalg.svd(features, full_matrices=False)
    update = -eta * features.T @ gradient
    along = u.T @ gradient
    assert v @ update == pytest.approx(-eta * roots * along)
    assert not np.allclose(v @ update, roots * along)  # as printed
    # (25) follows from (27), in which a root is left, not from (26)
    by_eigenvector = roots * (v @ update)
    assert by_eigenvector == pytest.approx(-eta * roots**2 * along)
    assert u @ by_eigenvector == pytest.approx(features @ update)


def test_linear_regression_decouples_with_the_roots_of_eigenvalues():
    """B.1.5.2: Phi = sum_j sqrt(lambda_j) u_j v_j^T, and k = sum_j lambda_j u_j(x) u_j(x')."""
    random = np.random.default_rng(1)
    features = random.normal(size=(5, 8))
    others = random.normal(size=(3, 8))  # features of points that are not in the sample
    values, u = np.linalg.eigh(features @ features.T)
    v = features.T @ u / np.sqrt(values)
    assert (u * np.sqrt(values)) @ v.T == pytest.approx(features)
    assert not np.allclose((u * values) @ v.T, features)  # as printed

    # principal components at other points, and lemma B.1
    components = others @ v / np.sqrt(values)
    kernel = others @ features.T
    assert (components * values) @ u.T == pytest.approx(kernel)
    assert not np.allclose(components @ u.T, kernel)  # as printed in its proof
    assert kernel @ u == pytest.approx(components * values)

    # (33): descent itself, along every component
    targets, eta, steps = random.normal(size=5), 0.5 / values.max(), 7
    weights = np.zeros(8)
    for _ in range(steps):
        weights -= eta * features.T @ (features @ weights - targets)
    best = u.T @ targets
    expected = best - (1 - eta * values) ** steps * best
    assert u.T @ (features @ weights) == pytest.approx(expected)
