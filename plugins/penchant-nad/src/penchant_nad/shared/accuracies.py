"""Accuracies of trainings as arrays and quantities, with the errors that are known.

Several trainings tell how much trainings differ; one does not. So of one training there is no
standard error over trainings: only the one over test samples.

Trainings that share their samples are known by their answers, right or wrong, (..., trainings,
samples): then the error is that of crossed trainings and samples, and what two conditions share
cancels in their difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from penchant_numerics.significance import combined_error
from penchant_numerics.statistics import (
    accuracy,
    binomial_stderr,
    crossed_accuracy,
    mean_and_stderr,
    paired_difference,
)


def error_name(name: str, trainings: int) -> str:
    """What the error of an array is over: of one training, samples only."""
    kind = "stderr" if trainings > 1 else "sampling"
    return f"{name}-{kind}"


def accuracy_arrays(name: str, values: np.ndarray, samples: int) -> dict[str, np.ndarray]:
    """Mean accuracies over trainings (last axis) under a name, with their errors.

    Args:
        name: The name of the array; errors are `name-stderr`, with one training `name-sampling`.
        values: Accuracies (..., trainings).
        samples: Samples of each.
    """
    mean, stderr = accuracy(values, samples)
    return {name: np.asarray(mean), error_name(name, values.shape[-1]): np.asarray(stderr)}


def answer_arrays(name: str, right: np.ndarray) -> dict[str, np.ndarray]:
    """The same from right answers (..., trainings, samples)."""
    mean, stderr = crossed_accuracy(right)
    return {name: np.asarray(mean), error_name(name, right.shape[-2]): np.asarray(stderr)}


def difference_arrays(name: str, first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
    """Second less first, pair by pair, from right answers (..., trainings, samples)."""
    mean, stderr, df = paired_difference(first, second)
    error = error_name(name, second.shape[-2])
    return {name: np.asarray(mean), error: np.asarray(stderr), f"{name}-df": np.asarray(df)}


def accuracy_quantity(
    values: np.ndarray, samples: int, *, over: str, null: float
) -> penchant.Quantity:
    """The mean accuracy of independent rows (rows,): trainings, or directions.

    Args:
        values: Accuracies.
        samples: Samples of each, the same for all.
        over: What the error is over.
        null: The accuracy of guessing.
    """
    mean, stderr = accuracy(values, samples)
    # What rows differ by has as many degrees of freedom as rows less one; samples are many.
    _, between = mean_and_stderr(values)
    sampling = binomial_stderr(mean, samples)
    terms = [(float(between or 0.0), max(len(values) - 1, 1)), (float(sampling), None)]
    _, df = combined_error(terms)
    return penchant.Quantity(mean, stderr=stderr, over=over, count=len(values), df=df, null=null)


def answer_quantity(
    right: np.ndarray, *, split: str, null: float, instead: np.ndarray | float = 0.0
) -> penchant.Quantity:
    """The share of right answers (trainings, samples), less that of others in pairs.

    Args:
        right: Whether a training is right on a sample.
        split: Which samples they are: "test" or "training".
        null: The value without an effect.
        instead: Right answers of the same trainings and samples under the other condition.
    """
    others = np.broadcast_to(instead, right.shape)
    mean, stderr, df = paired_difference(others, right)
    trainings = len(right)
    over = f"trainings and {split} samples"
    if trainings == 1:
        over = f"{split} samples of one training"
    return penchant.Quantity(mean, stderr=stderr, over=over, count=trainings, df=df, null=null)


def commonest_class(labels: Any) -> float:
    """The accuracy of always answering with the most frequent class."""
    counts = labels.bincount()
    return float(counts.max() / counts.sum())


def conventions(trainings: int) -> dict[str, str]:
    """What the errors of accuracies are over."""
    if trainings > 1:
        return {"errors of accuracies": "over trainings and samples"}
    return {
        "errors of accuracies": "one training each: over its samples only, too small by what "
        "trainings differ"
    }
