"""Nearest neighbours as a classifier whose smoothness can be compared with a network's."""

from __future__ import annotations

import numpy as np
import torch
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
        queries: Points whose neighbours are searched, (queries, dimensions).
        neighbours: How many points vote.
    """
    from sklearn.neighbors import NearestNeighbors  # here: no shard needs it, and it takes a second

    if neighbours > len(points):
        raise ValueError(f"neighbours must be at most the {len(points)} points, found {neighbours}")
    tree = NearestNeighbors(n_neighbors=neighbours, algorithm="kd_tree")
    tree.fit(_on_host(points))
    nearest = tree.kneighbors(_on_host(queries), return_distance=False)
    # labels of the nearest, (queries, neighbours)
    indices = torch.as_tensor(nearest, device=labels.device)
    votes = labels[indices]
    return votes.double().mean(1)


def _on_host(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def neighbour_accuracy(
    points: Tensor, labels: Tensor, queries: Tensor, truth: Tensor, neighbours: int
) -> float:
    """Share of queries that the majority of their neighbours is right about."""
    probability = neighbour_probability(points, labels, queries, neighbours)
    majority = probability > 0.5
    right = majority == truth.bool()
    return float(right.double().mean())
