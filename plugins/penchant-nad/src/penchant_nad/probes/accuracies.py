"""Accuracies of trainings as arrays and quantities, with the errors that are known.

Several trainings tell how much trainings differ; one does not. So of one training there is no
standard error: only the part of it that comes from the samples it was tested on.
"""

from __future__ import annotations

import numpy as np
import penchant
from penchant_numerics.statistics import accuracy, binomial_stderr


def accuracy_arrays(
    name: str,
    values: np.ndarray,
    samples: int,
) -> dict[str, np.ndarray]:
    """Mean accuracies over trainings (last axis) under a name, with their errors.

    Args:
        name: The name of the array; errors are `name-stderr`, with one training `name-sampling`.
        values: Accuracies (..., trainings).
        samples: Samples of each.
    """
    mean, stderr = accuracy(values, samples)
    # The spread of trainings is known from two on.
    if values.shape[-1] > 1:
        return {name: mean, f"{name}-stderr": stderr}
    return {name: mean, f"{name}-sampling": binomial_stderr(mean, samples)}


def accuracy_quantity(
    values: np.ndarray,
    samples: int,
    *,
    part: str,
    null: float | None = None,
) -> penchant.Quantity:
    """The mean accuracy of trainings (trainings,).

    Args:
        values: Accuracies.
        samples: Samples of each.
        part: Which samples they are: "test" or "training".
        null: The accuracy of guessing.
    """
    mean, stderr = accuracy(values, samples)
    over = f"trainings and {part} samples"
    if len(values) == 1:
        over = f"{part} samples of one training"
    return penchant.Quantity(
        mean,
        stderr=stderr,
        over=over,
        count=samples,
        null=null,
    )


def conventions(trainings: int) -> dict[str, str]:
    """What the errors of accuracies are over."""
    if trainings > 1:
        return {"errors of accuracies": "over trainings and samples"}
    return {
        "errors of accuracies": "one training each: over its samples alone, too small by what "
        "trainings differ"
    }
