"""Options: the fields of a component, with help text, bounds, choices and strict types.

Nothing is coerced: an int option refuses 3.7 and true, a text option refuses a number. Lists become
tuples, and ints become floats in a float option.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs
from penchant.errors import Error, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "at_least": operator.ge,
    "at_most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
}


@attrs.frozen
class Limits:
    """The bounds and choices of an option: they check values and describe themselves."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[Any, ...] | None = None

    def check(self, name: str, value: object) -> None:
        """Refuse a value that is out of bounds or not among the choices."""
        if value is None:
            return
        if self.choices is not None and value not in self.choices:
            names = list(map(str, self.choices))
            hint = did_you_mean(value, names) if isinstance(value, str) else ""
            raise Error(f"{name} must be one of {', '.join(names)}, found {value!r}{hint}")
        for bound, limit in self._bounds():
            if not _BOUNDS[bound](value, limit):
                raise Error(f"{name} must be {bound.replace('_', ' ')} {limit}, found {value}")

    def describe(self) -> list[str]:
        """The limits in words, for help texts."""
        texts = [f"{bound.replace('_', ' ')} {limit}" for bound, limit in self._bounds()]
        return [*texts, " | ".join(map(str, self.choices))] if self.choices else texts

    def _bounds(self) -> list[tuple[str, float]]:
        """The bounds that are set."""
        limits = [(bound, getattr(self, bound)) for bound in _BOUNDS]
        return [(bound, limit) for bound, limit in limits if limit is not None]


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
    arrays: bool = False,
    target: bool = False,
) -> Any:
    """An option of a component.

    Args:
        default: Its default value; without one, the option is required.
        help: Its meaning in one line.
        at_least: Smallest value.
        at_most: Largest value.
        above: Every value is larger than this.
        below: Every value is smaller than this.
        choices: The allowed values.
        array: The value is an array, a file `something.npy`, or `run:FOLDER#array`; the component's
            code is always handed the array.
        arrays: The value is a dict of such arrays by name, a file `something.npz`, or one array,
            whose name is that of the option; the component's code is handed the dict.
        target: The value is `package.module:name`, or in Python the object itself.

    Returns:
        A field for the attrs class of the component.
    """
    limits = Limits(at_least, at_most, above, below, choices)
    metadata = {"help": help, "array": array, "arrays": arrays, "target": target, "limits": limits}
    return attrs.field(default=default, kw_only=True, metadata=metadata, converter=_CONVERTER)


def _converted(value: Any, instance: Any, field: Any) -> Any:
    try:
        return conform(type(instance), field, value)
    except Error as error:
        # For `bind`, which adds the location in the experiment.
        error.option = field.name
        raise


# One for all options: attrs reads the signature of every converter it is given.
_CONVERTER = attrs.Converter(_converted, takes_self=True, takes_field=True)


@functools.cache
def hints(cls: type) -> dict[str, Any]:
    """The types of a component's options."""
    return typing.get_type_hints(cls)


def conform(cls: type, field: Any, value: Any) -> Any:
    """The value as the option holds it, or an Error that says what is allowed."""
    metadata = field.metadata
    if metadata["target"]:
        return value
    if metadata["array"]:
        return _as_array(value, field.name)
    if metadata["arrays"]:
        return _as_arrays(value, field.name)
    hint = hints(cls)[field.name]
    try:
        value = _typed(value, hint)
    except (TypeError, OverflowError):
        given = f"found {_shown(value)} ({type(value).__name__})"
        raise Error(f"{field.name} must be {describe_type(hint)}, {given}") from None
    # Every entry of a list must be within the limits.
    for entry in value if isinstance(value, tuple) else (value,):
        metadata["limits"].check(field.name, entry)
    return value


def _shown(value: object) -> str:
    """A value in a message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits has no text
        return "a huge number"
    return text[:200] + "..." if len(text) > 200 else text


def _as_array(value: object, name: str) -> NDArray[np.float64] | str | None:
    if value is None or isinstance(value, str):
        return value
    import numpy as np

    if hasattr(value, "detach"):
        value = _of_tensor(value)
    # numpy would drop the imaginary part with no more than a warning.
    if np.iscomplexobj(cast("ArrayLike", value)):
        raise Error(f"{name} must hold real numbers, found complex ones")
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise Error(f"{name} must be an array, a file or run:FOLDER#array, found {kind}") from None
    bad = int((~np.isfinite(array)).sum())
    if bad:
        raise Error(f"{name} must be finite, found {bad} values that are not")
    return array


def _of_tensor(tensor: Any) -> Any:
    """A tensor on the host, which numpy itself converts with a warning."""
    on_host = tensor.detach().cpu()
    return (on_host if on_host.is_complex() else on_host.double()).numpy()


def _as_arrays(value: object, name: str) -> dict[str, Any] | str | None:
    """Arrays by name, each an array or the text that names one."""
    if value is None or isinstance(value, str):
        return value
    named = value if isinstance(value, Mapping) else {name: value}
    if not named:
        raise Error(f"{name} must have an array, found none")
    arrays: dict[str, Any] = {}
    for key, each in named.items():
        if not isinstance(key, str) or not key:
            raise Error(f"the names of {name} must be text, found {key!r}")
        if each is None:
            raise Error(f"{name}.{key} must be an array, found none")
        arrays[key] = _as_array(each, f"{name}.{key}")
    return arrays


def _typed(value: Any, hint: Any) -> Any:
    """The value in the type of the hint; a TypeError where it is of another."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        # One of several types, such as a number or a list of numbers.
        for each in arguments:
            with contextlib.suppress(TypeError):
                return _typed(value, each)
        raise TypeError
    if origin is tuple:
        return _typed_tuple(value, arguments)
    # In Python True is an int, but it does not mean 1 here.
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is float and is_number and math.isfinite(number := float(value)):
        return number
    # numpy's integers are whole numbers, too.
    if hint is int and not isinstance(value, (bool, float, str)):
        return operator.index(value)
    if hint in (bool, str) and type(value) is hint:
        return value
    raise TypeError


def _typed_tuple(value: object, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    if _is_any_length(arguments):
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise TypeError
    return tuple(_typed(entry, hint) for entry, hint in zip(value, arguments))


def _is_any_length(arguments: tuple[Any, ...]) -> bool:
    """Are these the arguments of tuple[int, ...]?"""
    return len(arguments) == 2 and arguments[1] is Ellipsis


def describe_type(hint: Any) -> str:
    """A type in words: "a whole number", "a list, each a number", "text or none"."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = [describe_type(each) for each in arguments if each is not type(None)]
        return " or ".join([*inner, "none"])
    if origin is tuple:
        each = describe_type(arguments[0])
        if _is_any_length(arguments):
            return f"a list, each {each}"
        return f"a list of {len(arguments)}, each {each}"
    return _NAMES.get(hint, "an object")
