"""Numbers of trainings compared with the same number of trainings without the effect."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import attrs
import numpy as np
import penchant
from penchant_numerics.statistics import significance
from torch import Tensor

from penchant_spectral_bias.shared import resolution

Values: TypeAlias = "penchant.Table | Tensor | np.ndarray[Any, Any]"  # one number per training


def _array(values: Values) -> np.ndarray[Any, Any]:
    return np.asarray(values.values if isinstance(values, penchant.Table) else values)


def in_steps(values: Values, step: float, *, null: float | None = None) -> penchant.Quantity:
    """The mean over trainings of numbers that are known to a step, such as counts."""
    numbers = _array(values)
    mean, stderr = resolution.mean_and_stderr(numbers, step)
    count = len(numbers)
    df = count - 1 if count > 1 else None
    return penchant.Quantity(mean, stderr=stderr, over="trainings", count=count, df=df, null=null)


def against_control(
    values: Values, control: Values, *, paired: bool, step: float = 0.0
) -> penchant.Quantity:
    """The mean over trainings; its null is the mean over trainings without the effect.

    Args:
        values: One number per training.
        control: One number per training without the effect.
        paired: Whether numbers at one index share all but the effect (Student's test of their
            differences); else both are independent (`significance.sum_p_value`).
        step: The width to which each number is known.

    Returns:
        The quantity; p is None where one side has fewer than two trainings. NaN among the values
        makes it missing, NaN among the control leaves it without a null.
    """
    quantity = in_steps(values, step)
    ours, others = _array(values), _array(control)
    # what could not be measured is not compared
    if np.isnan(ours).any() or np.isnan(others).any():
        return quantity
    null, null_stderr = resolution.mean_and_stderr(others, step)
    p = None
    if paired and len(ours) > 1:
        difference, error = resolution.mean_and_stderr(ours - others, step)
        p = significance.p_value(difference, error, len(ours) - 1)
        if not step:
            p = significance.mean_p_value((ours - others).tolist(), 0.0)
    elif quantity.stderr is not None and null_stderr is not None:
        terms = [(quantity.stderr, quantity.df), (null_stderr, len(others) - 1.0)]
        p = significance.sum_p_value(quantity.value - null, terms)
    spread = None
    if null_stderr is not None:
        # of a mean over as many trainings as the value's
        spread = null_stderr * math.sqrt(len(others) / len(ours))
    return attrs.evolve(quantity, null=null, null_spread=spread, null_stderr=null_stderr, p=p)
