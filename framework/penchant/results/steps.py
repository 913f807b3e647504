"""Quantities along the steps of a trajectory, as arrays of a result.

A quantity `x` that was measured at every state is the array `x-by-step`, with its standard error
`x-by-step-stderr` and its null `x-by-step-null` beside it; `steps` holds the steps.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from penchant.errors import Error
from penchant.results.quantities import NUMBERS
from penchant.results.result import Result

STEPS = "steps"
BY_STEP = "-by-step"


def stacked(results: Sequence[Result], steps: Sequence[int]) -> Result:
    """The result of the last state of a trajectory, with every quantity along the steps."""
    import numpy as np

    last = results[-1]
    if STEPS in last.arrays:
        raise Error(f"a probe with an array {STEPS!r} of its own must follow a trajectory itself")
    # A quantity may be missing at some states.
    names = dict.fromkeys(name for result in results for name in result.quantities)
    arrays: dict[str, Any] = {STEPS: np.array(steps)}
    for name in names:
        quantities = [result.quantities.get(name) for result in results]
        for field in NUMBERS:
            values = [getattr(quantity, field, None) for quantity in quantities]
            column = np.array([math.nan if value is None else value for value in values], float)
            # A quantity that never has an error has no array of errors.
            if field == "value" or np.isfinite(column).any():
                arrays[array_name(name, field)] = column
    gaps = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    convention = (
        f"{len(steps)} states, steps {steps[0]} to {steps[-1]}; quantities and other arrays are of "
        f"step {steps[-1]}"
    )
    warnings = dict.fromkeys(text for result in results for text in result.warnings)
    return attrs.evolve(
        last,
        arrays={**last.arrays, **arrays},
        missing=(*last.missing, *gaps),
        conventions={**last.conventions, "trajectory": convention},
        warnings=tuple(warnings),
    )


def array_name(name: str, field: str) -> str:
    """The name of the array that holds a number of a quantity at every state."""
    ending = "" if field == "value" else f"-{field.replace('_', '-')}"
    return f"{name}{BY_STEP}{ending}"


def about_steps(meanings: Mapping[str, str]) -> dict[str, str]:
    """What the arrays along the steps are about, from what their quantities mean."""
    about = {STEPS: "steps of the trajectory"}
    for name, meaning in meanings.items():
        about[array_name(name, "value")] = f"{meaning}; at every step"
    return about
