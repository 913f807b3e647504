"""Results as lines of text: numbers under each other, names that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penchant.results.evidence import Difference, Pooled, against_null
from penchant.results.quantities import Quantity, rounded, short_error

NARROWEST = 40  # columns: what is narrower than that is not laid out for
_INDENT = "  "
_ELLIPSIS = "…"


def quantity_lines(quantities: Mapping[str, Quantity], *, width: int = 80) -> list[str]:
    r"""A line for each quantity: name, value, error, null, and the z-score against the null.

    >>> found = {"rank": Quantity(137.38, stderr=1.26, null=175.6, null_spread=1.1)}
    >>> print(*quantity_lines({**found, "layers": Quantity(3, exact=True)}), sep="\n")
      rank    137.4 ± 1.3  null 175.6 ± 1.1  z = −30
      layers    3
    """
    rows = [[name, *_columns(quantity)] for name, quantity in quantities.items()]
    # Points of numbers stand under each other.
    fronts = [_front(row[1]) for row in rows]
    for row, front in zip(rows, fronts):
        row[1] = " " * (max(fronts) - front) + row[1]
    return _laid_out(rows, max(width, NARROWEST))


def _front(number: str) -> int:
    """Letters before the point."""
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
    return value, error, null, distance(quantity)


def distance(quantity: Quantity | Pooled) -> str:
    """The z-score of a quantity against its null; empty where it has none.

    >>> distance(Quantity(74.5, stderr=2.3, null=125.3, null_spread=0.4))
    'z = −22'
    >>> distance(Quantity.of([19.0, 21.0], over="trainings", null=0.0))
    'z = 2.1 (2 trainings decide nothing)'
    """
    pooled = quantity if isinstance(quantity, Pooled) else Pooled(quantity)
    away = against_null(pooled)
    text = z_text(away)
    if away is None or not away.undecided:
        return text
    own = pooled.quantity
    few = f"{own.count} {own.over}" if own.count and own.over else "so few repetitions"
    return f"{text} ({few} decide nothing)"


def z_text(apart: Difference | None) -> str:
    """The z-score of a difference as it is printed; empty where it has none.

    >>> z_text(Difference(-0.13, 1.0)), z_text(Difference(300.0, 1.0)), z_text(Difference(1.0, 0.0))
    ('z = −0.1', 'z > 99', '')
    """
    z = None if apart is None else apart.z
    if z is None:
        return ""
    # Beyond a hundred the number says more about the sample than about the effect.
    if abs(z) >= 99.5:
        return "z < −99" if z < 0 else "z > 99"
    digits = 0 if abs(z) >= 9.95 else 1
    number = f"{z:.{digits}f}".replace("-", "−")
    return "z = 0" if number in ("0.0", "−0.0") else f"z = {number}"


def _laid_out(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Rows in columns; where they do not fit, names are shortened and the last columns dropped."""
    if not rows:
        return []
    columns = list(zip(*rows))
    # What is said last is least needed: z-score, then null.
    while len(columns) > 3 and _needed(columns, shortest=12) > width:
        columns.pop()
    # Names take what the numbers leave.
    first, *others = _widths(columns)
    first = min(first, max(12, width - _needed(columns, shortest=0)))
    lines = []
    for name, *rest in zip(*columns):
        cells = [f"{shortened(name, first):{first}} "]
        cells += [f"{cell:<{size}}" for cell, size in zip(rest, others)]
        # One space between value and error, two elsewhere.
        line = "  ".join([" ".join(cells[:3]), *cells[3:]])
        lines.append(_INDENT + line.rstrip())
    return lines


def _widths(columns: Sequence[Sequence[str]]) -> list[int]:
    """Letters of the longest cell of each column."""
    return [max(map(len, column)) for column in columns]


def _needed(columns: Sequence[Sequence[str]], *, shortest: int) -> int:
    """Columns of a terminal that these take, with names of at most `shortest` letters."""
    first, *others = _widths(columns)
    # Two spaces before each column but the first.
    return len(_INDENT) + min(first, shortest) + sum(others) + 2 * len(others)


def shortened(text: str, width: int) -> str:
    """A text that fits, its middle left out where it does not.

    >>> shortened("output-spread-perceptron-s0", 14)
    'output-…ron-s0'
    """
    if len(text) <= width:
        return text
    kept = max(width - 1, 1)
    back = kept // 2
    front = kept - back
    end = text[-back:] if back else ""
    return text[:front] + _ELLIPSIS + end
