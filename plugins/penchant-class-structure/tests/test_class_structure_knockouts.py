"""Knockouts against pseudo-inverses and exact spectra."""

import torch
from penchant_class_structure.layer_structure.layer_spectra import knock_out_matrix, range_basis


def random(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float64)


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_rectangular_knockout_takes_both_sides():
    A, B = random(7, 5), random(7, 2, seed=1) @ random(2, 5, seed=2)
    inverse = torch.linalg.pinv(B, rtol=1e-10)
    eye = [torch.eye(size, device="cpu", dtype=torch.float64) for size in (7, 5)]
    close(knock_out_matrix(A, B), (eye[0] - B @ inverse) @ A @ (eye[1] - inverse @ B))
    assert range_basis(torch.zeros(4, 2, device="cpu")).shape == (4, 0)
