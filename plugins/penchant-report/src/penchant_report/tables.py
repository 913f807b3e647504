"""Arrays as CSV: one file per array, for spreadsheets.

Arrays of up to two axes and some thousand numbers; larger ones are in `arrays.npz` only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penchant.results.files import atomic

FOLDER = "tables"
MOST_NUMBERS = 20_000  # of an array that becomes a table


def write_tables(folder: Path, arrays: Mapping[str, Any]) -> None:
    """Write the arrays of a job that are small enough, each with its standard error beside it.

    Args:
        folder: The job's folder.
        arrays: Name to array.
    """
    target = folder / FOLDER
    for name, array in arrays.items():
        # An error stands in the table of what it is the error of.
        base = name.removesuffix("-stderr")
        if base != name and base in arrays:
            continue
        if not has_table(array.shape):
            continue

        errors = arrays.get(f"{name}-stderr")
        rows = _rows(name, _texts(array), _texts(errors))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(rows)
        content = text.getvalue()

        target.mkdir(exist_ok=True)
        path = target / f"{name}.csv"
        with atomic(path) as file:
            file.write(content.encode())


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
