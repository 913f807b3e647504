"""Quantities as lines of a terminal, with aligned numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penchant.results.quantities import Quantity, distance
from penchant_numerics.statistics import rounded, short_error

NARROWEST = 40  # columns: what is narrower than that is not laid out for
_INDENT = "  "


def quantity_lines(quantities: Mapping[str, Quantity], *, width: int = 80) -> list[str]:
    r"""A line for each quantity: name, value, error, null, and the z-score against the null.

    >>> rank = Quantity(137.38, stderr=1.26, null=175.6, null_spread=1.1)
    >>> print(*quantity_lines({"rank": rank, "layers": Quantity(3, exact=True)}), sep="\n")
      rank    137.4 ± 1.3  null 175.6 ± 1.1  z = −30
      layers    3
    """
    rows = [[name, *_columns(quantity)] for name, quantity in quantities.items()]
    # Decimal points are aligned.
    fronts = [_front(row[1]) for row in rows]
    for row, front in zip(rows, fronts):
        row[1] = " " * (max(fronts) - front) + row[1]
    return _laid_out(rows, max(width, NARROWEST))


def _front(number: str) -> int:
    """Characters before the decimal point."""
    # Without its unit and its exponent.
    digits = number.partition(" ")[0].partition("e")[0]
    return len(digits.partition(".")[0]) if digits[-1:].isdigit() else 0


def _columns(quantity: Quantity) -> tuple[str, str, str, str]:
    """Value, error, null and z-score, as they are printed."""
    if quantity.missing:
        return "missing", "", "", ""
    value = rounded(quantity.value, quantity.stderr)
    error = ""
    if quantity.stderr is not None:
        error = f"± {short_error(quantity.stderr, quantity.value)}"
    # Without an error the unit follows the value itself.
    if quantity.unit and error:
        error += f" {quantity.unit}"
    elif quantity.unit:
        value += f" {quantity.unit}"
    null = "" if quantity.null is None else f"null {quantity.null_text}"
    return value, error, null, distance(quantity, quantity.against_null)


def _laid_out(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Rows in columns; where they do not fit, each row is broken after its name."""
    if not rows:
        return []
    first, *others = [max(map(len, column)) for column in zip(*rows)]
    # Two spaces between columns, one between value and error.
    broken = len(_INDENT) + first + sum(others) + 2 * len(others) > width
    lines = []
    for name, *rest in rows:
        value, *more = [f"{cell:<{size}}" for cell, size in zip(rest, others)]
        numbers = "  ".join([" ".join([value, *more[:1]]), *more[1:]]).rstrip()
        if broken:
            lines += [f"{_INDENT}{name}", f"{_INDENT * 2}{numbers}"]
        else:
            lines.append(f"{_INDENT}{name:{first}}  {numbers}".rstrip())
    return lines
