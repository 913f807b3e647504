"""Knockouts against pseudo-inverses and exact spectra."""

import torch
from penchant_numerics.knockouts import (
    ProjectionKnockout,
    deflate,
    knock_out_matrix,
    range_basis,
)
from penchant_numerics.operators import Dense, LowRank


def random(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float64)


def symmetric(size=9, seed=0):
    matrix = random(size, size, seed=seed)
    return matrix + matrix.T


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_projection_knockout_equals_the_pseudo_inverse_formula():
    A, V = symmetric(), random(9, 3, seed=1)
    V = torch.cat([V, V[:, :1] + V[:, 1:2]], dim=1)  # dependent columns do not matter
    B = V @ V.T
    P = torch.eye(9, device="cpu", dtype=torch.float64) - B @ torch.linalg.pinv(B, rtol=1e-10)
    knockout = ProjectionKnockout(Dense(A), V)
    close(knockout.dense(), P @ A @ P)
    assert knockout.rank == 3
    close((Dense(A) - LowRank(V)).dense(), A - B)  # the other knockout


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


def test_factors_have_the_non_zero_spectrum_in_sample_space():
    V, W, B = random(9, 3, seed=1), random(9, 2, seed=2), random(9, 2, seed=3)
    operator = ProjectionKnockout(2 * LowRank(V) + LowRank(W), B)
    gram = operator.factor().gram()
    assert gram.size == 5
    close(torch.linalg.eigvalsh(gram.dense()), torch.linalg.eigvalsh(operator.dense())[-5:])
    assert (LowRank(V) - LowRank(W)).factor() is None
