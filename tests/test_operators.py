"""Operators: their algebra, knockouts, traces and the bridge to SciPy, against dense matrices."""
# ruff: noqa: T201 (the numbers are shown with -s)

import doctest
import importlib

import numpy as np
import pytest
import torch
from penchant_numerics import operators
from penchant_numerics.knockouts import (
    ProjectionKnockout,
    deflate,
    knock_out_matrix,
    range_basis,
    subtraction_knockout,
)
from penchant_numerics.operators import Dense, LowRank, Operator, Restricted, Sum, from_scipy
from scipy.sparse.linalg import LinearOperator, eigsh

MODULES = (
    "data class_means determinism gauss_newton hessian tangent_kernels knockouts lanczos layer_features linearisation operators parameters "
    "spectral_density eigenpairs tape"
)


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def random(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), device="cpu", dtype=torch.float64)


def symmetric(size=9, seed=0):
    matrix = random(size, size, seed=seed)
    return matrix + matrix.T


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MODULES.split())
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(f"penchant_numerics.{name}")
    assert doctest.testmod(module, optionflags=doctest.IGNORE_EXCEPTION_DETAIL).failed == 0


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


def test_factors_have_the_non_zero_spectrum_in_sample_space():
    V, W, B = random(9, 3, seed=1), random(9, 2, seed=2), random(9, 2, seed=3)
    operator = ProjectionKnockout(2 * LowRank(V) + LowRank(W), B)
    gram = operator.factor().gram()
    assert gram.size == 5
    close(torch.linalg.eigvalsh(gram.dense()), torch.linalg.eigvalsh(operator.dense())[-5:])
    assert (LowRank(V) - LowRank(W)).factor() is None


def test_projection_knockout_equals_the_pseudo_inverse_formula():
    A, V = symmetric(), random(9, 3, seed=1)
    V = torch.cat([V, V[:, :1] + V[:, 1:2]], dim=1)  # dependent columns do not matter
    B = V @ V.T
    P = torch.eye(9, device="cpu", dtype=torch.float64) - B @ torch.linalg.pinv(B, rtol=1e-10)
    knockout = ProjectionKnockout(Dense(A), V)
    close(knockout.dense(), P @ A @ P)
    assert knockout.rank == 3
    close(subtraction_knockout(Dense(A), V).dense(), A - B)


def test_rectangular_knockout_takes_both_sides():
    A, B = random(7, 5), random(7, 2, seed=1) @ random(2, 5, seed=2)
    inverse = torch.linalg.pinv(B, rtol=1e-10)
    eye = [torch.eye(size, device="cpu", dtype=torch.float64) for size in (7, 5)]
    close(knock_out_matrix(A, B), (eye[0] - B @ inverse) @ A @ (eye[1] - inverse @ B))
    assert range_basis(torch.zeros(4, 2, device="cpu")).shape == (4, 0)


def test_deflation_moves_pairs_to_zero_and_leaves_the_others():
    A = symmetric()
    values, vectors = torch.linalg.eigh(A)
    left = torch.linalg.eigvalsh(deflate(Dense(A), values[-2:], vectors[:, -2:]).dense())
    expected = (
        torch.cat([values[:-2], torch.zeros(2, device="cpu", dtype=torch.float64)]).sort().values
    )
    close(left, expected)


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
    back = from_scipy(bridge, device="cpu", dtype=torch.float64)
    close(back @ random(30, 3, seed=1), A @ random(30, 3, seed=1))
    given = from_scipy(
        LinearOperator((30, 30), matvec=lambda v: A.numpy() @ v, dtype="float64"),
        device="cpu",
        dtype=torch.float64,
    )
    close(given @ random(30, seed=1), A @ random(30, seed=1))
    assert isinstance(given, Operator)
