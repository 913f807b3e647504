"""Where a number lies among the networks of the atlas, where it was measured in the same way."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from penchant.results.result import Result

FILE = Path(__file__).with_name("atlas.json")


@functools.cache
def atlas() -> dict[str, Any]:
    """Conditions and numbers of the atlas, by probe."""
    known: dict[str, Any] = json.loads(FILE.read_text())
    return known


def difference(result: Result, *, trained: bool) -> str:
    """What differs from the atlas, in words; empty where a result can be compared with it."""
    name = str(result.record["probe"]["name"])
    if name not in atlas():
        return f"the atlas has no {name}"
    conditions = atlas()[name]["conditions"]
    if trained:
        return "the atlas has networks before training"
    if list(result.shape or ()) != conditions["shape"] or result.outputs != conditions["outputs"]:
        shape = " x ".join(map(str, conditions["shape"]))
        return f"the atlas has inputs of {shape} and {conditions['outputs']} output"
    data: Any = result.record.get("dataset") or {}
    if data.get("options") != conditions["data"]:
        return "the atlas has other data" if conditions["data"] else "the atlas has no data"
    for option, value in conditions["options"].items():
        if result.options.get(option) != value:
            return f"the atlas has {option} = {value}"
    for role, chosen in conditions["estimators"].items():
        own = result.record["estimators"][role]
        if not isinstance(own, dict) or _estimator(own) != chosen:
            return "the atlas has another estimator"
    return ""


def _estimator(record: Any) -> dict[str, Any]:
    return {"name": record["name"], "options": record["options"]}


def rank(probe: str, quantity: str, value: float) -> tuple[int, int] | None:
    """Of how many networks of the atlas a value is larger, and how many there are."""
    values = atlas()[probe]["values"].get(quantity, {})
    if not values:
        return None
    return sum(each < value for each in values.values()), len(values)
