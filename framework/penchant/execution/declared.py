"""What a result has against what its probe declares: mistakes of an author, said while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penchant.components.names import filled
from penchant.errors import did_you_mean
from penchant.experiments.jobs import BoundProbe
from penchant.results.quantities import Quantity
from penchant.results.result import Result

STDERR = "-stderr"  # the standard error of array `x` is array `x-stderr`
BY_STEP = "-by-step"  # what the kernel makes of a quantity along a trajectory


def mistakes(probe: BoundProbe, result: Result) -> Iterator[str]:
    """Quantities and arrays that are not declared, or declared and missing; errors forgotten.

    Args:
        probe: The probe with its options and estimators.
        result: What it returned.

    Yields:
        A sentence for each.
    """
    cls, options = type(probe.component), probe.component.options()
    roles = probe.estimator_labels
    yield from _names("quantity", filled(cls.quantities, options, roles), result.quantities)
    found = [name for name in result.arrays if BY_STEP not in name and name != "steps"]
    yield from _names("array", filled(cls.arrays, options, roles), found)
    yield from _without_error(result.quantities)


def _names(what: str, declared: Mapping[str, str], found: Iterable[str]) -> Iterator[str]:
    if not declared:
        return
    for name in found:
        if name not in declared and name.removesuffix(STDERR) not in declared:
            yield f"{what} {name!r} is not declared{did_you_mean(name, declared)}"


def _without_error(quantities: Mapping[str, Quantity]) -> Iterator[str]:
    for name, quantity in quantities.items():
        if quantity.stderr is None and not quantity.exact and not quantity.missing:
            yield f"quantity {name!r} has neither a standard error nor exact=True"
