"""Numbers of the gallery that are computed from the arrays of a result."""

from __future__ import annotations

import itertools

import numpy as np
from penchant import Quantity, Result

ON_CURVE, ELSEWHERE = 0.02, 0.05  # distances from the nearest sample, in sides of the plane


def derived(result: Result) -> dict[str, Quantity]:
    """Further quantities of a result, by the probe that made it."""
    if result.record["probe"]["name"] == "manifold-accuracy" and "plane" in result.arrays:
        return plane_agreement(result.arrays)
    return {}


def plane_agreement(arrays: dict[str, np.ndarray]) -> dict[str, Quantity]:
    """How often two networks give a point of the plane the same class: on the curve, elsewhere.

    Both are means over pairs of networks. A point is on the curve if it is nearer to a training
    sample than `ON_CURVE`, and elsewhere if it is further from all of them than `ELSEWHERE`.
    """
    classes = arrays["plane"] > 0
    if len(classes) < 2:
        return {}
    axis = arrays["plane-axis"]
    columns, rows = np.meshgrid(axis, axis)
    points = np.stack([columns, rows], axis=-1).reshape(-1, 1, 2)
    nearest = np.linalg.norm(points - arrays["plane-points"], axis=-1).min(axis=1)
    away = nearest.reshape(columns.shape) / (axis[-1] - axis[0])
    pairs = itertools.combinations(classes, 2)
    same = np.mean([one == other for one, other in pairs], axis=0)
    return {
        "agreement-on-curve": Quantity(float(same[away < ON_CURVE].mean()), null=0.5),
        "agreement-elsewhere": Quantity(float(same[away > ELSEWHERE].mean()), null=0.5),
    }
