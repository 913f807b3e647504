"""Kraskov's estimator of mutual information from distances to nearest neighbours.

I = psi(k) + psi(n) - < psi(n_x + 1) + psi(n_z + 1) >, where n_x counts samples nearer in x than the k-th neighbour in the larger
of both distances (maximum norm everywhere).

Reference: Kraskov, Stögbauer, Grassberger, "Estimating mutual information", Phys. Rev. E 69, 2004, algorithm 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TREES_UP_TO = (
    6  # dimensions of a pair: below it trees are faster than blocks of distances (`make bench`)
)
BLOCK_VALUES = 2**22  # distances held at once


def kraskov(x: Tensor, z: Tensor, neighbours: int) -> Tensor:
    """Every sample's contribution (samples,) to the information; its mean is the estimate."""
    if len(x) <= neighbours:
        raise ValueError(
            f"expected more than {neighbours} pairs for {neighbours} neighbours, found {len(x)}"
        )
    x, z = x.to(torch.float64), z.to(torch.float64)
    small = x.shape[1] + z.shape[1] <= TREES_UP_TO
    in_x, in_z = counts_by_trees(x, z, neighbours) if small else counts_by_blocks(x, z, neighbours)
    digammas = torch.special.digamma(in_x + 1.0) + torch.special.digamma(in_z + 1.0)
    whole = torch.tensor([float(neighbours), float(len(x))], device=x.device, dtype=torch.float64)
    return torch.special.digamma(whole).sum() - digammas


def counts_by_blocks(x: Tensor, z: Tensor, neighbours: int) -> tuple[Tensor, Tensor]:
    """Samples strictly nearer than the k-th neighbour, in x and in z, from blocks of distances."""
    rows = max(1, BLOCK_VALUES // len(x))
    counts = [_block(x, z, start, rows, neighbours) for start in range(0, len(x), rows)]
    return torch.cat([each[0] for each in counts]), torch.cat([each[1] for each in counts])


def _block(x: Tensor, z: Tensor, start: int, rows: int, neighbours: int) -> tuple[Tensor, Tensor]:
    in_x, in_z = (torch.cdist(each[start : start + rows], each, p=math.inf) for each in (x, z))
    own = torch.arange(len(in_x), device=x.device)
    joint = torch.maximum(in_x, in_z)
    joint[own, own + start] = math.inf
    radius = joint.topk(neighbours, 1, largest=False).values[:, -1:]
    self_counted = (radius[:, 0] > 0).to(torch.int64)  # a sample is at distance 0 from itself
    return (in_x < radius).sum(1) - self_counted, (in_z < radius).sum(1) - self_counted


def counts_by_trees(x: Tensor, z: Tensor, neighbours: int) -> tuple[Tensor, Tensor]:
    """The same counts from k-d trees, on the host."""
    import numpy as np
    from scipy.spatial import cKDTree

    points = [each.cpu().numpy() for each in (x, z)]
    joint = np.concatenate(points, 1)
    radius = cKDTree(joint).query(joint, neighbours + 1, p=np.inf)[0][:, -1]
    inside = np.nextafter(radius, 0)  # strictly nearer
    found = [
        cKDTree(each).query_ball_point(each, inside, p=np.inf, return_length=True)
        for each in points
    ]
    none = radius == 0  # copies of one pair: nothing is strictly nearer
    in_x, in_z = (torch.from_numpy(np.where(none, 0, each - 1)).to(x.device) for each in found)
    return in_x, in_z
