"""Spearman's rank correlation, its permutation null, and its jackknife error."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor


def ranks(values: Tensor) -> Tensor:
    """Ranks from 1; equal values share their mean rank.

    >>> ranks(torch.tensor([10.0, 30.0, 10.0], device="cpu")).tolist()
    [1.5, 3.0, 1.5]
    """
    below = (values[:, None] > values).sum(1)
    equal = (values[:, None] == values).sum(1)
    return below.double() + (equal.double() + 1) / 2


def spearman(x: Tensor, y: Tensor) -> float:
    """Rank correlation; NaN where one of the two does not vary."""
    a, b = (ranks(each) - (len(each) + 1) / 2 for each in (x, y))
    scale = float(a.norm() * b.norm())
    return float(a @ b) / scale if scale else math.nan


def permutation_null(
    x: Tensor, y: Tensor, *, generator: Generator, draws: int = 2000
) -> tuple[float, float]:
    """Mean and standard deviation of the rank correlation when y is permuted."""
    a, b = ((ranks(each) - (len(each) + 1) / 2).cpu() for each in (x, y))
    order = torch.rand(draws, len(b), generator=generator, device="cpu").argsort(1)
    values = b[order] @ a / (a.norm() * b.norm())
    return float(values.mean()), float(values.std())


def jackknife(rows: Tensor, statistic: Callable[[Tensor], float]) -> float | None:
    """Standard error of statistic(mean of rows), from leaving out one row at a time; none with fewer than two rows."""
    count = len(rows)
    if count < 2:
        return None
    total = rows.sum(0)
    left_out = torch.tensor(
        [statistic((total - row) / (count - 1)) for row in rows], device="cpu", dtype=torch.float64
    )
    return float(((count - 1) / count * (left_out - left_out.mean()).square().sum()).sqrt())


def mean_and_error(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over the first axis and its standard error (0 where there is one row: nothing is known of it)."""
    mean = rows.mean(0)
    return mean, rows.std(0) / math.sqrt(len(rows)) if len(rows) > 1 else torch.zeros_like(mean)
