"""Changing images along NADs: a carrier that gives the class away, and the representation flipped in the NAD basis.

Reference: Neural Anisotropy Directions, section 4.2 and supplement E. The printed channel floor(y/2) does not exist for y > 5 in three
channels; with K channels the pair of classes d = floor(y/2) uses NAD i + floor(d/K) in channel d mod K.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def carriers_needed(classes: int, channels: int) -> int:
    """Consecutive NADs that a carrier takes: one for every `channels` pairs of classes."""
    return math.ceil(math.ceil(classes / 2) / channels)


def poisoned(images: Tensor, labels: Tensor, directions: Tensor, *, epsilon: float) -> Tensor:
    """Images (n, K, H, W) whose projection on the direction of their pair of classes is +-epsilon; all else is unchanged.

    `directions` are unit rows (needed, H W), from the carrier's index on. The sign is that of 2 (y mod 2) - 1.
    """
    rows = torch.arange(len(images), device=images.device)
    pairs = labels // 2
    channels = images.shape[1]
    planes = images.flatten(2).clone()  # (n, K, H W)
    chosen = directions.to(images.dtype)[pairs // channels]  # (n, H W)
    plane = planes[rows, pairs % channels]
    wanted = epsilon * (2 * (labels % 2) - 1).to(images.dtype)
    planes[rows, pairs % channels] = plane + (wanted - (plane * chosen).sum(1))[:, None] * chosen
    return planes.reshape(images.shape)


def flip_matrix(basis: Tensor) -> Tensor:
    """The orthogonal matrix R = U flip(U^T) for an orthonormal basis given as rows (D, D)."""
    return basis.flip(0).T @ basis


def flipped(images: Tensor, matrix: Tensor) -> Tensor:
    """x' = U flip(U^T x), each channel by itself."""
    return (images.flatten(2) @ matrix.T.to(images.dtype)).reshape(images.shape)
