"""A table as people read it: values with errors in a grid, as HTML, CSV and LaTeX."""

from __future__ import annotations

import csv
import html
import io
import itertools
from collections.abc import Sequence

from penchant.results.tables import Coordinate, Table

from penchant_report.text_tables import latex_table
from penchant_report.wording import value_text

MOST_CELLS = 200  # of a table that is shown
MOST_COLUMNS = 12  # of coordinates of the last axis; more stand below each other


def is_shown(table: Table) -> bool:
    """Is it small enough to be read?"""
    return 0 < table.values.size <= MOST_CELLS


def grid(table: Table) -> list[list[str]]:
    """A heading, and rows of coordinates and numbers.

    Coordinates of the last axis stand beside each other where they are few.

    >>> table = Table([[1.0, 2.0]], {"frequency": (0.5,), "step": (0, 10)}, stderr=[[0.1, 0.2]])
    >>> grid(table)
    [['frequency', 'step 0', 'step 10'], ['0.5', '1.00 ± 0.10', '2.00 ± 0.20']]
    """
    *outer, last = table.axes or ("",)
    columns: list[dict[str, Coordinate]] = [{}]
    beside = bool(outer) and len(table.axes[last]) <= MOST_COLUMNS
    if not beside:
        outer = list(table.axes)
        heading = [*outer, "value"]
    else:
        columns = [{last: coordinate} for coordinate in table.axes[last]]
        heading = [*outer, *[f"{last} {_text(coordinate)}" for coordinate in table.axes[last]]]
    rows = [heading]
    for place in itertools.product(*(table.axes[axis] for axis in outer)):
        at = dict(zip(outer, place))
        rows.append([*map(_text, place), *[_cell(table, {**at, **each}) for each in columns]])
    return rows


def _text(coordinate: Coordinate) -> str:
    return coordinate if isinstance(coordinate, str) else f"{coordinate:g}"


def _cell(table: Table, coordinates: dict[str, Coordinate]) -> str:
    quantity = table.at(**coordinates).quantity()
    null = quantity.null_text.replace("-", "−")
    return value_text(quantity) + (f" (null {null})" if null else "")


def to_html(table: Table) -> str:
    """The grid as HTML; of a large table only what it is."""
    if not is_shown(table):
        return f"<p>{html.escape(repr(table))}</p>"
    head, *rows = grid(table)
    return (
        f"<table><thead><tr>{_cells('th', head)}</tr></thead><tbody>"
        + "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
        + "</tbody></table>"
    )


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def to_csv(table: Table) -> str:
    """One line for each number: its coordinates, the value, and what is known of it."""
    rows = table.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def to_latex(table: Table) -> str:
    """The grid as LaTeX; needs the package booktabs."""
    return latex_table(grid(table))
