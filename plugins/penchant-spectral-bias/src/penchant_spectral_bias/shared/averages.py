"""What shards return, put together: rows of all trainings, and their means with errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.statistics import mean_and_stderr
from torch import Generator, Tensor

from penchant_spectral_bias.shared.rank_order import rank_order


def joined(shards: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Tensor]:
    """Arrays of shards, one after another along their first axis."""
    rows = {}
    for name in names:
        tensors = [_tensor(shard[name]) for shard in shards]
        rows[name] = torch.cat(tensors)
    return rows


def _tensor(value: Any) -> Tensor:
    """An array or a number of a shard; numbers stay in double precision."""
    array = np.asarray(value)
    return torch.as_tensor(array, device="cpu")


def averages(rows: Mapping[str, Tensor]) -> dict[str, Any]:
    """Means over the first axis, and their standard errors as `name-stderr` where there are two."""
    arrays = {}
    for name, values in rows.items():
        mean, stderr = mean_and_stderr(values, axis=0)
        arrays[name] = mean
        # what is unknown is left out: a zero would call it certain
        if stderr is not None:
            arrays[f"{name}-stderr"] = stderr
    return arrays


def order(values: Tensor, positions: Tensor, *, generator: Generator) -> penchant.Quantity:
    """The mean rank correlation of trainings with the positions; missing without ranks."""
    order = rank_order(values, positions, generator=generator)
    if order is None:
        undefined = float("nan")
        return penchant.Quantity(undefined, null=0.0)
    return penchant.Quantity(**order.fields())


def missing(quantities: Mapping[str, penchant.Quantity]) -> tuple[str, ...]:
    """Names of the quantities without a number."""
    names = []
    for name, quantity in quantities.items():
        if quantity.missing:
            names.append(name)
    return tuple(names)
