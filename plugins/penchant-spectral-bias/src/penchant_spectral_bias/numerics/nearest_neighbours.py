"""Nearest neighbours as a classifier whose smoothness can be compared with a network's."""

from __future__ import annotations

import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor


def neighbour_probability(
    points: Tensor, labels: Tensor, queries: Tensor, neighbours: int
) -> Tensor:
    """Share of class 1 among the nearest points of every query, (queries,).

    A query that is a point counts itself. The tree of scikit-learn is a host step: in the plane it
    is some ten times faster than all distances (`make bench`).

    Args:
        points: Points (points, dimensions).
        labels: Their classes, 0 or 1.
        queries: Where to look, (queries, dimensions).
        neighbours: How many points vote.
    """
    if neighbours > len(points):
        raise ValueError(f"neighbours must be at most the {len(points)} points, found {neighbours}")
    tree = NearestNeighbors(n_neighbors=neighbours, algorithm="kd_tree")
    tree.fit(points.double().cpu().numpy())
    places = queries.double().cpu().numpy()
    nearest = tree.kneighbors(places, return_distance=False)  # (queries, neighbours)
    votes = labels[torch.as_tensor(nearest, device=labels.device)]
    return votes.double().mean(1)


def neighbour_accuracy(
    points: Tensor, labels: Tensor, queries: Tensor, truth: Tensor, neighbours: int
) -> float:
    """Share of queries that the majority of their neighbours is right about."""
    found = neighbour_probability(points, labels, queries, neighbours) > 0.5
    right = found == truth.bool()
    return float(right.double().mean())
