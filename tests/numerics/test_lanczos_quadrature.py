"""The measure of a spectrum: moments, exact weights, and what counts as an eigenvalue."""

import pytest
import torch
from penchant_numerics.linear_algebra import Dense, exact_quadrature, quadrature


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def matrix(values, seed=0):
    size = len(values)
    random = torch.randn(size, size, generator=generator(seed), device="cpu", dtype=torch.float64)
    Q = torch.linalg.qr(random).Q
    return (Q * torch.as_tensor(values, device="cpu", dtype=torch.float64)) @ Q.T


def test_the_mean_of_a_function_is_its_trace_over_the_size():
    values = torch.linspace(0.5, 2, 60).double()
    measure = quadrature(Dense(matrix(values)), steps=20, starts=200, generator=generator(1))
    for function in (torch.log, torch.square, torch.exp):
        runs = torch.stack(
            [(w * function(n)).sum() for n, w in zip(measure.nodes, measure.weights)]
        )
        stderr = float(runs.std()) / 200**0.5
        found = float(measure.mean(function))
        assert abs(found - float(function(values).mean())) < 4 * stderr


def test_weights_sum_to_one_and_simple_eigenvalues_have_theirs_exactly():
    values = torch.cat([torch.linspace(-1, 1, 97), torch.tensor([9.0, 7.0, 5.0])]).double()
    measure = quadrature(Dense(matrix(values)), steps=30, starts=3, generator=generator())
    for nodes, weights in zip(measure.nodes, measure.weights):
        assert float(weights.sum()) == pytest.approx(1)
        assert float(weights[nodes > 4].sum()) == pytest.approx(3 / 100, abs=1e-9)
    assert len(measure.simple) >= 3
    assert not measure.complete


def test_all_eigenvalues_have_the_bounds_of_what_is_left():
    measure = exact_quadrature(torch.tensor([9.0, 2.0, 1.0], device="cpu"), zeros=1, known=1)
    assert measure.bounds == (0.0, 9.0)
    assert measure.bulk == (0.0, 2.0)
    assert measure.weights[0].tolist() == [0.25] * 4
