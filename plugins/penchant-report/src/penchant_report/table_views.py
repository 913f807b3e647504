"""A table as people read it: values with errors in a grid, as HTML, CSV and LaTeX."""

from __future__ import annotations

import csv
import html
import io
import itertools
from collections.abc import Sequence

import numpy as np
from penchant.results.tables import Coordinate, Table

from penchant_report.text_tables import latex_table
from penchant_report.wording import value_text

MOST_CELLS = 200  # of a table that is shown in full
FIRST_ROWS = 20  # of a larger one
MOST_COLUMNS = 12  # of coordinates of the last axis; more stand below each other


def rest(table: Table) -> str:
    """What is not shown of a table, in a sentence; empty where all of it is."""
    if table.values.size <= MOST_CELLS:
        return ""
    return f"The first {FIRST_ROWS} of {table.values.size // len(_columns(table))} rows."


def grid(table: Table) -> list[list[str]]:
    """A heading, and the first rows of coordinates and numbers.

    Coordinates of the last axis stand beside each other where they are few.

    >>> table = Table([[1.0, 2.0]], {"frequency": (0.5,), "step": (0, 10)}, stderr=[[0.1, 0.2]])
    >>> grid(table)
    [['frequency', 'step 0', 'step 10'], ['0.5', '1.00 ± 0.10', '2.00 ± 0.20']]
    """
    columns = _columns(table)
    outer = [axis for axis in table.axes if axis not in columns[0]]
    names = [f"{axis} {_text(each)}" for column in columns for axis, each in column.items()]
    rows = [[*outer, *(names or ["value"])]]
    places = itertools.product(*(table.axes[axis] for axis in outer))
    for place in itertools.islice(places, FIRST_ROWS if rest(table) else None):
        at = dict(zip(outer, place))
        rows.append([*map(_text, place), *[_cell(table, {**at, **each}) for each in columns]])
    return rows


def _columns(table: Table) -> list[dict[str, Coordinate]]:
    """Coordinates of the last axis, where these are few; else one column for all."""
    *outer, last = table.axes or ("",)
    if outer and len(table.axes[last]) <= MOST_COLUMNS:
        return [{last: coordinate} for coordinate in table.axes[last]]
    return [{}]


def _text(coordinate: Coordinate) -> str:
    return coordinate if isinstance(coordinate, str) else f"{coordinate:g}"


def _cell(table: Table, coordinates: dict[str, Coordinate]) -> str:
    quantity = table.at(**coordinates).quantity()
    null = quantity.null_text.replace("-", "−")
    return value_text(quantity) + (f" (null {null})" if null else "")


def to_html(table: Table) -> str:
    """The grid as HTML."""
    head, *rows = grid(table)
    more = f"<p>{rest(table)}</p>" if rest(table) else ""
    return (
        f"<table><thead><tr>{_cells('th', head)}</tr></thead><tbody>"
        + "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
        + f"</tbody></table>{more}"
    )


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def to_csv(table: Table) -> str:
    """One line for each number: its coordinates, the value, and what is known of it."""
    parts = {"value": table.values, **table.parts}
    # Numbers with the digits of their own type, not with those of a wider one.
    columns = [np.broadcast_to(part, table.values.shape).astype(str) for part in parts.values()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*table.axes, *parts])
    places = itertools.product(*table.axes.values())
    numbers = zip(*(column.ravel().tolist() for column in columns))
    writer.writerows([*place, *row] for place, row in zip(places, numbers))
    return text.getvalue()


def to_latex(table: Table) -> str:
    """The grid as LaTeX; needs the package booktabs."""
    return latex_table(grid(table))
