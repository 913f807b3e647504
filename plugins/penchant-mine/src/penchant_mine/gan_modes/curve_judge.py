"""Which piece of a curve a point belongs to, for data along a curve whose label is the position.

One normal per piece of a curved arm is as wide as the bend: much of the plane would lie near one.
So points are judged by their distance to the curve itself, which is the mean of the data by label.
"""

from __future__ import annotations

import torch
from torch import Tensor

from penchant_mine.shared.generative.modes import Judge

KNOTS = 500  # of the curve, at most
LEAST = 5  # samples of a knot, at least
FARTHEST = 3.0  # standard deviations of the data around the curve
ENOUGH = 5000  # samples to measure how wide the data are around the curve
CHUNK = 2000  # points at once


def curve_judge(inputs: Tensor, along: Tensor, pieces: int) -> Judge:
    """A point belongs to the nearest piece if it is as near to the curve as nearly all data.

    Args:
        inputs: Points (samples, size) along a curve.
        along: Where on it each is (samples,).
        pieces: How many pieces of equal numbers of samples it is cut into.

    Returns:
        Piece of every point, -1 for those that are away from the curve.
    """
    points = inputs.flatten(1).to(torch.float64)
    order = along.argsort()
    knots = min(KNOTS, len(points) // LEAST)
    if knots < pieces:
        raise ValueError(
            f"expected at least {LEAST * pieces} samples along the curve, found {len(points)}"
        )
    # Knots are means of neighbours along the curve, of equal numbers.
    groups = torch.tensor_split(points[order], knots)
    curve = torch.stack([group.mean(0) for group in groups])  # (knots, size)
    # The width of the data is known well enough from some of them.
    some = points[:: max(1, len(points) // ENOUGH)]
    squared = torch.cat([_nearest(curve, chunk)[0] for chunk in some.split(CHUNK)])
    # A curve takes one of the dimensions, and noise fills the others.
    width = (squared.mean() / max(1, points.shape[1] - 1)).sqrt()
    reach = (FARTHEST * width).square()
    of_knot = torch.arange(knots, device=points.device) * pieces // knots

    def judge(samples: Tensor) -> Tensor:
        pieces_of = []
        for chunk in samples.flatten(1).to(torch.float64).split(CHUNK):
            distance, knot = _nearest(curve, chunk)
            pieces_of.append(torch.where(distance <= reach, of_knot[knot], -1))
        return torch.cat(pieces_of)

    return judge


def _nearest(curve: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distance of points to a curve of straight pieces, and the number of a knot there."""
    start, step = curve[:-1], curve.diff(dim=0)
    away = points[:, None] - start  # (points, pieces, size)
    length = step.square().sum(1)
    share = ((away * step).sum(2) / length).clamp(0, 1)
    rest = away - share[:, :, None] * step
    distance, piece = rest.square().sum(2).min(1)
    # The nearer end of the straight piece.
    beyond = share.gather(1, piece[:, None])[:, 0] > 0.5
    return distance, piece + beyond.long()
