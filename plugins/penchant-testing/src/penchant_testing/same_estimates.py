"""Are two answers of an estimator the same, number by number?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import attrs


def difference(first: Any, second: Any, where: str = "the answer") -> str:
    """What differs between two answers; empty if nothing does.

    Args:
        first: What an estimator returned.
        second: What it returned the second time.
        where: What they are, for the message.

    Returns:
        Such as "trace: 1.0, then 2.0".
    """
    if type(first) is not type(second):
        return f"{where}: {type(first).__name__}, then {type(second).__name__}"
    fields = _fields(first)
    if fields is None:
        return "" if _equal(first, second) else f"{where}: {first!r}, then {second!r}"
    others = _fields(second) or {}
    if fields.keys() != others.keys():
        return f"{where}: {list(fields)}, then {list(others)}"
    for name, value in fields.items():
        if text := difference(value, others[name], str(name)):
            return text
    return ""


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """What a value consists of, by name; None for a number, a text, a tensor."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    if hasattr(value, "matvec"):
        # An operator is what it does to a vector.
        return {"its product with a vector": value.matvec(_vector(value))}
    if dataclasses.is_dataclass(value) or attrs.has(type(value)):
        return dict(vars(value)) if hasattr(value, "__dict__") else attrs.asdict(value)
    return None


def _vector(operator: Any) -> Any:
    import torch

    positions = torch.arange(operator.size, device=operator.device)
    return torch.cos(positions.to(operator.dtype))


def _equal(first: Any, second: Any) -> bool:
    import numpy as np
    import torch

    if isinstance(first, torch.Tensor):
        first, second = first.cpu().numpy(), second.cpu().numpy()
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
    if isinstance(first, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)
