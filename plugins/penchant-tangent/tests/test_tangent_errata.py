"""Formulas of the thesis that are printed wrongly, against enumeration and dense features."""

import itertools

import numpy as np
import pytest
import torch
from penchant_numerics.tangent_kernels import tangent_kernel
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
