"""Dot plots: a quantity of every group with its error and null, as coordinates that a page draws.

Panels are drawn by the page itself, so that they take its colours and stack on a narrow screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from penchant_report.answers import Answer, Group
from penchant_report.pooling import Pooled

WIDTH = 320  # of a panel, in pixels, names included
LEFT, RIGHT, TOP, ROW, BOTTOM = 14, 14, 8, 40, 26
MOST_PANELS = 6
MOST_ROWS = 24
_TICKS = 4  # at most
_WIDEST_LINEAR = 100.0  # ratio of positive values above which the axis is logarithmic


@attrs.frozen
class Row:
    """A group in a panel; positions are pixels, None where there is nothing to draw."""

    label: str
    y: float
    x: float | None
    low: float | None
    high: float | None
    seeds: tuple[float, ...]
    null: float | None
    null_low: float | None
    null_high: float | None
    description: str


@attrs.frozen
class Panel:
    """A quantity over groups."""

    quantity: str
    unit: str
    height: int
    rows: list[Row]
    ticks: list[tuple[float, str]]
    is_log: bool


def panels(answer: Answer) -> list[Panel]:
    """Panels of the first quantities; none where there is nothing to compare."""
    groups = answer.groups[:MOST_ROWS]
    panels = []
    for name in answer.meanings:
        known = [group for group in groups if _is_known(group, name)]
        pooled = [group.quantities[name] for group in known]
        nulls = [each for each in pooled if each.quantity.null is not None]
        # One number alone is in the table.
        if len(known) > 1 or nulls:
            panels.append(_panel(name, known))
        if len(panels) == MOST_PANELS:
            break
    return panels


def _is_known(group: Group, name: str) -> bool:
    quantity = group.quantities.get(name)
    if quantity is None:
        return False
    return math.isfinite(quantity.quantity.value)


def _panel(name: str, groups: Sequence[Group]) -> Panel:
    # A scale that has room for every group.
    everything: list[float] = []
    for group in groups:
        everything += _extent(group.quantities[name])
    scale = _Scale.around(everything)
    rows = []
    for number, group in enumerate(groups):
        y = TOP + ROW * (number + 0.65)
        quantity = group.quantities[name]
        rows.append(_row(group.label, quantity, y, scale))
    first = groups[0].quantities[name]
    ticks = [(scale.position(value), f"{value:g}") for value in scale.ticks]
    return Panel(
        quantity=name,
        unit=first.quantity.unit,
        height=TOP + ROW * len(groups) + BOTTOM,
        rows=rows,
        ticks=ticks,
        is_log=scale.is_log,
    )


def _extent(found: Pooled) -> list[float]:
    """Every number that the panel can show."""
    quantity = found.quantity
    value = (quantity.value, quantity.stderr)
    null = (quantity.null, quantity.null_spread)
    numbers = [quantity.value, *found.values]
    for middle, error in (value, null):
        if middle is None:
            continue
        room = error or 0.0
        low = middle - room
        high = middle + room
        numbers += [middle, low, high]
    return [number for number in numbers if math.isfinite(number)]


def _row(label: str, found: Pooled, y: float, scale: _Scale) -> Row:
    quantity = found.quantity
    low, high = _bar(quantity.value, quantity.stderr, scale)
    null_low, null_high = _bar(quantity.null, quantity.null_spread, scale)
    # One seed is the value itself.
    values = found.values if len(found.values) > 1 else ()
    seeds = [scale.position(value) for value in values if math.isfinite(value)]
    return Row(
        label=label,
        y=y,
        x=scale.position(quantity.value),
        low=low,
        high=high,
        seeds=tuple(seeds),
        null=None if quantity.null is None else scale.position(quantity.null),
        null_low=null_low,
        null_high=null_high,
        description=f"{label}: {quantity}",
    )


def _bar(
    middle: float | None, error: float | None, scale: _Scale
) -> tuple[float | None, float | None]:
    if middle is None or not error or not math.isfinite(error):
        return None, None
    low = scale.position(middle - error)
    high = scale.position(middle + error)
    return low, high


@attrs.frozen
class _Scale:
    """From numbers to pixels."""

    low: float
    high: float
    ticks: list[float]
    is_log: bool

    @classmethod
    def around(cls, numbers: Sequence[float]) -> _Scale:
        """A scale that has room for all of them."""
        low = min(numbers)
        high = max(numbers)
        if low > 0 and high / low > _WIDEST_LINEAR:
            return cls._logarithmic(low, high)
        # A little room at both ends, also where all numbers are the same.
        room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        low -= room
        high += room
        ticks = _round_numbers(low, high)
        return cls(low, high, ticks, is_log=False)

    @classmethod
    def _logarithmic(cls, low: float, high: float) -> _Scale:
        first = math.floor(math.log10(low))
        last = math.ceil(math.log10(high))
        # Whole powers of ten, and few enough of them.
        step = math.ceil((last - first) / _TICKS)
        powers = range(first, last + 1, max(1, step))
        ticks = [10.0**power for power in powers]
        return cls(low=10.0**first, high=10.0**last, ticks=ticks, is_log=True)

    def position(self, value: float) -> float:
        """The pixel of a number; what lies outside stops at the edge."""
        low, high = self.low, self.high
        if self.is_log:
            value = math.log10(max(value, low))
            low = math.log10(low)
            high = math.log10(high)

        share = (value - low) / (high - low)
        share = max(share, 0.0)
        share = min(share, 1.0)
        room = WIDTH - LEFT - RIGHT
        return round(LEFT + share * room, 1)


def _round_numbers(low: float, high: float) -> list[float]:
    """A few round numbers between two.

    >>> _round_numbers(0.13, 0.92)
    [0.2, 0.4, 0.6, 0.8]
    """
    # The first round step that is no smaller than it has to be.
    rough = (high - low) / _TICKS
    exponent = math.floor(math.log10(rough))
    power = 10.0**exponent
    steps = [power * each for each in (1, 2, 5, 10)]
    step = next(each for each in steps if each >= rough)

    # Its multiples between the two.
    first = math.ceil(low / step)
    last = math.floor(high / step)
    numbers = []
    for number in range(first, last + 1):
        # Rounded, because 3 * 0.2 is not 0.6.
        text = f"{number * step:.10g}"
        numbers.append(float(text))
    return numbers
