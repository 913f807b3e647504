"""The quantity `advantage` of probes that compare their choice with a random one."""

from __future__ import annotations

import numpy as np
import penchant

from penchant_gih.numerics.advantage import advantage


def advantage_quantity(ours: np.ndarray, others: np.ndarray) -> dict[str, penchant.Quantity]:
    """How much more often trainings are right than others: (trainings, settings, samples) each."""
    value, stderr = advantage(ours, others)
    found = penchant.Quantity(
        value,
        stderr=stderr,
        over="trainings and test samples",
        count=len(ours),
        null=0.0,
    )
    return {"advantage": found}
