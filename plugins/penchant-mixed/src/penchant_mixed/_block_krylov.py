"""Leading eigenpairs of a symmetric positive operator from block Krylov spaces, with residuals.

The space spanned by V, G V, G^2 V, ... is orthonormalised in full, and the pairs are Rayleigh-Ritz pairs in it. Every pass is one product
with a block, which is all that is asked of the operator. Reference: Musco and Musco, Randomized block Krylov methods for stronger
and faster approximate singular value decomposition, NeurIPS 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from penchant_numerics.moments import descending_eigh
from torch import Generator, Tensor

_OVERSAMPLING = 4  # vectors of a block beyond those that are asked for
_DEPENDENT = 1e-10  # a new direction shorter than this, relative to its block, is rounding


class Pairs(NamedTuple):
    """Eigenvalues (k,), descending, eigenvectors (k, D), residuals |G u - lambda u| (k,)."""

    eigenvalues: Tensor
    vectors: Tensor
    residuals: Tensor
    passes: int
    converged: bool


def leading_pairs(
    product: Callable[[Tensor], Tensor],
    size: int,
    count: int,
    *,
    generator: Generator,
    passes: int,
    tolerance: float,
) -> Pairs:
    """The `count` leading pairs of the operator; `product` maps rows (block, D) to rows.

    >>> G = torch.diag(torch.arange(50.0, device="cpu", dtype=torch.float64))
    >>> generator = torch.Generator(device="cpu").manual_seed(0)
    >>> pairs = leading_pairs(lambda V: V @ G, 50, 2, generator=generator, passes=20, tolerance=1e-8)
    >>> pairs.eigenvalues.round(decimals=6).tolist()
    [49.0, 48.0]
    """
    start = torch.randn(
        min(count + _OVERSAMPLING, size),
        size,
        generator=generator,
        dtype=torch.float64,
        device="cpu",
    )
    block = torch.linalg.qr(start.T).Q.T
    basis, images = block[:0], block[:0]
    for number in range(1, passes + 1):
        image = product(block)
        basis, images = torch.cat([basis, block]), torch.cat([images, image])
        pairs = _ritz_pairs(basis, images, count, number, tolerance)
        block = _beyond(basis, image)
        if pairs.converged or not len(block):
            break
    return pairs


def _ritz_pairs(basis: Tensor, images: Tensor, count: int, passes: int, tolerance: float) -> Pairs:
    small = images @ basis.T
    values, weights = descending_eigh((small + small.T) / 2)
    values, weights = values[:count], weights[:count]
    vectors = weights @ basis
    residuals = (weights @ images - values[:, None] * vectors).norm(dim=1)
    enough = len(values) == count
    return Pairs(
        values,
        vectors,
        residuals,
        passes,
        enough and bool((residuals <= tolerance * values[0]).all()),
    )


def _beyond(basis: Tensor, image: Tensor) -> Tensor:
    """An orthonormal basis of what the image has beyond the space so far; orthogonalised twice, which is enough."""
    scale = image.norm(dim=1).max()
    for _ in range(2):
        image = image - (image @ basis.T) @ basis
    left, lengths, rows = torch.linalg.svd(image, full_matrices=False)
    fresh = rows[lengths > _DEPENDENT * scale]
    return torch.linalg.qr((fresh - (fresh @ basis.T) @ basis).T).Q.T[: size_left(basis)]


def size_left(basis: Tensor) -> int:
    """Dimensions that the space does not have yet."""
    return basis.shape[1] - len(basis)
