"""How fast a sampled geometry changes, and how far it goes: 1 - Corr of consecutive evaluations.

All evaluations use the same networks, so the errors of consecutive velocities go together: the
error of their sum is the jackknife's over networks, not the root of their squares.
"""

from __future__ import annotations

from typing import NamedTuple

from penchant_numerics.inputs import Corr, corr_of_sampled, distinct_mean, jackknifed
from penchant_numerics.inputs.correlation import cosine
from torch import Tensor

from penchant_gih.shared.sampled_products import squared_products


class Velocities(NamedTuple):
    """Velocities of a geometry between evaluations, and their sum, with errors over networks."""

    values: list[float]
    errors: list[float]
    path: Corr


def velocities(gradients: Tensor) -> Velocities:
    """Velocities along evaluations, of different networks only.

    Args:
        gradients: (evaluations, networks, inputs, D).
    """
    # norms at each evaluation, products between neighbours
    tables = [squared_products(rows, rows).cpu() for rows in gradients]
    pairs = []
    for before in range(len(gradients) - 1):
        after = before + 1
        cross = squared_products(gradients[after], gradients[before]).cpu()
        pairs.append((cross, tables[after], tables[before]))

    def path(chosen: list[int]) -> float:
        total = 0.0
        for products in pairs:
            means = [distinct_mean(table, chosen) for table in products]
            corr = cosine(*means)
            total += 1 - corr
        return total

    corrs = [corr_of_sampled(*products) for products in pairs]
    values = [1 - corr.value for corr in corrs]
    errors = [corr.stderr for corr in corrs]
    # Leaving out a network changes all evaluations at once.
    networks = gradients.shape[1]
    return Velocities(values, errors, jackknifed(path, networks))
