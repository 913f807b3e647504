"""`penchant.probe`: a probe from a function, for scripts and tutorials.

The function's name is the probe's name, its docstring the help text, and its keyword parameters
are the options. Plugins declare a class instead, which costs nothing to import.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
from penchant.components.component import Probe
from penchant.components.names import name_and_axes
from penchant.components.options import option
from penchant.errors import Error

if TYPE_CHECKING:
    from penchant.execution.job.context import Context
    from penchant.results.quantities import Quantity
    from penchant.results.result import Result
    from penchant.results.tables import Table

    Measurement = Callable[..., Result | Quantity | Table | Mapping[str, Quantity | Table]]


def probe(
    bare: object = None,
    /,
    *,
    quantities: Mapping[str, str] | None = None,
    needs: str | tuple[str, ...] = (),
    tables: Mapping[str, str] | None = None,
    arrays: Mapping[str, str] | None = None,
    figures: Callable[[Result], Mapping[str, Any]] | str = "",
) -> Callable[[Measurement], type[Probe]]:
    """Make a probe of a function `f(context, networks: int = 16)`.

    Args:
        bare: The function, where the decorator has no arguments: refused with what they are.
        quantities: Name of each number it gives to one line about it.
        needs: What it cannot do without: "architecture", "dataset", or both.
        tables: The same for numbers along axes: {"size[layer]": "norm of its weights"}.
        arrays: The same for other arrays.
        figures: Function that draws figures from a result, or its target.

    Returns:
        A decorator. The function returns a `Result`, a dict of quantities and tables, or the
        quantity or table itself where there is only one.

    >>> @probe(needs="architecture", quantities={"size": "norm of the output on zeros"})
    ... def output_size(context, networks: int = 16):
    ...     ...
    >>> output_size.name, output_size().networks
    ('output-size', 16)
    """
    if bare is not None or (quantities is None and tables is None):
        name = getattr(bare, "__name__", "size").replace("_", "-")
        raise Error(
            "penchant.probe says what is measured and what it takes, such as "
            f'@penchant.probe(needs="architecture", quantities={{"{name}": "what it is"}}), '
            f"found {'no arguments' if callable(bare) else 'no quantities and no tables'}"
        )

    numbers = dict(quantities or {})
    along_axes = dict(tables or {})

    def decorate(function: Measurement) -> type[Probe]:
        name = function.__name__.replace("_", "-")
        # Without a docstring the help text says what it measures.
        text = inspect.getdoc(function) or "; ".join([*numbers.values(), *along_axes.values()])
        parameters = _parameters(function, name)
        namespace: dict[str, Any] = {
            "__doc__": text,
            "__module__": function.__module__,
            "__annotations__": {each.name: each.annotation for each in parameters},
            "name": name,
            "needs": (needs,) if isinstance(needs, str) else tuple(needs),
            "quantities": numbers,
            "tables": along_axes,
            "arrays": dict(arrays or {}),
            "figures": figures,
            "target": staticmethod(_target(function, name, numbers, along_axes)),
        }
        for each in parameters:
            namespace[each.name] = option(each.default, _help(text, each.name))
        return attrs.frozen(type(function.__name__, (Probe,), namespace))

    return decorate


def _parameters(function: Measurement, name: str) -> list[inspect.Parameter]:
    """The options among the parameters: those behind the context, each with type and default."""
    _, *options = inspect.signature(function, eval_str=True).parameters.values()
    for parameter in options:
        if parameter.annotation is inspect.Parameter.empty:
            expected = f"expected a type such as `{parameter.name}: int = 16`"
            raise Error(f"option {parameter.name!r} of probe {name!r} has no type, {expected}")
        if parameter.default is inspect.Parameter.empty:
            raise Error(f"option {parameter.name!r} of probe {name!r} has no default value")
    return options


def _help(doc: str, name: str) -> str:
    """What the section `Args:` of a docstring says of a parameter, else its name."""
    described = re.search(rf"^\s+{name}: (.+)$", doc, re.MULTILINE)
    return described[1] if described else name.replace("_", " ")


def _target(
    function: Measurement, name: str, quantities: Mapping[str, str], tables: Mapping[str, str]
) -> Callable[[Probe, Context], Result]:
    """The function as the kernel calls it."""

    def run(options: Probe, context: Context) -> Result:
        from penchant.results.quantities import Quantity
        from penchant.results.result import Result
        from penchant.results.tables import Table

        measured = function(context, **options.options())
        if isinstance(measured, Result):
            return measured
        if isinstance(measured, Quantity) and len(quantities) == 1:
            measured = dict.fromkeys(quantities, measured)
        if isinstance(measured, Table) and len(tables) == 1:
            measured = {name_and_axes(each)[0]: measured for each in tables}
        if isinstance(measured, Mapping):
            own = {key: each for key, each in measured.items() if isinstance(each, Table)}
            others: Any = {key: each for key, each in measured.items() if key not in own}
            return Result(others, tables=own)
        expected = "a Result, a dict of quantities and tables, or the only quantity or table"
        raise Error(f"probe {name!r} must return {expected}, found {type(measured).__name__}")

    run.wrapped = function  # type: ignore[attr-defined]  # errors name its lines
    return run
