"""Changing images along NADs: a carrier that gives the class away, and flipped coefficients.

Reference: Neural Anisotropy Directions, section 4.2 and supplement E. The printed channel
floor(y/2) does not exist for y > 5 in three channels; with K channels the pair of classes
d = floor(y/2) uses NAD i + floor(d/K) in channel d mod K.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def carriers_needed(classes: int, channels: int) -> int:
    """Consecutive NADs that a carrier takes: one for every `channels` pairs of classes."""
    pairs = math.ceil(classes / 2)
    return math.ceil(pairs / channels)


def poisoned(images: Tensor, labels: Tensor, directions: Tensor, *, epsilon: float) -> Tensor:
    """Images whose projection on the direction of their pair of classes is +-epsilon.

    Args:
        images: Images (n, K, H, W); everything but that projection is unchanged.
        labels: Their classes (n,); the sign is that of 2 (y mod 2) - 1.
        directions: Unit rows (needed, H W), from the carrier's index on.
        epsilon: The size of the carrier.
    """
    # Which channel and which direction each image's pair of classes has.
    rows = torch.arange(len(images), device=images.device)
    pairs = labels // 2
    channels = images.shape[1]
    planes = images.flatten(2).clone()  # (n, K, H W)
    chosen = directions.to(images.dtype)[pairs // channels]  # (n, H W)

    # The projection is replaced; the rest of the channel stays.
    plane = planes[rows, pairs % channels]
    target = epsilon * (2 * (labels % 2) - 1).to(images.dtype)
    missing = target - (plane * chosen).sum(1)
    planes[rows, pairs % channels] = plane + missing[:, None] * chosen
    return planes.reshape(images.shape)


def orthonormal(basis: Tensor) -> Tensor:
    """Rows made orthonormal again in their order, signs kept: stored ones have lost digits."""
    columns, triangle = torch.linalg.qr(basis.T.to(torch.float64))
    # QR may turn a vector round; the sign of its component along the original says whether it did.
    signs = triangle.diagonal().sign()
    turned: Tensor = columns * signs
    return turned.T


def flip_matrix(basis: Tensor) -> Tensor:
    """The orthogonal matrix R = U flip(U^T) for an orthonormal basis given as rows (D, D)."""
    return basis.flip(0).T @ basis


def flipped(images: Tensor, matrix: Tensor) -> Tensor:
    """Images x' = U flip(U^T x), each channel by itself."""
    rotation = matrix.T.to(images.dtype)
    turned = images.flatten(2) @ rotation
    return turned.reshape(images.shape)
