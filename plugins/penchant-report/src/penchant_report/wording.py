"""How counts, values and settings stand in the pages of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from penchant.results.quantities import Quantity
from penchant_numerics.statistics import rounded, short_error, significance

Z_MEANING = (
    "z: the difference in standard errors; where few repetitions or permutations decide, the "
    "normal deviate with their two-sided p-value."
)


def duration(seconds: float) -> str:
    """A time in the words of a person.

    >>> duration(5.21), duration(754), duration(90000)
    ('5.2 seconds', '13 minutes', '25 hours')
    """
    if seconds < 10:
        return f"{seconds:.2g} seconds"
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    if seconds < 7200:
        minutes = seconds / 60
        return f"{minutes:.0f} minutes"
    hours = seconds / 3600
    return f"{hours:.0f} hours"


def level_text(comparisons: int) -> str:
    """How a table was decided.

    >>> level_text(3)
    '1 % level, corrected for 3 comparisons'
    """
    text = f"{significance.LEVEL * 100:.0f} % level"
    if comparisons > 1:
        text += f", corrected for {comparisons} comparisons"
    return text


def value_text(quantity: Quantity) -> str:
    """A value with its error and unit."""
    if quantity.missing:
        return "missing"
    text = rounded(quantity.value, quantity.stderr)
    if quantity.stderr is not None:
        error = short_error(quantity.stderr, quantity.value)
        text += f" ± {error}"
    text = f"{text} {quantity.unit}".rstrip()
    return text.replace("-", "−")


def setting_text(value: Any) -> str:
    """A setting as a reader sees it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def grouped(warnings: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Each text with the names it belongs to, in order."""
    found: dict[str, list[str]] = {}
    for name, text in warnings:
        names = found.setdefault(text, [])
        if name not in names:
            names.append(name)
    return found
