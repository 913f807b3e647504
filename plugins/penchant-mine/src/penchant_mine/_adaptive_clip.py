"""Adaptive clipping: the gradient of the information is never longer than that of the adversarial loss.

g_a = min(|g_u|, |g_m|) g_m / |g_m|, with norms over all parameters of the generator together (thesis, C.1.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def norm(gradients: Sequence[Tensor]) -> Tensor:
    """Euclidean norm of all of them together."""
    return torch.sqrt(
        sum(
            (gradient.square().sum() for gradient in gradients),
            start=torch.zeros_like(gradients[0].sum()),
        )
    )


def adaptively_clipped(
    adversarial: Sequence[Tensor], informative: Sequence[Tensor]
) -> list[Tensor]:
    """The informative gradients, scaled down where they are longer than the adversarial ones; zero or non-finite ones become 0."""
    limit, length = norm(adversarial), norm(informative)
    usable = torch.isfinite(length) & (length > 0)
    factor = torch.where(
        usable, torch.minimum(limit, length) / torch.where(usable, length, 1.0), 0.0
    )
    return [
        torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0) * factor
        for gradient in informative
    ]
