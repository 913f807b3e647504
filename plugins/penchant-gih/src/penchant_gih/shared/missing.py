"""Numbers that are missing because an unbiased squared norm was not positive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import penchant
import torch


def missing_names(
    context: penchant.Context,
    arrays: Mapping[str, Any],
    quantities: Mapping[str, penchant.Quantity],
) -> tuple[str, ...]:
    """Names of arrays and quantities with numbers that are not finite; a warning says why."""
    names = [name for name, array in arrays.items() if not _is_finite(array)]
    if names:
        context.warn(
            f"too few networks for {', '.join(names)}: an unbiased squared norm is not positive"
        )
    # Quantities follow from arrays, which were named already.
    for name, quantity in quantities.items():
        numbers = quantity.numbers.values()
        if not all(math.isfinite(number) for number in numbers):
            names.append(name)
    return tuple(names)


def _is_finite(array: Any) -> bool:
    if isinstance(array, torch.Tensor):
        return bool(torch.isfinite(array).all())
    return bool(np.isfinite(array).all())
