"""Nearest neighbours as a classifier whose smoothness can be compared with a network's."""

from __future__ import annotations

import torch
from torch import Tensor


def neighbour_probability(
    points: Tensor, labels: Tensor, queries: Tensor, neighbours: int
) -> Tensor:
    """Share of class 1 among the nearest points of every query, (queries,); a query that is a point counts itself.

    The tree of scikit-learn is a host step: in the plane it is some ten times faster than all distances (`make bench`).
    """
    from sklearn.neighbors import NearestNeighbors

    if neighbours > len(points):
        raise ValueError(f"neighbours must be at most the {len(points)} points, found {neighbours}")
    tree = NearestNeighbors(n_neighbors=neighbours, algorithm="kd_tree").fit(
        points.double().cpu().numpy()
    )
    nearest = tree.kneighbors(
        queries.double().cpu().numpy(), return_distance=False
    )  # (queries, neighbours)
    return labels[torch.as_tensor(nearest, device=labels.device)].double().mean(1)


def neighbour_accuracy(
    points: Tensor, labels: Tensor, queries: Tensor, truth: Tensor, neighbours: int
) -> float:
    """Share of queries that the majority of their neighbours is right about."""
    found = neighbour_probability(points, labels, queries, neighbours) > 0.5
    return float((found == truth.bool()).double().mean())
