"""Reads pickles that hold numpy arrays and plain containers, and nothing else.

A pickle names functions and calls them, so that a harmful one can do anything. Here the few names
that arrays need stand for the small classes below; every other name is refused before anything is
called.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import penchant

ADMITTED = "expected only numpy arrays and plain containers"


def read_arrays(path: Path) -> dict[str, Any]:
    """The dictionary that a pickle holds, its arrays as `numpy.ndarray` and its keys as text."""
    loaded = _load(path)
    if not isinstance(loaded, dict):
        kind = type(loaded).__name__
        raise penchant.Error(f"{path}: found {kind}, expected a dictionary of arrays")
    # Python 2 wrote bytes where Python 3 has text.
    arrays = {}
    for key, value in loaded.items():
        if isinstance(value, _Array):
            value = value.values
        arrays[_text(key)] = value
    return arrays


def _load(path: Path) -> Any:
    with path.open("rb") as stream:
        try:
            return _Unpickler(stream, encoding="latin1").load()
        except penchant.Error as error:
            raise penchant.Error(f"{path}: {error}") from None
        except Exception as error:  # damaged pickles raise nearly anything
            raise penchant.Error(
                f"{path}: found no complete pickle ({error}), expected a dictionary of arrays"
            ) from error


class _Unpickler(pickle._Unpickler):
    """Knows the names of `_ADMITTED` only, and sets the state of arrays and their types only.

    Of Python's two unpicklers the one whose steps can be replaced.
    """

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise penchant.Error(f"found {module}.{name} in the pickle, {ADMITTED}") from None

    def _set_state(self: Any) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, (_Type, _Array)):
            kind = type(target).__name__
            raise penchant.Error(f"found a pickle that sets attributes of a {kind}, {ADMITTED}")
        target.__setstate__(state)

    dispatch: ClassVar[dict[int, Any]] = {**pickle._Unpickler.dispatch, pickle.BUILD[0]: _set_state}

    def persistent_load(self, pid: Any) -> Any:
        raise penchant.Error(f"found a reference to something outside the pickle, {ADMITTED}")


class _Type:
    """Stands for numpy.dtype: numbers only."""

    def __init__(self, code: str | bytes, *_: Any) -> None:
        self.dtype = np.dtype(_text(code))
        # Booleans, whole numbers and floats; objects could be anything.
        if self.dtype.kind not in "biuf":
            actual = f"found an array of {self.dtype} in the pickle"
            raise penchant.Error(f"{actual}, expected numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # Types of one byte have no order of bytes.
        byte_order = _text(state[1])
        if byte_order == "<":
            self.dtype = self.dtype.newbyteorder("<")
        elif byte_order == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _Array:
    """Stands for an array that is made first and filled by its state."""

    values: np.ndarray

    def __init__(self, *_: Any) -> None:
        self.values = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *_, shape, kind, by_columns, content = state
        order = "F" if by_columns else "C"
        self.values = _filled(_latin1(content), kind, shape, order)


def _array_from_buffer(content: Any, kind: _Type, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.values = _filled(content, kind, shape, order)
    return array


def _filled(content: Any, kind: _Type, shape: tuple[int, ...], order: str) -> np.ndarray:
    values = np.frombuffer(content, kind.dtype)
    # Anything but columns first is rows first.
    if order == "F":
        return values.reshape(shape, order="F")
    return values.reshape(shape)


def _latin1(content: Any, encoding: str = "latin1") -> Any:
    """Bytes that an old protocol wrote as text, one character per byte."""
    if isinstance(content, str):
        return content.encode("latin1")
    return content


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    return str(value)


_ADMITTED: dict[tuple[str, str], Any] = {
    # Only ever an argument of _reconstruct, which ignores it.
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _array_from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _array_from_buffer,
    ("_codecs", "encode"): _latin1,
}
