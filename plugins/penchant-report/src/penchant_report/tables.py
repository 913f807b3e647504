"""Tables and arrays as CSV: one file each, for spreadsheets.

A table has a line for each number, with its coordinates; an array of up to two axes is written as
it is. What has more than some thousand numbers is in `arrays.npz` only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penchant.results.files import atomic
from penchant.results.result import Result
from penchant.results.tables_on_disk import arrays_of

from penchant_report.table_views import to_csv

FOLDER = "tables"
MOST_NUMBERS = 20_000  # of an array that becomes a table


def write_tables(folder: Path, result: Result) -> None:
    """Write the tables and arrays of a job that are small enough, each with its errors.

    Args:
        folder: The job's folder.
        result: Its result.
    """
    tables = result.tables
    texts = {
        name: to_csv(table)
        for name, table in tables.items()
        if 0 < table.values.size <= MOST_NUMBERS
    }
    own = {each for name, table in tables.items() for each in arrays_of(name, table)}
    arrays = {name: array for name, array in result.arrays.items() if name not in own}
    for name, array in arrays.items():
        # An error stands in the table of what it is the error of.
        base = name.removesuffix("-stderr")
        if has_table(array.shape) and (base == name or base not in arrays):
            texts[name] = _array_text(name, array, arrays.get(f"{name}-stderr"))
    for name, text in texts.items():
        target = folder / FOLDER
        target.mkdir(exist_ok=True)
        with atomic(target / f"{name}.csv") as file:
            file.write(text.encode())


def _array_text(name: str, array: Any, errors: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_rows(name, _texts(array), _texts(errors)))
    return text.getvalue()


def has_table(shape: Any) -> bool:
    """Is an array of this shape written as CSV?"""
    count = 1
    for length in shape:
        count *= length
    return len(shape) <= 2 and 0 < count <= MOST_NUMBERS


def _texts(array: Any) -> Any:
    """Numbers with the digits of their own type, not with those of a wider one."""
    if array is None:
        return None
    return array.astype(str)


def _rows(name: str, array: Any, errors: Any) -> Iterator[list[Any]]:
    """A heading, then one row per index; a matrix as it is, errors in columns after its own."""
    beside = errors is not None and errors.shape == array.shape
    # A number or a list: one column, and one for its errors.
    if array.ndim < 2:
        yield ["index", name, "stderr"] if beside else ["index", name]
        array = array.reshape(-1, 1)
        errors = errors.reshape(-1, 1) if beside else None
    else:
        columns = range(array.shape[1])
        heading: list[Any] = ["index", *columns]
        if beside:
            heading += [f"stderr {column}" for column in columns]
        yield heading
    for index, row in enumerate(array.tolist()):
        rest = errors[index].tolist() if beside else []
        yield [index, *row, *rest]
