"""Results of probes, and their form in JSON."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

import attrs
from penchant.errors import Error
from penchant.extras import extra
from penchant.results.files import SCHEMA, check_name, host_array
from penchant.results.quantities import Quantity, distance
from penchant.results.records import Cost, ResultRecord
from penchant.results.tables import Table
from penchant.results.tables_on_disk import arrays_of, axes_of, entry_of, tables_from

_OWN = ("quantities", "quantities_sha256", "arrays", "conventions", "warnings", "missing", "axes")


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as numpy holds them, tensors included."""
    return {name: host_array(value) for name, value in values.items()}


def _names(values: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    return {axis: tuple(names) for axis, names in values.items()}


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@attrs.frozen(eq=False, repr=False)
class Result:
    """The result of a probe; the runner adds `record`: what was measured on what.

    Attributes:
        quantities: Name to number with error and null.
        arrays: Name to array; the standard error of array `x` is array `x-stderr`. Those of tables
            are among them.
        conventions: What makes numbers incomparable, as text.
        warnings: Reasons to doubt the numbers.
        missing: Quantities and arrays that may hold numbers that are not finite.
        tables: Name to numbers along named axes, with error and null.
        labels: Names of the entries along an axis: {"layers": ("conv1", "fc")}.
        record: Everything that says what was measured on what.
    """

    quantities: dict[str, Quantity] = attrs.field(factory=dict)
    arrays: dict[str, Any] = attrs.field(factory=dict, converter=_numbers)
    conventions: dict[str, str] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    missing: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    labels: dict[str, tuple[str, ...]] = attrs.field(factory=dict, converter=_names)
    record: ResultRecord = attrs.field(factory=ResultRecord)
    tables: dict[str, Table] = attrs.field(factory=dict, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, table in self.tables.items():
            if not isinstance(table, Table):
                raise Error(
                    f"table {name!r} must be a penchant.Table, found {type(table).__name__}"
                )
            self.arrays.update(arrays_of(name, table))

    def __repr__(self) -> str:
        title = self.record.get("id", self.status)
        lines = [f"Result {title}"]
        for name, quantity in self.quantities.items():
            z = distance(quantity, quantity.against_null)
            lines.append(f"  {name}: {quantity}  {z}".rstrip())
        lines += [f"  {name}: {table!r}" for name, table in self.tables.items()]
        # Of arrays only their shapes: a notebook has no room for a million numbers.
        tabled = {each for name, table in self.tables.items() for each in arrays_of(name, table)}
        plain = {name: array for name, array in self.arrays.items() if name not in tabled}
        shapes = [f"{name} {list(array.shape)}" for name, array in plain.items()]
        if shapes:
            lines.append(f"  arrays: {', '.join(shapes)}")
        return "\n".join([*lines, *[f"  warning: {text}" for text in self.warnings]])

    def _repr_html_(self) -> str:
        return str(extra("result as html")(self))

    @property
    def status(self) -> str:
        """Done or failed."""
        return str(self.record.get("status", "done"))

    @property
    def error(self) -> str | None:
        """Why it failed, in one sentence."""
        return self.record.get("error")

    @property
    def seed(self) -> int | None:
        """The seed of its random numbers."""
        return self.record.get("seed")

    @property
    def cost(self) -> Cost:
        """Seconds and the largest memory."""
        return self.record.get("cost", {})

    @property
    def options(self) -> dict[str, Any]:
        """The probe's options."""
        probe = self.record.get("probe")
        return dict(probe.get("options", {})) if probe else {}

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of one input, where the probe had inputs."""
        shape = self.record.get("shape")
        return None if shape is None else tuple(shape)

    @property
    def outputs(self) -> int | None:
        """How many outputs its networks had."""
        return self.record.get("outputs")

    @property
    def meanings(self) -> dict[str, str]:
        """What each quantity means, in one line."""
        return dict(self.record.get("meanings", {}))

    def figures(self) -> dict[str, Any]:
        """Its figures by name, in the order in which they are to be seen; drawn now."""
        return dict(extra("result as figures")(self))

    def figure(self, name: str, *, width: float | str | None = None, style: bool = True) -> Any:
        """One figure, as a `matplotlib.figure.Figure`; notebooks show it.

        >>> result.figure("spectrum", width="column").savefig("spectrum.pdf")  # doctest: +SKIP

        Args:
            name: Which figure.
            width: Inches, or "column" and "text" for one and two columns of a page.
            style: Draw in Penchant's style; False leaves your own `rcParams` as they are.

        Returns:
            The figure; change it as any other.
        """
        return extra("show figure")(self, name, width=width, style=style)

    def show(self) -> None:
        """Show quantities and figures in a notebook; elsewhere print the quantities."""
        extra("show result")(self)

    def to_xarray(self) -> Any:
        """Its arrays and quantities as an `xarray.Dataset`, where xarray is installed.

        Tables have their axes and coordinates. The axes of other arrays are not known, and are
        named after the array. Quantities have their errors and nulls as attributes.
        """
        return extra("result as xarray")(self)

    def _read_only(self) -> Result:
        """A copy for one reader: its arrays cannot be written to, its tables are its own."""
        return attrs.evolve(
            self,
            quantities=dict(self.quantities),
            arrays={name: _locked(array) for name, array in self.arrays.items()},
            conventions=dict(self.conventions),
            tables=dict(self.tables),
            record=copy.deepcopy(self.record),
        )

    def check(self) -> None:
        """Refuse what is not a number, unless the result names it in `missing`."""
        for name, quantity in self.quantities.items():
            _check_quantity(name, quantity, allowed=name in self.missing)
        for name, array in self.arrays.items():
            _check_array(name, array, allowed=name in self.missing)
        _check_texts("convention", self.conventions.items())
        _check_texts("warning", enumerate(self.warnings))
        for axis, names in self.labels.items():
            _check_texts(f"label of {axis}", enumerate(names))
        axes_of(self.tables)


def _locked(array: Any) -> Any:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _check_quantity(name: str, quantity: object, *, allowed: bool) -> None:
    check_name(name, "quantity")
    if not isinstance(quantity, Quantity):
        kind = type(quantity).__name__
        raise Error(f"quantity {name!r} must be a penchant.Quantity, found {kind}")
    for field, number in quantity.numbers.items():
        if not allowed and not math.isfinite(number):
            raise Error(f"quantity {name!r} has {field} {number}, expected a finite number")
    if mistake := quantity.mistake():
        raise Error(f"quantity {name!r} has {mistake}")


def _check_array(name: str, array: Any, *, allowed: bool) -> None:
    import numpy as np

    check_name(name, "array")
    if array.dtype.kind not in "biufcU":
        raise Error(f"array {name!r} must hold numbers or text, found {array.dtype}")
    # Whole numbers and text are always finite.
    if allowed or not np.issubdtype(array.dtype, np.inexact):
        return
    bad = int((~np.isfinite(array)).sum())
    if bad:
        raise Error(f"array {name!r} has {bad} of {array.size} values that are not finite")


def _check_texts(what: str, pairs: Iterable[tuple[Any, Any]]) -> None:
    for name, text in pairs:
        if not isinstance(text, str):
            raise Error(f"{what} {name!r} must be text, found {type(text).__name__}")


def _are_texts(names: Iterable[object]) -> bool:
    """Are the entries of an axis names, and not numbers?"""
    return all(isinstance(name, str) for name in names)


def _nullable(value: object) -> object:
    """In JSON a missing number is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(result: Result) -> dict[str, Any]:
    """The result as `result.json` holds it."""
    about = result.record.get("about", {})
    quantities = {
        name: {key: _nullable(value) for key, value in attrs.asdict(quantity).items()}
        for name, quantity in result.quantities.items()
    }
    # The numbers of arrays are in a file of their own.
    arrays = {
        name: {"shape": list(array.shape), "dtype": str(array.dtype), "about": about.get(name, "")}
        for name, array in result.arrays.items()
    }
    for name, table in result.tables.items():
        arrays[name] |= entry_of(table)
    axes = {**result.labels, **axes_of(result.tables)}
    record: dict[str, Any] = {"schema": SCHEMA, **result.record}
    # The description of an array is beside it, not also in the record.
    record.pop("about", None)
    return record | {
        "quantities": quantities,
        "quantities_sha256": digest(quantities),
        "arrays": arrays,
        "conventions": result.conventions,
        "warnings": list(result.warnings),
        "missing": list(result.missing),
        "axes": {axis: list(names) for axis, names in axes.items()},
    }


def digest(quantities: Mapping[str, Any]) -> str:
    """A checksum of the quantities of `result.json`."""
    return hashlib.sha256(json.dumps(quantities, sort_keys=True).encode()).hexdigest()


def from_json(record: Mapping[str, Any], arrays: Mapping[str, Any]) -> Result:
    """The result that `result.json` and its arrays hold; unknown keys are accepted."""
    names = {field.name for field in attrs.fields(Quantity)}
    quantities = {}
    for name, value in record.get("quantities", {}).items():
        known = {key: field for key, field in value.items() if key in names}
        # A missing number is null in JSON.
        if known.get("value") is None:
            known["value"] = math.nan
        quantities[name] = Quantity(**known)
    # All other keys are the record.
    rest = {key: value for key, value in record.items() if key not in _OWN}
    entries = record.get("arrays") or {}
    rest["about"] = {name: each.get("about", "") for name, each in entries.items()}
    axes = record.get("axes", {})
    return Result(
        quantities,
        dict(arrays),
        record.get("conventions", {}),
        warnings=record.get("warnings", ()),
        missing=record.get("missing", ()),
        labels={axis: names for axis, names in axes.items() if _are_texts(names)},
        record=cast("ResultRecord", rest),
        tables=tables_from(entries, axes, arrays),
    )
