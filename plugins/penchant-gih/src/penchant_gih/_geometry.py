"""The average geometry G = E[g g^T], streamed, with standard errors of anything that depends smoothly on it.

Memory: one matrix a part (two parts by default) and a chunk of gradients. The chunk holds the first networks; an influence
function (how much one network moves a statistic) evaluated on it gives that statistic's standard error without a second pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import torch
from penchant_numerics.moments import SecondMoment, descending_eigh
from torch import Tensor

KEPT_ROWS = 512


class Geometry:
    """G of networks 0, 1, ..., kept in independent parts: network i belongs to part i mod parts."""

    def __init__(
        self, size: int, *, device: torch.device | str, inputs: int = 1, parts: int = 2
    ) -> None:
        self.parts = [SecondMoment(size, device=device) for _ in range(parts)]
        self.inputs, self.count = inputs, 0
        self._kept: list[Tensor] = []

    def add(self, gradients: Tensor) -> None:
        """Add gradients (networks, inputs, D)."""
        for offset in range(min(len(self.parts), len(gradients))):
            rows = gradients[offset :: len(self.parts)].flatten(0, 1)
            self.parts[(self.count + offset) % len(self.parts)].add(rows)
        room = max(2, KEPT_ROWS // self.inputs) - self.count
        if room > 0:
            self._kept.append(gradients[:room].to(self.parts[0].outer.dtype))
        self.count += len(gradients)

    def matrix(self) -> Tensor:
        """G (D, D) from all networks."""
        total = self.parts[0].outer.clone()
        for part in self.parts[1:]:
            total += part.outer
        total /= self.count * self.inputs
        return (total + total.T) / 2

    def squared_norms(self) -> Tensor:
        """|g|^2 of every gradient, part by part."""
        return torch.cat([part.norms() for part in self.parts])

    def trace(self) -> tuple[float, float]:
        """Trace and its standard error over networks."""
        norms = self.squared_norms().reshape(-1, self.inputs).mean(1)
        return float(norms.mean()), float(norms.std() / math.sqrt(self.count))

    def squared_norm(self) -> float:
        """|G|^2 without the bias of sampling: the inner product of independent parts. The matrix's own norm is too large."""
        products = [
            float((a.outer * b.outer).sum()) / (a.count * b.count)
            for a, b in combinations(self.parts, 2)
        ]
        return sum(products) / len(products)

    def kept(self) -> Tensor:
        """Gradients (networks, inputs, D) of the first networks."""
        return torch.cat(self._kept)

    def stderr(self, influence: Callable[[Tensor], Tensor]) -> Tensor:
        """Standard error of a statistic: `influence` takes gradients (rows, D) to (rows, ...); networks are independent, rows are not."""
        kept = self.kept()
        values = influence(kept.flatten(0, 1))
        return values.reshape(len(kept), self.inputs, *values.shape[1:]).mean(1).std(0) / math.sqrt(
            self.count
        )

    def entry_stderr(self) -> Tensor:
        """Standard error (D, D) of every entry of G."""
        kept = self.kept()
        count = len(kept)
        if self.inputs == 1:
            rows = kept[:, 0]
            mean, square = rows.T @ rows / count, rows.square().T @ rows.square() / count
        else:
            mean = torch.zeros_like(self.parts[0].outer)
            square = torch.zeros_like(mean)
            for rows in kept:
                own = rows.T @ rows / self.inputs
                mean += own / count
                square += own.square() / count
        variance = (square - mean.square()).clamp(min=0) * count / (count - 1)
        return (variance / self.count).sqrt()


def eigenvalue_influence(vectors: Tensor) -> Callable[[Tensor], Tensor]:
    """How a gradient moves the eigenvalues that belong to these eigenvectors (rows)."""
    return lambda rows: (rows @ vectors.T).square()


def effective_rank_influence(
    eigenvalues: Tensor, vectors: Tensor, rank: float
) -> Callable[[Tensor], Tensor]:
    """How a gradient moves exp(entropy) of the normalised eigenvalues: d log rank / d lambda_k = -(log p_k + entropy) / trace."""
    positive = eigenvalues > 0
    values, rows_of = eigenvalues[positive], vectors[positive]
    slope = -rank * ((values / values.sum()).log() + math.log(rank)) / values.sum()
    return lambda rows: (rows @ rows_of.T).square() @ slope


def flipped(matrix: Tensor) -> Tensor:
    """The matrix with its eigenvalues in reverse order on the same eigenvectors."""
    values, vectors = descending_eigh(matrix)
    return (vectors.T * values.flip(0)) @ vectors


def scores(matrix: Tensor, inputs: Tensor) -> Tensor:
    """Score(x) = (x/|x|)^T G (x/|x|) of flattened inputs (samples, D), in their order; an input of zeros scores 0."""
    unit = unit_rows(inputs.to(matrix.dtype))
    return (unit @ matrix * unit).sum(1)


def unit_rows(rows: Tensor) -> Tensor:
    """Rows divided by their lengths; rows of zeros stay."""
    return rows / rows.norm(dim=1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
