"""How much better trainings do than others that share their initial networks and test samples."""

from __future__ import annotations

import numpy as np
import penchant
from penchant_numerics.statistics import paired_difference


def advantage_quantity(ours: np.ndarray, others: np.ndarray) -> dict[str, penchant.Quantity]:
    """How much more often trainings are right than others: (trainings, settings, samples) each."""
    value, stderr, df = paired_difference(others.mean(1), ours.mean(1))
    over = "trainings and test samples"
    if len(ours) == 1:
        over = "test samples of one training"
    quantity = penchant.Quantity(value, stderr=stderr, over=over, count=len(ours), df=df, null=0.0)
    return {"advantage": quantity}


def advantage_arrays(ours: np.ndarray, others: np.ndarray) -> dict[str, np.ndarray]:
    """The same for every setting, with errors and their degrees of freedom."""
    value, stderr, df = paired_difference(others, ours, axis=(0, 2))
    return {
        "advantage": np.asarray(value),
        "advantage-stderr": np.asarray(stderr),
        "advantage-df": np.asarray(df),
    }


def answer_quantity(right: np.ndarray, *, null: float) -> penchant.Quantity:
    """The accuracy of trainings tested on one set, from right answers (trainings, samples)."""
    mean, stderr, df = paired_difference(np.zeros(right.shape), right)
    over = "trainings and samples"
    if len(right) == 1:
        over = "samples of one training"
    return penchant.Quantity(mean, stderr=stderr, over=over, count=len(right), df=df, null=null)
