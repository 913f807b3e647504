"""Counts of modes over trainings, as quantities."""

from __future__ import annotations

import math

import attrs
import penchant
from penchant_numerics.statistics import both_p_value, p_value

HALF_A_MODE = 0.5  # what a count of whole modes leaves open


def mode_count(values: list[float], null: float) -> penchant.Quantity:
    """A mean count of modes; trainings that agree by chance leave half a mode open, each."""
    quantity = penchant.Quantity.of(values, over="trainings, at least half a mode each", null=null)
    least = HALF_A_MODE / math.sqrt(len(values))
    stderr = max(quantity.stderr or 0.0, least)
    # Counts end at the number of modes: their distances from the null have no long tail above, as
    # factors would have, of which a single collapsed training makes an endless one.
    away = penchant.Quantity.of([value - null for value in values], over="trainings", null=0.0)
    p = away.p and both_p_value(away.p, p_value(quantity.value - null, stderr, quantity.df))
    return attrs.evolve(quantity, stderr=stderr, p=p)
