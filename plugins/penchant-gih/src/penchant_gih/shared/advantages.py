"""The accuracy of trainings that are tested on one set."""

from __future__ import annotations

import numpy as np
import penchant
from penchant_numerics.statistics import paired_difference


def answer_quantity(right: np.ndarray, *, null: float) -> penchant.Quantity:
    """The accuracy of trainings tested on one set, from right answers (trainings, samples)."""
    mean, stderr, df = paired_difference(np.zeros(right.shape), right)
    over = "trainings and samples"
    if len(right) == 1:
        over = "samples of one training"
    return penchant.Quantity(mean, stderr=stderr, over=over, count=len(right), df=df, null=null)
