"""Numbers with names on their axes: for pandas and xarray, where these are installed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from penchant.errors import Error, suggestion
from penchant.results.steps import BY_STEP, STEPS
from penchant.results.tables_on_disk import arrays_of

from penchant_report.run_rows import is_by_step

_AXES = ("architecture", "dataset", "seed", "step")
_PARTS = ("stderr", "null", "null_spread")


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a `pandas.DataFrame`."""
    try:
        import pandas
    except ImportError:
        hint = "pip install pandas; .table() gives the same rows without it"
        raise Error(f"pandas is not installed: {hint}") from None
    return pandas.DataFrame(list(rows))


def _xarray() -> Any:
    try:
        import xarray
    except ImportError:
        hint = "pip install xarray; .arrays and .quantities hold the same numbers"
        raise Error(f"xarray is not installed: {hint}") from None
    return xarray


def result_dataset(result: Any) -> Any:
    """Arrays and quantities of a result as an `xarray.Dataset`."""
    xarray = _xarray()
    variables: dict[str, Any] = {}
    abouts = result.record.get("about", {})
    stored = _stored_axes(result)
    for name, array in result.arrays.items():
        # An error has the axes of what it is the error of.
        base = name.removesuffix("-stderr")
        owner = base if base in result.arrays else name
        axes = stored.get(name) or [f"{owner}-{number}" for number in range(array.ndim)]
        if _is_along_steps(name, result):
            axes = ["step"]
        variables[name] = (axes, array, {"about": abouts.get(name, "")})
    # Quantities are numbers without axes.
    meanings = result.meanings
    for name, quantity in result.quantities.items():
        known = attrs.asdict(quantity)
        value = known.pop("value")
        facts = {key: part for key, part in known.items() if part not in (None, "")}
        facts["about"] = meanings.get(name, "")
        # An array of the same name keeps it.
        key = name if name not in variables else f"quantity {name}"
        variables[key] = ((), value, facts)
    coordinates: dict[str, Any] = {}
    for table in result.tables.values():
        coordinates |= {axis: list(entries) for axis, entries in table.axes.items()}
    if is_by_step(result) and STEPS in variables and "step" not in coordinates:
        coordinates["step"] = variables.pop(STEPS)[1]
    title = result.record.get("id", "")
    return xarray.Dataset(variables, coordinates, {"id": title})


def _stored_axes(result: Any) -> dict[str, list[str]]:
    """The axes of every array of a table; those of other arrays are not known."""
    return {
        array: list(table.axes)
        for name, table in result.tables.items()
        for array in arrays_of(name, table)
    }


def long_data_frame(run: Any) -> Any:
    """One row for each number of the tables of all results, as a `pandas.DataFrame`."""
    rows = []
    for result in run.results():
        labels = result.record.get("labels", {})
        for name, table in result.tables.items():
            rows += [{**labels, "table": name, **row} for row in table.rows()]
    return data_frame(rows)


def _is_along_steps(name: str, result: Any) -> bool:
    """Is it a quantity along the steps of a trajectory, or these steps?"""
    if not is_by_step(result):
        return False
    base, separator, _ = name.rpartition(BY_STEP)
    return name == STEPS or bool(separator and base)


def run_dataset(rows: Sequence[Mapping[str, Any]], probe: str | None) -> Any:
    """Quantities of a probe as an `xarray.Dataset` over architecture, dataset and seed.

    Args:
        rows: The rows of a run's table.
        probe: The probe's label; None where there is only one.

    Returns:
        The dataset; cells that no job filled are not a number.
    """
    xarray = _xarray()
    probes = list(dict.fromkeys(row["probe"] for row in rows))
    if probe is None and len(probes) == 1:
        probe = probes[0]
    if probe not in probes:
        guess = suggestion(str(probe), probes)
        raise Error(f"expected the label of a probe, found {probe!r}{guess}")
    chosen = [row for row in rows if row["probe"] == probe]
    # Only axes that the probe has.
    coordinates = {}
    for axis in _AXES:
        labels = [row[axis] for row in chosen if axis in row]
        if labels:
            coordinates[axis] = list(dict.fromkeys(labels))
    # Steps of several trajectories in one order; a job without any has none of them.
    if "step" in coordinates:
        coordinates["step"] = sorted(coordinates["step"])
        chosen = [row for row in chosen if "step" in row]
    by_quantity: dict[str, list[Mapping[str, Any]]] = {}
    for row in chosen:
        own = by_quantity.setdefault(row["quantity"], [])
        own.append(row)
    # An array a quantity, and one more for each of its numbers that a job has.
    variables = {}
    for name, own in by_quantity.items():
        variables[name] = _filled(own, coordinates, "value")
        for part in _PARTS:
            if any(row[part] is not None for row in own):
                suffix = part.replace("_", "-")
                variables[f"{name}-{suffix}"] = _filled(own, coordinates, part)
    return xarray.Dataset(variables, coordinates, {"probe": probe})


def _filled(
    rows: Sequence[Mapping[str, Any]], coordinates: Mapping[str, Sequence[Any]], part: str
) -> tuple[list[str], Any]:
    """Axes and the array of one number of a quantity."""
    import numpy as np

    # Not a number wherever no job fills it.
    shape = [len(labels) for labels in coordinates.values()]
    array = np.full(shape, math.nan)
    for row in rows:
        number = row[part]
        position = [labels.index(row[axis]) for axis, labels in coordinates.items()]
        if number is not None:
            array[tuple(position)] = number
    return list(coordinates), array
