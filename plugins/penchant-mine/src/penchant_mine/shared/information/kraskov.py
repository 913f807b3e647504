"""Kraskov's estimator of mutual information from distances to nearest neighbours.

I = psi(k) + psi(n) - < psi(n_x + 1) + psi(n_z + 1) >, where n_x counts samples nearer in x than the
k-th neighbour in the larger of both distances (maximum norm everywhere).

Reference: Kraskov, Stögbauer, Grassberger, "Estimating mutual information", Phys. Rev. E 69, 2004,
algorithm 1.
"""

import math

import numpy as np
import torch
from penchant_numerics import Refusal
from penchant_numerics.device import memory
from scipy.spatial import cKDTree
from torch import Tensor

TREES_UP_TO = 6  # dimensions of a pair: below it trees are faster than blocks (`make bench`)
BLOCK_SHARE = 1 / 32  # of the budget, for one block of distances: 2**22 of them on a CPU


def kraskov(x: Tensor, z: Tensor, neighbours: int) -> Tensor:
    """Every sample's contribution (samples,) to the information; its mean is the estimate."""
    if len(x) <= neighbours:
        raise Refusal(
            f"expected more than {neighbours} pairs for {neighbours} neighbours, found {len(x)}"
        )
    x, z = x.to(torch.float64), z.to(torch.float64)
    # Trees lose to plain distances in many dimensions.
    small = x.shape[1] + z.shape[1] <= TREES_UP_TO
    count = counts_by_trees if small else counts_by_blocks
    in_x, in_z = count(x, z, neighbours)
    # The fewer neighbours alone within the joint distance, the more information.
    digammas = torch.special.digamma(in_x + 1.0) + torch.special.digamma(in_z + 1.0)
    whole = torch.tensor([float(neighbours), float(len(x))], device=x.device, dtype=torch.float64)
    contributions: Tensor = torch.special.digamma(whole).sum() - digammas
    return contributions


def counts_by_blocks(x: Tensor, z: Tensor, neighbours: int) -> tuple[Tensor, Tensor]:
    """Samples strictly nearer than the k-th neighbour, in x and in z, from blocks of distances."""
    rows = memory.fitting(8 * len(x), x.device, share=BLOCK_SHARE)
    in_x, in_z = [], []
    for start in range(0, len(x), rows):
        near_x, near_z = _block(x, z, start, rows, neighbours)
        in_x.append(near_x)
        in_z.append(near_z)
    return torch.cat(in_x), torch.cat(in_z)


def _block(x: Tensor, z: Tensor, start: int, rows: int, neighbours: int) -> tuple[Tensor, Tensor]:
    block = slice(start, start + rows)
    in_x = torch.cdist(x[block], x, p=math.inf)
    in_z = torch.cdist(z[block], z, p=math.inf)
    own = torch.arange(len(in_x), device=x.device)
    joint = torch.maximum(in_x, in_z)
    joint[own, own + start] = math.inf
    # The k-th nearest other sample sets the scale.
    radius = joint.topk(neighbours, 1, largest=False).values[:, -1:]
    # A sample is at distance 0 from itself.
    itself = (radius[:, 0] > 0).to(torch.int64)
    near_x = (in_x < radius).sum(1)
    near_z = (in_z < radius).sum(1)
    return near_x - itself, near_z - itself


def counts_by_trees(x: Tensor, z: Tensor, neighbours: int) -> tuple[Tensor, Tensor]:
    """The same counts from k-d trees, on the host."""
    points_x, points_z = x.cpu().numpy(), z.cpu().numpy()
    # The maximum norm of the pair is the larger of both distances.
    joint = np.concatenate([points_x, points_z], 1)
    distances, _ = cKDTree(joint).query(joint, neighbours + 1, p=np.inf)
    radius = distances[:, -1]
    counts = []
    for points in (points_x, points_z):
        inside = np.nextafter(radius, 0)  # strictly nearer
        tree = cKDTree(points)
        inside_ball = tree.query_ball_point(points, inside, p=np.inf, return_length=True)
        # Of copies of one pair nothing is strictly nearer.
        near = np.where(radius == 0, 0, inside_ball - 1)
        counts.append(torch.from_numpy(near).to(x.device))
    return counts[0], counts[1]
