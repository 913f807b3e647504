"""Steps of training at which a probe evaluates networks.

Numbers that are missing because an unbiased squared norm was not positive.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import penchant
import torch


def chosen_steps(
    eval_steps: tuple[int, ...] | None, total: int, *, eval_every: int | None = None
) -> list[int]:
    """The requested steps, every `eval_every`, or 0, 1, 2, 4, ...; the last where none are named.

    Args:
        eval_steps: Steps, ascending.
        total: The last step of the training.
        eval_every: The distance of steps.
    """
    # Every `eval_every` steps, and the last.
    if eval_steps is None and eval_every is not None:
        regular = range(0, total + 1, eval_every)
        return sorted({*regular, total})
    if eval_steps is None:
        # Most happens early: the steps double.
        doublings = range(total.bit_length())
        powers = {2**power for power in doublings}
        early = {power for power in powers if power <= total}
        return sorted({0, total} | early)
    # Evaluations come in the order of the training, each once.
    ascending = sorted(set(eval_steps))
    if list(eval_steps) != ascending or eval_steps[-1] > total:
        raise penchant.Error(
            f"eval_steps must ascend and end at most at {total}, the last of the training, "
            f"found {list(eval_steps)}"
        )
    return list(eval_steps)


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
