"""Damped inverses of a Kronecker product, by eigenvectors of its factors.

Among these the product is diagonal, and so is what damping adds to it. Martens and Grosse (2015)
damp both factors instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from penchant_curvature.shared.curvature_operator import Curvature, dense_inner
from penchant_curvature.shared.linear_layers import Layer
from penchant_curvature.shared.moment_sums import Moments


class KroneckerInverse(Curvature):
    """(H x Delta + damping)^-1, or both factors damped, by eigenvectors of the factors."""

    def __init__(
        self, layers: Sequence[Layer], factors: Moments, damping: float, kind: str
    ) -> None:
        if damping <= 0 or kind not in ("exact", "factored"):
            raise ValueError(
                "expected damping above 0 and kind exact or factored, "
                f"found {damping:g} and {kind!r}"
            )
        H, Delta = factors.H[0], factors.Delta[0]
        super().__init__(layers, device=H.device, dtype=H.dtype)
        inputs, self._inputs = torch.linalg.eigh(H)
        errors, self._errors = torch.linalg.eigh(Delta)

        # eigenvalues that only rounding made negative are zero
        inputs, errors = inputs.clamp(min=0), errors.clamp(min=0)
        if kind == "exact":
            damped = torch.outer(errors, inputs) + damping
        else:
            root = math.sqrt(damping)
            damped = torch.outer(errors + root, inputs + root)
        self._inverse = damped.reciprocal()  # (o, d)

    def _rows(self, rows: Tensor) -> Tensor:
        (given,) = self.matrices(rows)
        # among eigenvectors of both factors the inverse is one number per entry
        turned = self._errors.T @ given @ self._inputs
        turned *= self._inverse
        back = self._errors @ turned @ self._inputs.T
        return self.flat([back])

    def exact_trace(self) -> float:
        """The sum of inverses."""
        return float(self._inverse.sum())

    def inner(self, other: Any) -> float:
        """<A, B> of small operators by their matrices."""
        return dense_inner(self, other)

    def exact_spectrum(self) -> Tensor:
        """The inverses, descending."""
        inverses = self._inverse.flatten()
        ordered = inverses.sort(descending=True)
        return ordered.values
