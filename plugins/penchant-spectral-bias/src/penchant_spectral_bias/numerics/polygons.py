"""Exact Fourier analysis of a ReLU network of two variables in a box, from its linear regions.

The box is split neuron by neuron into convex polygons on which the network is affine, f = W_e x + b_e. By Stokes' theorem

    1~_P(k) = int_P e^{-ikx} dx = (i / k^2) sum_edges (k . n) L e^{-ikm} sinc(k . d / 2),

with outward normals n, lengths L, midpoints m and edge vectors d, and in the same way the transform of W x + b on P. The part
of it that the bends make is -i sum_e (W_e . k / k^2) 1~_{P_e}(k): lemma 3.1 of Rahaman et al. with the right sign. Along a
generic direction it falls like k^-3, along the normal of a face like k^-2 (theorem 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from penchant_spectral_bias.numerics.piecewise_linear import Chain, spherical_bessel

_HOST = {
    "device": "cpu",
    "dtype": torch.float64,
}  # splitting polygons is a host step: a few numbers at a time, each depending on the last


@dataclass(frozen=True)
class Regions:
    """Polygons with counter-clockwise corners and the affine function on each: values W x + b."""

    corners: list[Tensor]  # (corners, 2) each
    slopes: Tensor  # (regions, 2)
    offsets: Tensor  # (regions,)

    def __len__(self) -> int:
        return len(self.corners)

    def areas(self) -> Tensor:
        """Area of every polygon, by the shoelace formula."""
        return torch.stack([_cross(each, each.roll(-1, 0)).sum() / 2 for each in self.corners])

    def lipschitz(self) -> float:
        """The exact Lipschitz constant in the box: the largest gradient."""
        return float(self.slopes.norm(dim=1).max())


def linear_regions(chain: Chain, box: Sequence[float] = (-1.0, 1.0), *, output: int = 0) -> Regions:
    """The linear regions of one output of a chain of linear layers and ReLUs on two inputs, in the square box^2."""
    low, high = box
    square = torch.tensor([[low, low], [high, low], [high, high], [low, high]], **_HOST)
    regions = [(square, torch.eye(2, **_HOST), torch.zeros(2, **_HOST))]
    layers = [(weight.detach().to(**_HOST), bias.detach().to(**_HOST)) for weight, bias in chain]
    for weight, bias in layers[:-1]:
        regions = [part for region in regions for part in _split(region, weight, bias)]
    weight, bias = layers[-1]
    slopes = torch.stack([weight[output] @ matrix for _, matrix, _ in regions])
    offsets = torch.stack([weight[output] @ offset + bias[output] for _, _, offset in regions])
    return Regions([corners for corners, _, _ in regions], slopes, offsets)


def _split(
    region: tuple[Tensor, Tensor, Tensor], weight: Tensor, bias: Tensor
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The parts of one region between the zeros of a layer's units, with the affine map behind its ReLUs."""
    corners, matrix, offset = region
    matrix, offset = weight @ matrix, weight @ offset + bias
    parts = [corners]
    at_corners = corners @ matrix.T + offset  # (corners, units)
    scale = at_corners.abs().amax(0).clamp(min=1e-300)
    crossing = (at_corners.amax(0) > 1e-12 * scale) & (at_corners.amin(0) < -1e-12 * scale)
    for unit in torch.nonzero(crossing).flatten().tolist():
        parts = [piece for part in parts for piece in _cut(part, matrix[unit], offset[unit])]
    return [_active(part, matrix, offset) for part in parts]


def _active(corners: Tensor, matrix: Tensor, offset: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    on = (matrix @ corners.mean(0) + offset > 0).to(matrix.dtype)
    return corners, on[:, None] * matrix, on * offset


def _cut(corners: Tensor, normal: Tensor, offset: Tensor) -> list[Tensor]:
    """The two sides of a convex polygon, or the polygon where the line misses it by rounding."""
    values = (corners @ normal + offset).tolist()
    tiny = 1e-12 * max(abs(value) for value in values)
    points = corners.tolist()
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    for number, (value, point) in enumerate(zip(values, points)):
        following, other = values[(number + 1) % len(values)], points[(number + 1) % len(points)]
        for side, sign in zip(sides, (1, -1)):
            if sign * value >= -tiny:
                side.append(point)
        if (value > tiny and following < -tiny) or (value < -tiny and following > tiny):
            share = value / (value - following)
            middle = [a + share * (b - a) for a, b in zip(point, other)]
            sides[0].append(middle)
            sides[1].append(middle)
    found = [torch.tensor(side, **_HOST) for side in sides if len(side) > 2]
    found = [side for side in found if float(_cross(side, side.roll(-1, 0)).sum()) > 0]
    return found if found else [corners]


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


@dataclass(frozen=True)
class _Edges:
    region: Tensor  # (edges,)
    middle: Tensor  # (edges, 2)
    vector: Tensor  # (edges, 2)

    def normals(self) -> Tensor:
        """Outward normals times the edge's length: corners run counter-clockwise."""
        return torch.stack([self.vector[:, 1], -self.vector[:, 0]], dim=1)


def _edges(regions: Regions) -> _Edges:
    numbers = [
        torch.full((len(each),), index, device="cpu") for index, each in enumerate(regions.corners)
    ]
    first, second = (
        torch.cat(regions.corners),
        torch.cat([each.roll(-1, 0) for each in regions.corners]),
    )
    return _Edges(torch.cat(numbers), (first + second) / 2, second - first)


def indicator_transforms(regions: Regions, k: Tensor) -> Tensor:
    """1~_P(k) of every polygon, (frequencies, regions), complex, at angular frequencies k (frequencies, 2), none of them 0."""
    edges = _edges(regions)
    waves = torch.exp(-1j * (k @ edges.middle.T)) * torch.sinc(k @ edges.vector.T / (2 * math.pi))
    parts = 1j * (k @ edges.normals().T) * waves / k.square().sum(1, keepdim=True)
    return _by_region(parts, edges, len(regions))


def lemma_sum(regions: Regions, k: Tensor) -> Tensor:
    """-i sum_e (W_e . k / k^2) 1~_{P_e}(k), (frequencies,): the transform where f is zero on the boundary of the box."""
    weights = k @ regions.slopes.T / k.square().sum(1, keepdim=True)
    return -1j * (weights * indicator_transforms(regions, k)).sum(1)


def transform(regions: Regions, k: Tensor) -> Tensor:
    """The exact int_box f(x) e^{-ikx} dx, (frequencies,): the lemma's sum, and what the boundary of the box adds."""
    edges = _edges(regions)
    slopes = regions.slopes[edges.region]
    mean = (slopes * edges.middle).sum(1) + regions.offsets[edges.region]
    rise = (slopes * edges.vector).sum(1) / 2
    x = k @ edges.vector.T / 2
    along = torch.exp(-1j * (k @ edges.middle.T)) * (
        mean * torch.sinc(x / math.pi) - 1j * rise * spherical_bessel(x)
    )
    boundary = (1j * (k @ edges.normals().T) * along).sum(1) / k.square().sum(1)
    return boundary + lemma_sum(regions, k)


def _by_region(parts: Tensor, edges: _Edges, count: int) -> Tensor:
    total = torch.zeros(len(parts), count, device=parts.device, dtype=parts.dtype)
    return total.index_add(1, edges.region, parts)


def face_normals(regions: Regions) -> Tensor:
    """Unit normals of the longest inner edges, longest first, (edges, 2)."""
    edges = _edges(regions)
    lengths = edges.vector.norm(dim=1)
    corners = torch.cat(regions.corners)
    low, high = corners.amin(0), corners.amax(0)
    inner = ((edges.middle > low + 1e-9) & (edges.middle < high - 1e-9)).all(1)
    order = torch.argsort(lengths[inner], descending=True)
    return (edges.normals()[inner] / lengths[inner, None])[order]
