"""Components: the declarations a plugin hands over.

A component is a frozen attrs class whose fields, made with `option()`, are its options. It costs nothing to import: its
code is named by a target string, loaded when it is needed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs
from penchant.errors import Error, suggestion

RESERVED = frozenset(
    (
        "name",
        "label",
        "preset",
        "estimators",
        "training",
        "weights",
        "architecture",
        "architectures",
        "dataset",
        "datasets",
        "seed",
        "seeds",
    )
    + (
        "seed",
        "seeds",
        "device",
        "dtype",
        "shape",
        "outputs",
        "threads",
        "executor",
        "workers",
        "out",
    )
)
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def option(
    default: Any = attrs.NOTHING,
    help: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[Any, ...] | None = None,
    array: bool = False,
    target: bool = False,
) -> Any:
    """An option of a component: its default (none: it must be given), help text, bounds and choices.

    With `array`, the value is an array, a file `something.npy`, or `run:FOLDER#array`; the component's code is always
    handed the array. With `target`, it is `package.module:name` or the object itself.
    """
    limits = {
        "at_least": at_least,
        "at_most": at_most,
        "above": above,
        "below": below,
        "choices": choices,
    }
    metadata = {"help": help, "array": array, "target": target, **limits}
    convert = attrs.Converter(_converted, takes_self=True, takes_field=True)  # type: ignore[misc,call-overload]
    return attrs.field(default=default, kw_only=True, metadata=metadata, converter=convert)


def _converted(value: Any, instance: Any, field: Any) -> Any:
    return conform(type(instance), field, value)


@functools.cache
def hints(cls: Any) -> dict[str, Any]:
    """The types of a component's options. Each class of the line is read once: typing.get_type_hints reads them all every time."""
    inherited = {
        name: hint for base in reversed(cls.__bases__) for name, hint in hints(base).items()
    }
    return {**inherited, **inspect.get_annotations(cls, eval_str=True)}


def conform(cls: type, field: Any, value: Any) -> Any:
    """The value as the option holds it (lists become tuples), or an Error that says what is allowed."""
    metadata = field.metadata
    if metadata["target"]:
        return value
    if metadata["array"]:
        return _as_array(value, field.name)
    hint = hints(cls)[field.name]
    try:
        value = _typed(value, hint)
    except TypeError:
        found = f"found {value!r} ({type(value).__name__})"
        raise Error(f"{field.name} must be {describe_type(hint)}, {found}") from None
    for part in value if isinstance(value, tuple) else (value,):
        _check_bounds(field.name, part, metadata)
    return value


def _as_array(value: Any, name: str) -> Any:
    if value is None or isinstance(value, str):
        return value
    import numpy as np

    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise Error(
            f"{name} must be an array, a file or run:FOLDER#array, found {type(value).__name__}"
        ) from None
    if not np.isfinite(array).all():
        raise Error(
            f"{name} must be finite, found {int((~np.isfinite(array)).sum())} values that are not"
        )
    return array


def _typed(value: Any, hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        (hint,) = (each for each in arguments if each is not type(None))
        return _typed(value, hint)
    if origin is tuple:
        return _typed_tuple(value, arguments)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
    elif hint is int and not isinstance(value, (bool, float, str)):
        return operator.index(value)
    elif hint in (bool, str) and type(value) is hint:
        return value
    raise TypeError


def _typed_tuple(value: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise TypeError
    return tuple(_typed(part, each) for part, each in zip(value, arguments))


def _check_bounds(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    if value is None:
        return
    if limits["choices"] is not None and value not in limits["choices"]:
        allowed = ", ".join(map(str, limits["choices"]))
        close = suggestion(value, limits["choices"]) if isinstance(value, str) else ""
        raise Error(
            f"{name} must be one of {allowed}, found {value!r}{close if 'mean' in close else ''}"
        )
    for key, holds in (
        ("at_least", operator.ge),
        ("at_most", operator.le),
        ("above", operator.gt),
        ("below", operator.lt),
    ):
        if limits[key] is not None and not holds(value, limits[key]):
            raise Error(f"{name} must be {key.replace('_', ' ')} {limits[key]}, found {value}")


def describe_type(hint: Any) -> str:
    """A type in words: "a whole number", "a list of numbers", "text or nothing"."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = " or ".join(describe_type(each) for each in arguments if each is not type(None))
        return f"{inner} or nothing"
    if typing.get_origin(hint) is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return f"a list, each {describe_type(arguments[0])}"
        return f"a list of {len(arguments)}, each {describe_type(arguments[0])}"
    return _NAMES.get(hint, "an object")


@attrs.frozen
class Component:
    """What all components have: a name, a target and options."""

    kind: ClassVar[str] = ""
    name: ClassVar[str] = ""
    target: ClassVar[Any] = ""
    parameters: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def bind(cls, values: Mapping[str, Any], where: str = "") -> Any:
        """The component with these options; every mistake names the key, what was found and what is allowed."""
        fields = {field.name: field for field in attrs.fields(cls)}
        suffix = f" ({where}.{{}})" if where else ""
        for key, value in values.items():
            place = suffix.format(key)
            if key not in fields:
                raise Error(f"{cls.name} has no option {key!r}{suggestion(key, fields)}{place}")
            try:
                conform(cls, fields[key], value)
            except Error as error:
                raise Error(f"{error}{place}") from None
        for key, field in fields.items():
            if field.default is attrs.NOTHING and key not in values:
                raise Error(
                    f"{cls.name} needs the option {key!r}: {field.metadata['help']}{suffix.format(key)}"
                )
        try:
            return cls(**values)
        except Error as error:  # a rule between options, in __attrs_post_init__
            raise Error(f"{error} ({where})" if where else str(error)) from None

    def options(self) -> dict[str, Any]:
        """The options as they are, by name."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}


class Architecture(Component):
    """A distribution of networks. Target: `build(options, shape, outputs) -> torch.nn.Module`."""

    kind = "architecture"
    parameters = ("options", "shape", "outputs")


class Dataset(Component):
    """Train and test samples. Target: `load(options, generator) -> Data(train, test, classes)`."""

    kind = "dataset"
    parameters = ("options", "generator")


class Estimator(Component):
    """A numerical method for one role. Target: called as the role's function says."""

    kind = "estimator"
    role: ClassVar[Any] = ""


class Probe(Component):
    """A measurement. Target: `run(options, context) -> Result`; `plot(result) -> {name: Figure}` may stand beside it.

    `needs` and `accepts` name axes: "architecture", "dataset"; `needs` may also name "training". A probe that sees both
    an architecture and a dataset has a training anyway. `roles` maps a role to its default estimator (a name, or a tuple
    of names where the probe takes several); `uses` names datasets the probe calls by itself.
    """

    kind = "probe"
    parameters = ("options", "context")
    needs: ClassVar[tuple[str, ...]] = ()
    accepts: ClassVar[tuple[str, ...]] = ()
    roles: ClassVar[Mapping[str, Any]] = {}
    uses: ClassVar[tuple[str, ...]] = ()
    quantities: ClassVar[Mapping[str, str]] = {}
    arrays: ClassVar[Mapping[str, str]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def trains(cls) -> bool:
        """Does a job of this probe have a training?"""
        axes = {*cls.needs, *cls.accepts}
        return "training" in axes or axes >= {"architecture", "dataset"}


class Executor(Component):
    """A way to run shards. Target: `start(options, workers, threads) -> pool` (see `penchant.execution`)."""

    kind = "executor"
    parameters = ("options", "workers", "threads")


def resolve(target: Any, what: str) -> Callable[..., Any]:
    """The function behind a target: `package.module:function`, or the function itself."""
    if inspect.ismethod(target) and isinstance(target.__self__, Component):
        target = target.__func__  # a function as a class attribute, reached through an instance
    if callable(target):
        return typing.cast("Callable[..., Any]", target)
    module, _, name = str(target).partition(":")
    if not re.fullmatch(r"[\w.]+:[\w.]+", str(target)):
        raise Error(f"the target of {what} must be 'package.module:function', found {target!r}")
    try:
        found: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise Error(f"the target {target!r} of {what} cannot be loaded: {error}") from error
    if not callable(found):
        raise Error(
            f"the target {target!r} of {what} must be callable, found {type(found).__name__}"
        )
    return typing.cast("Callable[..., Any]", found)


def check_parameters(function: Callable[..., Any], expected: tuple[str, ...], what: str) -> None:
    """Refuse a target that cannot be called with these parameters."""
    found = tuple(inspect.signature(function).parameters)
    if found[: len(expected)] != expected:
        raise Error(
            f"the target of {what} must take ({', '.join(expected)}), found ({', '.join(found)})"
        )
