"""Accuracies of trainings as quantities, with the errors that are known.

Several trainings tell how much trainings differ; one does not. So of one training there is no
standard error over trainings: only the one over test samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from penchant_numerics.statistics import accuracy, binomial_stderr, combined_error, mean_and_stderr


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
