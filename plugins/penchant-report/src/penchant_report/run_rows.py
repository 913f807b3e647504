"""A run as rows: one per job and quantity, and per step where every state was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from penchant.results.quantities import NUMBERS, Quantity
from penchant.results.result import Result
from penchant.results.runs import Run
from penchant.results.steps import BY_STEP, STEPS, array_name


def run_rows(run: Run, options: bool) -> list[dict[str, Any]]:
    """The rows of `Run.table`; with `options`, each has the options of its probe."""
    rows: list[dict[str, Any]] = []
    for job in run.ended:
        result = run.result(job["id"], arrays=False)
        given = result.options if options else {}
        columns = {f"option.{name}": value for name, value in given.items()}
        about = {"job": job["id"], **job["labels"]}
        if not is_by_step(result):
            rows += _rows(result.quantities, about, columns)
            continue
        for step, quantities in quantities_by_step(run.result(job["id"])):
            rows += _rows(quantities, {**about, "step": step}, columns)
    return rows


def _rows(
    quantities: Mapping[str, Quantity], about: dict[str, Any], options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """A row for every quantity: job and labels, numbers, options."""
    for name, quantity in quantities.items():
        difference = quantity.against_null
        yield {
            **about,
            "quantity": name,
            **attrs.asdict(quantity),
            "p": difference.p if difference else None,
            "z": difference.z if difference else None,
            **options,
        }


def is_by_step(result: Result) -> bool:
    """Was every state of a trajectory measured? Needs no arrays."""
    return "trajectory" in result.conventions


def quantities_by_step(result: Result) -> Iterator[tuple[int, dict[str, Quantity]]]:
    """The quantities of every state, in the order of the steps, from the arrays of a result."""
    names = [name.removesuffix(BY_STEP) for name in result.arrays if name.endswith(BY_STEP)]
    for number, step in enumerate(result.arrays[STEPS]):
        yield int(step), {name: _at(result, name, number) for name in names}


def _at(result: Result, name: str, number: int) -> Quantity:
    numbers: dict[str, Any] = {}
    for field in NUMBERS:
        column = result.arrays.get(array_name(name, field))
        value = math.nan if column is None else float(column[number])
        numbers[field] = value if field == "value" or math.isfinite(value) else None
    # What a number is over, and its unit, are the same at every state.
    last = result.quantities.get(name, Quantity(numbers["value"]))
    return attrs.evolve(last, **numbers)
