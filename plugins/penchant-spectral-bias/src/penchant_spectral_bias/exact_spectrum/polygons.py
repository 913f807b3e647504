"""Exact Fourier analysis of a ReLU network of two variables in a box, from its linear regions.

The box is split neuron by neuron into convex polygons on which the network is affine,
f = W_e x + b_e. By Stokes' theorem

    1~_P(k) = int_P e^{-ikx} dx = (i / k^2) sum_edges (k . n) L e^{-ikm} sinc(k . d / 2),

with outward normals n, lengths L, midpoints m and edge vectors d, and in the same way the transform
of W x + b on P. The bends contribute -i sum_e (W_e . k / k^2) 1~_{P_e}(k): lemma
3.1 of Rahaman et al. with the right sign. Along a generic direction it falls like k^-3, along the
normal of a face like k^-2 (theorem 3.3).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from penchant_numerics.device import HOST
from torch import Tensor

from penchant_spectral_bias.shared.piecewise_linear import Chain, spherical_bessel

# Splitting polygons is a host step: a few numbers at a time, each depending on the last.

_ROUNDING = 1e-12
_SAME_LINE = 1e-9  # edges closer than this lie on one line


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
        areas = [_area(corners) for corners in self.corners]
        return torch.stack(areas)

    def lipschitz(self) -> float:
        """The exact Lipschitz constant in the box: the largest gradient."""
        sizes = self.slopes.norm(dim=1)
        return float(sizes.max())


class _Region(NamedTuple):
    """A polygon, and the affine map of the last layer on it."""

    corners: Tensor
    matrix: Tensor
    offset: Tensor


def linear_regions(chain: Chain, box: Sequence[float] = (-1.0, 1.0), *, output: int = 0) -> Regions:
    """The linear regions of one output of a chain on two inputs, in the square box^2."""
    low, high = box
    square = torch.tensor([[low, low], [high, low], [high, high], [low, high]], **HOST)
    # before any layer the whole box is one region, on which the map is the identity
    whole = _Region(square, torch.eye(2, **HOST), torch.zeros(2, **HOST))
    regions = [whole]
    layers = [_on_host(weight, bias) for weight, bias in chain]
    for weight, bias in layers[:-1]:
        split = []
        for region in regions:
            split += _split(region, weight, bias)
        regions = split

    # the last layer bends nothing
    weight, bias = layers[-1]
    corners, slopes, offsets = [], [], []
    for region in regions:
        corners.append(region.corners)
        slopes.append(weight[output] @ region.matrix)
        offsets.append(weight[output] @ region.offset + bias[output])
    return Regions(corners, torch.stack(slopes), torch.stack(offsets))


def _on_host(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    weight = weight.detach().to(**HOST)
    bias = bias.detach().to(**HOST)
    return weight, bias


def _split(region: _Region, weight: Tensor, bias: Tensor) -> list[_Region]:
    """Pieces of a region between the zeros of a layer's units, with the map behind its ReLUs."""
    matrix = weight @ region.matrix
    offset = weight @ region.offset + bias
    # units that change their sign in the region, which is where its corners differ
    at_corners = region.corners @ matrix.T + offset  # (corners, units)
    scale = at_corners.abs().amax(0).clamp(min=1e-300)
    above = at_corners.amax(0) > _ROUNDING * scale
    below = at_corners.amin(0) < -_ROUNDING * scale
    crossing = torch.nonzero(above & below).flatten()
    pieces = [region.corners]
    for unit in crossing.tolist():
        cut = []
        for piece in pieces:
            cut += _cut(piece, matrix[unit], offset[unit])
        pieces = cut
    return [_active(piece, matrix, offset) for piece in pieces]


def _active(corners: Tensor, matrix: Tensor, offset: Tensor) -> _Region:
    """The map of the units that are positive on a polygon; the others give zero."""
    # no unit changes its sign here, so the middle speaks for the whole polygon
    in_the_middle = matrix @ corners.mean(0) + offset
    on = (in_the_middle > 0).to(matrix.dtype)
    return _Region(corners=corners, matrix=on[:, None] * matrix, offset=on * offset)


def _cut(corners: Tensor, normal: Tensor, offset: Tensor) -> list[Tensor]:
    """The two sides of a convex polygon, or the polygon where the line misses it by rounding."""
    values = (corners @ normal + offset).tolist()
    points = corners.tolist()
    tiny = _ROUNDING * max(abs(value) for value in values)
    above: list[list[float]] = []
    below: list[list[float]] = []
    # around the polygon, each corner with the one that follows
    next_values = values[1:] + values[:1]
    next_points = points[1:] + points[:1]
    for value, point, after, next_point in zip(values, points, next_values, next_points):
        if value >= -tiny:
            above.append(point)
        if value <= tiny:
            below.append(point)
        if min(value, after) < -tiny and max(value, after) > tiny:
            # the line crosses this edge: the crossing is a corner of both sides
            share = value / (value - after)
            crossing = _between(point, next_point, share)
            above.append(crossing)
            below.append(crossing)

    # a side that is only a corner or an edge is none
    whole = []
    for side in (above, below):
        polygon = torch.tensor(side, **HOST)
        if len(side) > 2 and float(_area(polygon)) > 0:
            whole.append(polygon)
    return whole or [corners]


def _between(first: list[float], second: list[float], share: float) -> list[float]:
    (x, y), (other_x, other_y) = first, second
    return [x + share * (other_x - x), y + share * (other_y - y)]


def _area(corners: Tensor) -> Tensor:
    """The area of a polygon with counter-clockwise corners."""
    x, y = corners.T
    next_x, next_y = corners.roll(-1, 0).T
    crosses = x * next_y - y * next_x
    area: Tensor = crosses.sum() / 2
    return area


@dataclass(frozen=True)
class _Edges:
    """Every edge of every polygon, so that an inner one is there twice."""

    region: Tensor  # (edges,)
    middle: Tensor  # (edges, 2)
    vector: Tensor  # (edges, 2)

    def normals(self) -> Tensor:
        """Outward normals times the edge's length: corners run counter-clockwise."""
        x, y = self.vector.T
        return torch.stack([y, -x], dim=1)


def _edges(regions: Regions) -> _Edges:
    numbers, following = [], []
    for index, corners in enumerate(regions.corners):
        numbers.append(torch.full((len(corners),), index, device="cpu"))
        following.append(corners.roll(-1, 0))
    first = torch.cat(regions.corners)
    second = torch.cat(following)
    return _Edges(region=torch.cat(numbers), middle=(first + second) / 2, vector=second - first)


def _phases(edges: _Edges, k: Tensor) -> Tensor:
    """e^{-ikm} in the middle m of every edge, (frequencies, edges)."""
    angles = k @ edges.middle.T
    return torch.exp(-1j * angles)


def indicator_transforms(regions: Regions, k: Tensor) -> Tensor:
    """1~_P(k) of every polygon, complex, (frequencies, regions).

    Args:
        regions: The polygons.
        k: Angular frequencies (frequencies, 2), none of them 0.
    """
    edges = _edges(regions)
    # of every edge, (frequencies, edges): its phase, its sinc and k . n
    phases = _phases(edges, k)
    along = k @ edges.vector.T
    waves = phases * torch.sinc(along / (2 * math.pi))
    outward = k @ edges.normals().T
    square = k.square().sum(1, keepdim=True)
    terms = 1j * outward * waves / square
    return _by_region(terms, edges, len(regions))


def lemma_sum(regions: Regions, k: Tensor) -> Tensor:
    """-i sum_e (W_e . k / k^2) 1~_{P_e}(k), (frequencies,).

    This is the transform where f is zero on the boundary of the box.
    """
    square = k.square().sum(1, keepdim=True)
    weights = k @ regions.slopes.T / square  # (frequencies, regions)
    indicators = indicator_transforms(regions, k)
    total = (weights * indicators).sum(1)
    return -1j * total


def transform(regions: Regions, k: Tensor) -> Tensor:
    """The exact int_box f(x) e^{-ikx} dx, (frequencies,): the lemma's sum and the boundary's."""
    edges = _edges(regions)
    # the function on every edge: its value in the middle and half its rise
    slopes = regions.slopes[edges.region]
    offsets = regions.offsets[edges.region]
    mean = (slopes * edges.middle).sum(1) + offsets
    rise = (slopes * edges.vector).sum(1) / 2

    # its transform along the edge, as on a piece of a line
    x = k @ edges.vector.T / 2
    waves = mean * torch.sinc(x / math.pi) - 1j * rise * spherical_bessel(x)

    # turned by the phase of the middle, and counted outwards
    phases = _phases(edges, k)
    outward = k @ edges.normals().T
    flows = 1j * outward * phases * waves
    boundary = flows.sum(1) / k.square().sum(1)
    return boundary + lemma_sum(regions, k)


def _by_region(terms: Tensor, edges: _Edges, count: int) -> Tensor:
    """Terms (frequencies, edges) added up over the edges of each region."""
    shape = (len(terms), count)
    total = torch.zeros(shape, device=terms.device, dtype=terms.dtype)
    return total.index_add(1, edges.region, terms)


class Faces(NamedTuple):
    """Inner edges, strongest bend first."""

    normals: Tensor  # (faces, 2), of length 1
    strengths: Tensor  # (faces,)


def faces(regions: Regions) -> Faces:
    """Unit normals of the inner edges and how strongly the network bends there.

    Along the normal n of a line of edges, the transform is strength / k^2 in the end, with
    strength = |sum (W_e . n) (n . n_e) L_e| over the edges on that line: their length times the
    jump of the gradient across them. A long edge with hardly any bend has hardly any of it.
    """
    edges = _edges(regions)
    corners = torch.cat(regions.corners)
    # edges of the box itself are no faces
    low = corners.amin(0) + _SAME_LINE
    high = corners.amax(0) - _SAME_LINE
    inside = (edges.middle > low) & (edges.middle < high)
    inner = inside.all(1)
    middle = edges.middle[inner]
    outward = edges.normals()[inner]
    slopes = regions.slopes[edges.region[inner]]
    normals = outward / outward.norm(dim=1, keepdim=True)

    # [i, j]: does edge j lie on the line of edge i?
    parallel = (normals @ normals.T).abs() > 1 - _SAME_LINE
    own = (normals * middle).sum(1, keepdim=True)
    offsets = normals @ middle.T - own
    on_line = parallel & (offsets.abs() < _SAME_LINE)

    # what each edge adds along the normal; outward normals of both sides are opposite
    across = normals @ slopes.T
    signed_length = normals @ outward.T
    terms = across * signed_length * on_line
    strengths = terms.sum(1).abs()
    order = torch.argsort(strengths, descending=True, stable=True)
    return Faces(normals[order], strengths[order])
