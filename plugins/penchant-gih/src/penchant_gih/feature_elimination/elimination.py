"""Which directions to take out of data: generalised eigenvectors of (G, S), and random ones."""

from __future__ import annotations

import torch
from penchant_numerics.data import Samples
from threadpoolctl import threadpool_limits
from torch import Generator, Tensor


def least_aligned(G: Tensor, S: Tensor, *, ridge: float) -> Tensor:
    """Solutions of G v = l S v with the smallest l first, orthonormalised in their order.

    S of real data is singular: constant pixels, fewer samples than inputs.

    Args:
        G: The average geometry (D, D).
        S: The second moment of the data (D, D).
        ridge: Added to S, in units of its mean eigenvalue.

    Returns:
        Orthonormal rows (D, D), where S is.
    """
    # A small multiple of the identity makes S invertible.
    size = len(S)
    height = ridge * S.trace() / size
    regular = S + height * torch.eye(size, dtype=S.dtype, device=S.device)
    on_host = S.device.type == "cpu"
    solve = _solved_on_host if on_host else solved_on_device
    columns = solve(G, regular)
    rows: Tensor = torch.linalg.qr(columns).Q.T
    return rows


def _solved_on_host(G: Tensor, S: Tensor) -> Tensor:
    """Generalised eigenvectors as columns, ascending, by LAPACK, which torch does not offer."""
    import scipy.linalg

    threads = torch.get_num_threads()
    with threadpool_limits(limits=threads):
        _, columns = scipy.linalg.eigh(G.numpy(), S.numpy())
    torch.set_num_threads(threads)  # leaving the limits resets it
    return torch.as_tensor(columns, dtype=S.dtype, device=S.device)


def solved_on_device(G: Tensor, S: Tensor) -> Tensor:
    """The same where the matrices are: with S = L L^T, eigenvectors y of L^-1 G L^-T give L^-T y.

    Args:
        G: A symmetric matrix (D, D).
        S: A positive one.

    Returns:
        Columns (D, D), ascending.
    """
    solve = torch.linalg.solve_triangular
    L = torch.linalg.cholesky(S)
    # From the left, then from the right.
    half = solve(L, G.to(S.dtype), upper=False)
    inner = solve(L, half.T, upper=False)
    _, vectors = torch.linalg.eigh((inner + inner.T) / 2)
    solved: Tensor = solve(L.T, vectors, upper=True)
    return solved


def random_rows(size: int, generator: Generator) -> Tensor:
    """A random orthonormal basis (rows), on the CPU: Gram-Schmidt on normal vectors."""
    noise = torch.randn(size, size, generator=generator, device="cpu", dtype=torch.float64)
    rows: Tensor = torch.linalg.qr(noise).Q.T
    return rows


def explained(rows: Tensor, S: Tensor) -> Tensor:
    """Share of the trace of S on the first 1, 2, ... rows."""
    along = (rows @ S * rows).sum(1)
    # Orthonormal rows: what they explain adds up, on the host: `cumsum` has no deterministic kernel
    # on CUDA.
    sums = along.cpu().cumsum(0)
    return sums.to(S.device) / S.trace()


def equal_count(shares: Tensor, share: float) -> int:
    """How many rows explain at least this share."""
    if share <= 0:
        return 0
    below = (shares < share).sum()
    return int(below) + 1


def without(samples: Samples, rows: Tensor) -> Samples:
    """The samples with their projections on orthonormal rows taken out."""
    # x - R^T R x.
    flat = samples.inputs.flatten(1)
    rows = rows.to(flat.device, flat.dtype)
    left = flat - flat @ rows.T @ rows
    return Samples(left.reshape(samples.inputs.shape), samples.labels)
