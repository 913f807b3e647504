"""The average geometry G = E[g g^T], streamed, in independent groups of the networks.

Memory: one matrix per group and a chunk of gradients, never the gradients of all networks. With
groups, norms are unbiased (products of different groups have no noise in common) and have standard
errors (the jackknife leaves out one group at a time).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from penchant_numerics.inputs import SecondMoment
from penchant_numerics.linear_algebra import descending_eigh
from penchant_numerics.roles import Directions, spectra_without_each
from torch import Tensor

HALVES = 2  # what G itself is summed from
GROUPS = 6  # enough to leave one out and still have four different ones, as G S G needs
LARGEST_JACKKNIFE = 2048  # inputs up to which spectra with one group left out are taken


class Groups:
    """Second moments of independent groups: network i belongs to group i mod count."""

    def __init__(self, size: int, count: int, *, device: torch.device | str) -> None:
        self.moments = [SecondMoment(size, device=device) for _ in range(count)]
        self.networks = 0

    def add(self, gradients: Tensor) -> None:
        """Add gradients (networks, inputs, D), in the order of networks."""
        # Network i goes to group i mod count, however networks are cut into shards.
        count = len(self.moments)
        for offset in range(min(count, len(gradients))):
            rows = gradients[offset::count].flatten(0, 1)
            number = (self.networks + offset) % count
            self.moments[number].add(rows)
        self.networks += len(gradients)

    def matrix(self) -> Tensor:
        """The moment (D, D) of all groups together."""
        # Groups are summed in their order: another order would round otherwise.
        total = self.moments[0].outer.clone()
        vectors = self.moments[0].count
        for moment in self.moments[1:]:
            total += moment.outer
            vectors += moment.count
        total /= vectors
        return (total + total.T) / 2

    def squared_norms(self) -> Tensor:
        """|g|^2 of every gradient, group by group."""
        norms = [moment.norms() for moment in self.moments]
        return torch.cat(norms)

    def matrices(self) -> Tensor | None:
        """The moments (groups, D, D); None where a group has no network."""
        if self.networks < len(self.moments):
            return None
        matrices = [moment.matrix() for moment in self.moments]
        return torch.stack(matrices)


class Geometry:
    """G of networks 0, 1, ..., each at `inputs` probing inputs."""

    def __init__(self, size: int, *, device: torch.device | str, inputs: int = 1) -> None:
        self.inputs = inputs
        self.halves = Groups(size, HALVES, device=device)
        self.groups = Groups(size, GROUPS, device=device)

    def add(self, gradients: Tensor) -> None:
        """Add gradients (networks, inputs, D)."""
        self.halves.add(gradients)
        self.groups.add(gradients)

    @property
    def networks(self) -> int:
        """How many networks were added."""
        return self.halves.networks

    def trace(self) -> tuple[float, float]:
        """The trace and its standard error over networks."""
        # Inputs of one network are not independent, networks are.
        squared = self.halves.squared_norms()
        norms = squared.reshape(-1, self.inputs).mean(1)
        stderr = norms.std() / math.sqrt(self.networks)
        return float(norms.mean()), float(stderr)

    def directions(self, conventions: Mapping[str, str] | None = None) -> Directions:
        """The answer of an estimator: as many directions as there are gradients mean anything."""
        # Beyond the number of gradients, eigenvectors are arbitrary.
        matrix = self.halves.matrix()
        eigenvalues, vectors = descending_eigh(matrix)
        rank = min(self.networks * self.inputs, len(matrix))
        trace, stderr = self.trace()
        groups = self.groups.matrices()
        one_vector = self.inputs == 1
        return Directions(
            eigenvalues[:rank],
            vectors[:rank],
            trace=trace,
            trace_stderr=stderr,
            networks=self.networks,
            matrix=matrix,
            squared_norms=self.halves.squared_norms() if one_vector else None,
            jackknife=None if groups is None else left_out_spectra(groups, rank),
            groups=groups,
            conventions=dict(conventions or {}),
        )


def left_out_spectra(groups: Tensor, rank: int) -> Tensor | None:
    """Eigenvalues (groups, rank), descending, of G without one group; None for large inputs."""
    if groups.shape[1] > LARGEST_JACKKNIFE:
        return None
    return spectra_without_each(groups, rank)


def flipped(matrix: Tensor) -> Tensor:
    """The matrix with its eigenvalues in reverse order on the same eigenvectors."""
    values, vectors = descending_eigh(matrix)
    scaled = vectors.T * values.flip(0)
    return scaled @ vectors


def scores(matrix: Tensor, inputs: Tensor) -> Tensor:
    """Score(x) = (x/|x|)^T G (x/|x|) of flattened inputs (samples, D), in their order.

    An input of zeros scores 0.
    """
    # Quadratic forms of all samples in one product.
    unit = unit_rows(inputs.to(matrix.dtype))
    products = unit @ matrix * unit
    return products.sum(1)


def unit_rows(rows: Tensor) -> Tensor:
    """Rows divided by their lengths; rows of zeros stay."""
    lengths = rows.norm(dim=1, keepdim=True)
    unit: Tensor = rows / lengths.clamp(min=torch.finfo(rows.dtype).tiny)
    return unit


def uncentred(inputs: Tensor) -> Tensor:
    """S = sum_mu x_mu x_mu^T (D, D) of inputs, in double precision: one matrix product."""
    rows = inputs.flatten(1).to(torch.float64)
    return rows.T @ rows
