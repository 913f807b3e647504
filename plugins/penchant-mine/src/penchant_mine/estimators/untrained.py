"""What estimators that train nothing have in common: their null, their doubts, their answer."""

import math
from collections.abc import Callable, Sequence

import torch
from penchant_numerics.roles import Information
from penchant_numerics.statistics import NO_NULL, null_of
from torch import Generator, Tensor

from penchant_mine.shared.information.pairs import Pairs

FEWEST = 5  # pairs
FEW = 100  # pairs, below which an estimate says that there are few


def shuffled(
    value: Callable[[Tensor], float], pairs: Pairs, shuffles: int, generator: Generator
) -> list[float]:
    """The estimate for z in random order, which `value` takes."""
    values = []
    for _ in range(shuffles):
        # A random order leaves a pair together once in n, which does not matter.
        order = torch.randperm(len(pairs.x), generator=generator, device="cpu")
        values.append(value(order.to(pairs.x.device)))
    return values


def answer(
    pairs: Pairs,
    value: float,
    stderr: float,
    nulls: Sequence[float],
    *,
    warnings: Sequence[str],
    over: str,
    count: int,
    df: float | None = None,
) -> Information:
    """The answer, with doubts that every such estimator has; `df` are those of its error."""
    doubts = [*pairs.warnings, *warnings]
    samples = len(pairs.x)
    if samples < FEW:
        doubts.append(f"only {samples} pairs")
    if value > math.log(samples) - 1:
        doubts.append(
            f"the value is near log({samples}), the largest value that {samples} samples can show"
        )
    # What was not shuffled has no null, rather than a null of 0.
    null = null_of(nulls) if nulls else NO_NULL
    return Information(
        value=value,
        training=value,
        stderr=stderr,
        null=null["null"],
        null_spread=null["null_spread"],
        null_stderr=null["null_stderr"],
        warnings=tuple(doubts),
        over=over,
        count=count,
        details={"df": df, "training_stderr": stderr, "training_df": df, "training_null": null},
    )
