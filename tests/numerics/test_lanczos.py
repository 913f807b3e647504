"""Lanczos: orthonormal bases, Gauss quadrature, closed spaces, locked vectors."""

import pytest
import torch
from penchant_numerics.linear_algebra import Dense
from penchant_numerics.linear_algebra.lanczos import lanczos, random_starts
from penchant_testing.emulated_device import emulated_device


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=generator(seed), device="cpu", dtype=dtype)


def symmetric(size, seed=0):
    A = normal(size, size, seed=seed)
    return A + A.T


def test_the_basis_is_orthonormal_and_makes_the_matrix_tridiagonal():
    A = symmetric(40)
    (T,) = lanczos(Dense(A), normal(1, 40, seed=1), steps=12)
    identity = torch.eye(12, device="cpu", dtype=torch.float64)
    torch.testing.assert_close(T.basis @ T.basis.T, identity, rtol=0, atol=1e-12)
    torch.testing.assert_close(T.basis @ A @ T.basis.T, T.matrix(), rtol=0, atol=1e-11)
    assert T.without_basis().basis is None


def test_bounds_on_residuals_are_the_residuals_of_ritz_vectors():
    A = symmetric(40)
    (T,) = lanczos(Dense(A), normal(1, 40, seed=1), steps=9)
    values, vectors = torch.linalg.eigh(T.matrix())
    x = T.basis.T @ vectors
    residuals = (A @ x - x * values).norm(dim=0)
    torch.testing.assert_close(T.ritz()[2], residuals, rtol=1e-8, atol=1e-10)
    assert len(T.ritz(4)[0]) == 4


def test_locked_vectors_are_never_seen():
    A = symmetric(30)
    values, vectors = torch.linalg.eigh(A)
    locked = vectors[:, -3:].T.contiguous()
    (T,) = lanczos(Dense(A), normal(1, 30, seed=1), steps=27, locked=locked)
    found = T.ritz()[0]
    torch.testing.assert_close(found, values[:-3], rtol=1e-8, atol=1e-8)


def test_runs_together_are_runs_alone():
    A, starts = Dense(symmetric(30)), normal(3, 30, seed=1)
    together = lanczos(A, starts, steps=6)
    alone = lanczos(A, starts, steps=6, together=1)
    for first, second in zip(together, alone):
        torch.testing.assert_close(first.matrix(), second.matrix())


def test_quadrature_is_exact_for_polynomials():
    A = normal(60, 60)
    A = A + A.T
    start = normal(1, 60, seed=1)
    (T,) = lanczos(Dense(A), start, steps=6)
    nodes, weights, _ = T.ritz()
    v = start[0] / start[0].norm()
    for power in range(12):  # 2 m - 1 = 11
        assert float((weights * nodes**power).sum()) == pytest.approx(
            float(v @ torch.linalg.matrix_power(A, power) @ v), rel=1e-9
        )


def test_more_start_vectors_extend_fewer():
    A = Dense(torch.eye(7, device="cpu", dtype=torch.float64))
    torch.testing.assert_close(
        random_starts(5, A, generator=generator())[:3], random_starts(3, A, generator=generator())
    )


@pytest.mark.parametrize("rank", [60, 5])
def test_a_device_is_asked_rarely_and_gives_what_the_host_gives(rank):
    """Also where the Krylov space closes between two looks."""
    columns = normal(60, rank, seed=3)
    A = columns @ columns.T
    starts = normal(2, 60, seed=4)
    expected = lanczos(Dense(A), starts, steps=40)
    with emulated_device() as counts:
        found = lanczos(Dense(A.to("emulated")), starts.to("emulated"), steps=40)
        assert counts.waits <= 2 * 3  # a wait in 16 steps, for each start
    for here, there in zip(expected, found, strict=True):
        assert there.complete == here.complete == (rank < 40)
        torch.testing.assert_close(there.diagonal, here.diagonal, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(there.off, here.off, rtol=1e-9, atol=1e-9)
        assert there.basis.shape == here.basis.shape
