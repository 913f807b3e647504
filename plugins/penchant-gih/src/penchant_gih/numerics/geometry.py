"""The average geometry G = E[g g^T], streamed, in independent parts of the networks.

Memory: one matrix per part and a chunk of gradients, never the gradients of all networks. The parts
make unbiased norms and standard errors possible: products of different parts have no noise in
common, and leaving out one part at a time tells how sure a statistic is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from penchant_numerics.estimates import Directions, spectra_without_each
from penchant_numerics.moments import SecondMoment, descending_eigh
from torch import Tensor

HALVES = 2  # what G itself is summed from
PARTS = 6  # enough to leave one out and still have four different ones, as G S G needs
LARGEST_JACKKNIFE = 2048  # inputs up to which spectra with one part left out are taken


class Parts:
    """Second moments of independent parts: network i belongs to part i mod count."""

    def __init__(
        self,
        size: int,
        count: int,
        *,
        device: torch.device | str,
    ) -> None:
        self.moments = [SecondMoment(size, device=device) for _ in range(count)]
        self.networks = 0

    def add(self, gradients: Tensor) -> None:
        """Add gradients (networks, inputs, D), in the order of networks."""
        # Network i goes to part i mod count, however networks are cut into shards.
        count = len(self.moments)
        for offset in range(min(count, len(gradients))):
            rows = gradients[offset::count].flatten(0, 1)
            part = (self.networks + offset) % count
            self.moments[part].add(rows)
        self.networks += len(gradients)

    def matrix(self) -> Tensor:
        """The moment (D, D) of all parts together."""
        # Parts are summed in their order: another order would round otherwise.
        total = self.moments[0].outer.clone()
        vectors = self.moments[0].count
        for moment in self.moments[1:]:
            total += moment.outer
            vectors += moment.count
        total /= vectors
        return (total + total.T) / 2

    def squared_norms(self) -> Tensor:
        """|g|^2 of every gradient, part by part."""
        norms = [moment.norms() for moment in self.moments]
        return torch.cat(norms)

    def matrices(self) -> Tensor | None:
        """The moments (parts, D, D); None where a part has no network."""
        if self.networks < len(self.moments):
            return None
        matrices = [moment.matrix() for moment in self.moments]
        return torch.stack(matrices)


class Geometry:
    """G of networks 0, 1, ..., each at `inputs` probing inputs."""

    def __init__(
        self,
        size: int,
        *,
        device: torch.device | str,
        inputs: int = 1,
    ) -> None:
        self.inputs = inputs
        self.halves = Parts(size, HALVES, device=device)
        self.parts = Parts(size, PARTS, device=device)

    def add(self, gradients: Tensor) -> None:
        """Add gradients (networks, inputs, D)."""
        self.halves.add(gradients)
        self.parts.add(gradients)

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
        parts = self.parts.matrices()
        one_vector = self.inputs == 1
        return Directions(
            eigenvalues[:rank],
            vectors[:rank],
            trace=trace,
            trace_stderr=stderr,
            networks=self.networks,
            matrix=matrix,
            squared_norms=self.halves.squared_norms() if one_vector else None,
            jackknife=None if parts is None else left_out_spectra(parts, rank),
            parts=parts,
            conventions=dict(conventions or {}),
        )


def left_out_spectra(parts: Tensor, rank: int) -> Tensor | None:
    """Eigenvalues (parts, rank), descending, of G with one part left out; None for large inputs."""
    if parts.shape[1] > LARGEST_JACKKNIFE:
        return None
    return spectra_without_each(parts, rank)


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
    lengths = rows.norm(
        dim=1,
        keepdim=True,
    )
    unit: Tensor = rows / lengths.clamp(min=torch.finfo(rows.dtype).tiny)
    return unit


def uncentred(inputs: Tensor) -> Tensor:
    """S = sum_mu x_mu x_mu^T (D, D) of inputs, in double precision: one matrix product."""
    rows = inputs.flatten(1).to(torch.float64)
    return rows.T @ rows
