"""Adaptive clipping: the gradient of the information is never longer than the adversarial one.

g_a = min(|g_u|, |g_m|) g_m / |g_m|, with norms over all parameters of the generator together
(thesis, C.1.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def norm(gradients: Sequence[Tensor]) -> Tensor:
    """Euclidean norm of all of them together."""
    total = torch.zeros_like(gradients[0].sum())
    for gradient in gradients:
        total = total + gradient.square().sum()
    return torch.sqrt(total)


def adaptively_clipped(
    adversarial: Sequence[Tensor], informative: Sequence[Tensor]
) -> list[Tensor]:
    """The informative gradients, scaled down where they are longer than the adversarial ones.

    Zero or non-finite ones become 0.
    """
    limit = norm(adversarial)
    length = norm(informative)
    # A gradient of length 0, or none at all, cannot be scaled.
    usable = torch.isfinite(length) & (length > 0)
    ratio = torch.minimum(limit, length) / torch.where(usable, length, 1.0)
    factor = torch.where(usable, ratio, 0.0)
    # One factor for all parameters keeps the direction.
    clipped = []
    for gradient in informative:
        finite = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
        clipped.append(finite * factor)
    return clipped
