"""Numbers of trainings compared with the same number of trainings without the effect."""

from __future__ import annotations

import math

import attrs
import penchant
from penchant_numerics import significance
from torch import Tensor

from penchant_spectral_bias.numerics import resolution


def in_steps(values: Tensor, step: float, *, null: float | None = None) -> penchant.Quantity:
    """The mean over trainings of numbers that are known to a step, such as counts."""
    mean, stderr = resolution.mean_and_stderr(values, step)
    count = len(values)
    df = count - 1 if count > 1 else None
    return penchant.Quantity(mean, stderr=stderr, over="trainings", count=count, df=df, null=null)


def against_control(
    values: Tensor, control: Tensor, *, paired: bool, step: float = 0.0
) -> penchant.Quantity:
    """The mean over trainings; its null is the mean over trainings without the effect.

    Args:
        values: One number per training.
        control: One number per training without the effect.
        paired: Whether numbers at one index share all but the effect (Student's test of their
            differences); else both are independent (Welch's test).
        step: The width to which each number is known.

    Returns:
        The quantity; p is None where one side has fewer than two trainings. NaN among the values
        makes it missing, NaN among the control leaves it without a null.
    """
    quantity = in_steps(values, step)
    # what could not be measured is not compared
    if bool(values.isnan().any()) or bool(control.isnan().any()):
        return quantity
    null, null_stderr = resolution.mean_and_stderr(control, step)
    p = None
    if paired and len(values) > 1:
        difference, error = resolution.mean_and_stderr(values - control, step)
        p = significance.p_value(difference, error, len(values) - 1)
    elif quantity.stderr is not None and null_stderr is not None:
        terms = [(quantity.stderr, quantity.df), (null_stderr, len(control) - 1.0)]
        p = significance.p_value(quantity.value - null, *significance.combined_error(terms))
    spread = None
    if null_stderr is not None:
        # of a mean over as many trainings as the value's
        spread = null_stderr * math.sqrt(len(control) / len(values))
    return attrs.evolve(quantity, null=null, null_spread=spread, null_stderr=null_stderr, p=p)
