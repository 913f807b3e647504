"""Operators: their algebra, traces and the bridge to SciPy, against dense matrices."""
# ruff: noqa: T201 (the numbers are shown with -s)

import numpy as np
import pytest
import torch
from low_rank import LowRank
from penchant_numerics.linear_algebra import Dense, Restricted, operators
from penchant_numerics.linear_algebra.operators import Sum
from scipy.sparse.linalg import eigsh


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def random(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), device="cpu", dtype=torch.float64)


def symmetric(size=9, seed=0):
    matrix = random(size, size, seed=seed)
    return matrix + matrix.T


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_sums_scaling_and_low_rank_are_those_of_matrices():
    A, V, w = symmetric(), random(9, 4, seed=1), random(4, seed=2)
    operator = 2 * Dense(A) - LowRank(V) + LowRank(V, w) * 0.5
    expected = 2 * A - V @ V.T + 0.5 * (V * w) @ V.T
    close(operator.dense(), expected)
    close(operator @ V[:, 0], expected @ V[:, 0])
    close(operator @ V, expected @ V)
    close((-operator).dense(), -expected)
    assert operator.shape == (9, 9)
    assert operator.trace().value == pytest.approx(float(expected.trace()))
    assert operator.trace().samples == 0  # exact


def test_blocks_equal_single_vectors():
    operator, V = Dense(symmetric()), random(9, 3, seed=1)
    close(operator @ V, torch.stack([operator @ v for v in V.T], dim=1))


def test_wrong_shapes_are_refused_with_what_was_found():
    with pytest.raises(ValueError, match=r"expected a tensor \(9,\) on cpu, found \(8,\)"):
        Dense(symmetric()).matvec(random(8))
    with pytest.raises(ValueError, match=r"found \[9, 8\]"):
        Sum([Dense(symmetric()), Dense(symmetric(8))])


def test_a_device_without_a_number_is_any_of_its_type():
    first, second = torch.device("cuda"), torch.device("cuda:0")
    assert operators._same_device(first, second)
    assert not operators._same_device(second, torch.device("cuda:1"))
    assert not operators._same_device(first, torch.device("cpu"))


def test_restriction_is_the_principal_block():
    A, V, chosen = symmetric(), random(9, 2, seed=1), torch.tensor([1, 4, 8], device="cpu")
    close(Restricted(Dense(A), chosen).dense(), A[chosen][:, chosen])
    close(Restricted(Dense(A), slice(2, 5)).dense(), A[2:5, 2:5])
    factor = Restricted(LowRank(V), chosen).factor()
    close(factor.apply(torch.eye(2, device="cpu", dtype=torch.float64)).T, V[chosen])


def test_hutchinson_is_within_its_standard_error():
    class Hidden(Dense):
        def exact_trace(self):
            return None

    A = symmetric(40) + 20 * torch.eye(40, device="cpu", dtype=torch.float64)
    found = Hidden(A).trace(generator=generator(), samples=400)
    print(f"trace {float(A.trace()):.2f}, found {found.value:.2f} +- {found.stderr:.2f}")
    assert abs(found.value - float(A.trace())) < 4 * found.stderr
    expected = (
        2 * (A.square().sum() - A.diagonal().square().sum()) / 400
    ).sqrt()  # of random signs
    assert found.stderr == pytest.approx(float(expected), rel=0.2)
    with pytest.raises(ValueError, match="generator"):
        Hidden(A).trace()


def test_scipy_sees_the_operator_and_the_other_way_round():
    A = symmetric(30)
    bridge = Dense(A).to_scipy()
    values = eigsh(bridge, k=4, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(values), torch.linalg.eigvalsh(A)[-4:].numpy(), atol=1e-10)
