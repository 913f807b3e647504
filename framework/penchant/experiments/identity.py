"""Hashes by content: of options, and of the user's own functions, classes, networks and data.

A function is identified by its code, constants, defaults, closure and the values of the global
names it uses; a network by its classes, attributes and state; arrays and files by their content. An
object without a definite content, such as an open file, raises an `UnidentifiableError`.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.experiments.sources import is_own, module_sources

_AT_ONCE = 2**26  # bytes of an array that are hashed at a time
# Pickling adds __slotnames__ to a class with slots.
_NOT_OF_A_CLASS = set(
    "__dict__ __weakref__ __doc__ __module__ __firstlineno__ __slotnames__".split()
)
_JSON = (bool, int, float, str, type(None))
_PLAIN = (*_JSON, bytes, complex)
_JSON_LIKE = (*_JSON, Path, list, tuple, dict)


class UnidentifiableError(Exception):
    """An object without a definite content; the text names it."""


def short_hash(value: object) -> str:
    """Eight hexadecimal digits of a JSON-like value, for names of folders."""
    return long_hash(value)[:8]


def long_hash(value: object) -> str:
    """Thirty-two hexadecimal digits of a JSON-like value: collisions do not happen by chance."""
    # Sorted: the order of options does not matter.
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def plain(value: object) -> Any:
    """JSON-like form of an option: arrays and objects by their content."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, _JSON):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(each, _JSON_LIKE) for each in value):
        return [plain(inner) for inner in value]
    # Anything else is named by its kind and a hash.
    try:
        digest = content_hash(value)[:16]
    except UnidentifiableError:
        digest = "unidentifiable"
    return f"<{_title(value)} {digest}>"


def _title(value: object) -> str:
    if hasattr(value, "__qualname__"):
        # Descriptors, such as those of `__slots__`, have no module.
        module = getattr(value, "__module__", "")
        return f"{module}:{value.__qualname__}"
    return type(value).__name__


def content_hash(value: object) -> str:
    """A hash of what an object holds.

    Raises:
        UnidentifiableError: It holds something that has no definite content.
    """
    return _Hasher().hash(value).hexdigest()


class _Hasher:
    """Hashes objects by content; an object that contains itself is named by its depth."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}
        self._modules: set[str] = set()

    def hash(self, value: object) -> hashlib._Hash:
        digest = hashlib.sha256(_title(value).encode())
        if isinstance(value, _PLAIN):
            digest.update(repr(value).encode())
            return digest
        # An object that contains itself would be hashed for ever.
        if id(value) in self._above:
            digest.update(f"loop {self._above[id(value)]}".encode())
            return digest
        # Only enclosing objects: the same object twice is not a loop.
        self._above[id(value)] = len(self._above)
        try:
            for inner in self._content(value):
                digest.update(inner if isinstance(inner, bytes) else self.hash(inner).digest())
        finally:
            del self._above[id(value)]
        return digest

    def _content(self, value: Any) -> Iterable[Any]:
        """The content of an object: bytes, or objects to be hashed in turn."""
        # Open files and running generators change as they are used.
        if hasattr(value, "fileno") or inspect.isgenerator(value):
            raise UnidentifiableError(_title(value))
        if isinstance(value, (list, tuple)):
            return value
        if isinstance(value, Mapping):
            return self._unordered(value.items())
        if isinstance(value, (set, frozenset)):
            return self._unordered(value)
        if isinstance(value, types.ModuleType):
            return self._sources(value.__name__)
        if inspect.isclass(value):
            return self._class(value)
        # Line numbers and names of files are left out: moving a function changes nothing.
        if isinstance(value, types.CodeType):
            return [value.co_code, value.co_names, value.co_varnames, value.co_consts]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if inspect.isbuiltin(value) or isinstance(value, types.MethodWrapperType):
            return []
        if inspect.ismethod(value):
            return [value.__func__, value.__self__]
        # a picture of the Python imaging library
        if hasattr(value, "getbands") and hasattr(value, "mode"):
            return [value.mode, value.size, value.tobytes()]
        if hasattr(value, "detach") or hasattr(value, "tobytes"):
            return _array_content(value)
        if hasattr(value, "named_modules") and hasattr(value, "state_dict"):
            return self._network(value)
        return self._object(value)

    def _unordered(self, values: Iterable[Any]) -> list[bytes]:
        return sorted(self.hash(each).digest() for each in values)

    def _class(self, cls: type) -> Iterator[Any]:
        """A class of the user's by its members; one of a library is named by its title."""
        if not is_own(cls.__module__):
            return
        yield from cls.__bases__
        for name, member in sorted(vars(cls).items()):
            if name not in _NOT_OF_A_CLASS:
                yield name
                yield _member(member)
        yield from self._sources(cls.__module__)

    def _sources(self, module: str | None) -> Iterator[bytes]:
        """Sources of a module of the user's and of those it imports, once."""
        if module is None or module in self._modules:
            return
        self._modules.add(module)
        yield from module_sources(module)

    def _function(self, function: types.FunctionType) -> Iterator[Any]:
        """A function by its code, its closure, and the global names it uses."""
        yield function.__code__
        yield function.__defaults__
        yield function.__kwdefaults__
        for cell in function.__closure__ or ():
            yield cell.cell_contents
        # Code of a library is known by its version.
        if not is_own(function.__module__):
            return
        yield from self._sources(function.__module__)
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield name
                yield self._named(function.__globals__[name])

    def _named(self, value: object) -> bytes:
        """A global by its content; one without definite content, such as a log, by its kind."""
        try:
            return self.hash(value).digest()
        except UnidentifiableError:
            return _title(value).encode()

    def _network(self, network: Any) -> Iterator[Any]:
        """A network by the class and attributes of each module, and its state."""
        for name, module in network.named_modules():
            yield name
            yield type(module)
            for key, value in sorted(vars(module).items()):
                # Parameters and buffers are in the state; hooks and caches are not the network's.
                if not key.startswith("_"):
                    yield key
                    yield value
        for name, tensor in network.state_dict().items():
            yield name
            yield tensor

    def _object(self, value: Any) -> Iterable[Any]:
        """Any other object by its class and attributes, or by its pickle."""
        if type(value).__module__.startswith("functools") and hasattr(value, "func"):
            return [value.func, value.args, value.keywords]
        if getattr(value, "__dict__", None):
            return [type(value), vars(value)]
        try:
            return [type(value), pickle.dumps(value)]
        except Exception:  # whatever a user's object raises when pickled
            raise UnidentifiableError(_title(value)) from None


def _member(member: object) -> Any:
    """A member of a class by its code, or by its value where that is definite."""
    if isinstance(member, property):
        return (member.fget, member.fset)
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    if isinstance(member, (types.FunctionType, *_PLAIN)):
        return member
    return _title(member)


def _names(code: types.CodeType) -> set[str]:
    """Global names that code uses, those of the functions inside it included."""
    inside = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(_names, inside))


def _array_content(value: Any) -> list[bytes]:
    if hasattr(value, "detach"):
        from penchant_numerics.data import unreadable

        if problem := unreadable(value):
            raise Error(f"found {problem}")
        value = value.detach().cpu().contiguous()
        kind = str((tuple(value.shape), str(value.dtype)))
        try:
            array = value.numpy()
        except TypeError:  # bfloat16 has no numpy form
            array = value.float().numpy()
        return [kind.encode(), array.tobytes()]
    kind = str((value.shape, str(value.dtype)))
    return [kind.encode(), *_pieces(value)]


def _pieces(array: Any) -> Iterator[bytes]:
    """The bytes of an array; a large one, which may be on disk, is read some rows at a time."""
    if array.ndim == 0 or array.nbytes <= _AT_ONCE:
        yield array.tobytes()
        return
    rows = len(array)
    step = max(1, _AT_ONCE * rows // array.nbytes)
    for start in range(0, rows, step):
        yield array[start : start + step].tobytes()
