"""Checkpoint files of others: tensors and plain numbers are read, nothing in a file is executed.

A file is one that `torch.save` wrote, a safetensors file, or the index of one in several files.
"""

from __future__ import annotations

import collections
import json
import pickle
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penchant.errors import Error
from penchant.results.bounds import LARGEST_JSON, content_of
from penchant_numerics import Refusal

if TYPE_CHECKING:
    from torch import nn

INDEX = ".index.json"  # the ending of a file that says which file holds which tensor
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NAMED = re.compile(r"GLOBAL ([\w.]+)")  # what torch says that a file names
_SAVE = "save network.state_dict() instead"
MOST_UNPACKED = 10  # times the size of a file that its content has
_ADVICE = re.compile(r"weights.only|torch\.load|PyTorch 2|file can still be loaded", re.IGNORECASE)
# What pickles of tensors call; everything else in a file is replaced by an `_Ignored`.
_CALLED = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
}


def load_weights(network: nn.Module, path: Path, label: str, *, strict: bool = True) -> str:
    """Fill a network from the user's file; a mismatch lists missing and unexpected names.

    Args:
        network: The network.
        path: The file.
        label: The architecture's label, for messages.
        strict: Refuse weights that the network does not have; else they are left out.

    Returns:
        What of the file was not used; empty if everything was.
    """
    from penchant_numerics.data import fill

    content = read_tensors(path)
    try:
        return fill(network, content, strict=strict)
    except Refusal as error:
        raise Error(f"{path} does not fit architecture {label!r}: {error}") from None


def read_tensors(path: Path) -> dict[str, Any]:
    """Tensors and plain containers from a file, on the host.

    Args:
        path: A file of `torch.save`, a safetensors file, or an index of several files.

    Returns:
        What it holds. Objects of classes that are not torch's, such as the hyper-parameters that
        Lightning writes, are left out without a look at them.
    """
    try:
        if path.name.endswith(INDEX):
            return _read_indexed(path)
        if path.suffix == ".safetensors":
            return _read_safetensors(path)
        state = _read_pickled(path)
    except Error:
        raise
    except Exception as error:  # a file that is not a checkpoint fails in many ways
        raise Error(f"{path} cannot be read as a checkpoint: {_problem(error)}") from error
    if not isinstance(state, dict):
        kind = type(state).__name__
        if isinstance(state, _Ignored):
            kind = "an object of a class, which is never made"
        raise Error(f"{path} must hold a dict of tensors, found {kind}")
    return state


def _problem(error: Exception) -> str:
    """Why a file is not read, in one sentence, without torch's advice to read it all the same."""
    line, _, _ = _COLOURS.sub("", str(error)).partition("\n")
    if isinstance(error, pickle.UnpicklingError) and not isinstance(error, _RefusedError):
        named = _NAMED.search(str(error))
        if named:
            return f"it names {named[1]}, which is never loaded; {_SAVE}"
        return f"it holds other things than tensors and plain containers; {_SAVE}"
    # What Python says of a key or a type means nothing here.
    means_nothing = not line or isinstance(error, (LookupError, TypeError, AttributeError))
    if means_nothing or _ADVICE.search(line):
        return f"it is no file of tensors that torch.save wrote; {_SAVE}"
    return line


def _read_pickled(path: Path) -> Any:
    import torch

    is_archive = zipfile.is_zipfile(path)
    if is_archive:
        _check_archive(path)
    try:
        # Mapped, so that looking for a step reads no weights; older files are not zip archives.
        mapped = zipfile.is_zipfile(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError:
        # A class that torch does not know. Files from before 2020 are not zip archives.
        if not is_archive:
            raise
    return torch.load(
        path, map_location="cpu", weights_only=False, pickle_module=_Restricted, mmap=True
    )


def _check_archive(path: Path) -> None:
    """Refuse code, and a few bytes that stand for many: torch packs nothing."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if any(member.filename.endswith("constants.pkl") for member in members):
        raise _RefusedError(f"it is a TorchScript program; {_SAVE}")
    unpacked = sum(member.file_size for member in members)
    most = MOST_UNPACKED * path.stat().st_size
    if unpacked > most:
        raise _RefusedError(f"it unpacks to {unpacked} bytes, expected at most {most}")


class _Ignored:
    """Stands for an object of a class that is not looked up: takes everything, does nothing."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __new__(cls, *args: Any, **options: Any) -> _Ignored:
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __call__(self, *args: Any, **options: Any) -> _Ignored:
        return self

    def append(self, value: Any) -> None:
        """Take an entry of a list."""

    def extend(self, values: Any) -> None:
        """Take entries of a list."""

    def add(self, value: Any) -> None:
        """Take an entry of a set."""


class _RefusedError(pickle.UnpicklingError):
    """What no file of tensors does."""


class _Unpickler(pickle._Unpickler):
    """Looks up torch's own functions that make tensors, and nothing else.

    Of Python's two unpicklers the one whose steps can be replaced: a pickle may also set attributes
    of what it has looked up, so that a function of torch would do something else from then on.
    """

    def find_class(self, module: str, name: str) -> Any:
        import torch

        if (module, name) in _CALLED:
            return super().find_class(module, name)
        # Types of numbers, such as torch.float32.
        kind = getattr(torch, name, None) if module == "torch" else None
        if isinstance(kind, torch.dtype):
            return kind
        return _Ignored

    def _set_state(self: Any) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _Ignored):
            return
        if type(target) is not collections.OrderedDict:
            kind = type(target).__name__
            raise _RefusedError(f"it sets attributes of a {kind}, which no file of tensors does")
        # What `state_dict` writes beside the tensors: versions of modules.
        versions = state.get("_metadata") if isinstance(state, dict) else None
        if isinstance(versions, dict):
            vars(target)["_metadata"] = versions

    dispatch: ClassVar[dict[int, Any]] = {**pickle._Unpickler.dispatch, pickle.BUILD[0]: _set_state}


class _Restricted:
    """What `torch.load` takes for the module pickle."""

    Unpickler = _Unpickler
    UnpicklingError = pickle.UnpicklingError
    __name__ = "penchant's restricted pickle"

    @staticmethod
    def load(file: Any, **options: Any) -> Any:
        """Read an object as the unpickler does."""
        return _Unpickler(file, **options).load()


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return dict(load_file(path, device="cpu"))


def _read_indexed(path: Path) -> dict[str, Any]:
    """Tensors of all files that an index names."""
    names_of = collections.defaultdict(list)
    for name, file in _index(path).items():
        names_of[file].append(name)
    state = {}
    for file, names in sorted(names_of.items()):
        shard = path.with_name(file)
        if not shard.is_file():
            raise Error(f"{path} names {file!r}, which does not exist")
        tensors = read_tensors(shard)
        if lacking := sorted(set(names) - tensors.keys()):
            raise Error(f"{shard} lacks {', '.join(lacking)}, which {path.name} says it holds")
        state.update({name: tensors[name] for name in names})
    return state


def _index(path: Path) -> dict[str, str]:
    """Names of tensors, each with the name of the file that holds it."""
    try:
        index = json.loads(content_of(path, LARGEST_JSON))
    except (ValueError, RecursionError) as error:
        raise Error(f"{path} cannot be read: {error}") from None
    names = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(names, dict):
        raise Error(f"{path} has no table weight_map of tensors and their files")
    for file in names.values():
        # Files are beside their index: no path leads out of the folder. None is another index.
        beside = isinstance(file, str) and Path(file).name == file and file not in ("", "..")
        if not beside or file.endswith(INDEX):
            raise Error(f"{path} names {file!r}, expected a file of the same folder")
    return names


def files_read(path: Path) -> list[Path]:
    """The files that a checkpoint consists of: itself, and the files that an index names."""
    if not path.name.endswith(INDEX):
        return [path]
    try:
        names = set(_index(path).values())
    except Error:
        return [path]  # refused when it is read
    files = [path.with_name(name) for name in sorted(names)]
    return [path, *[file for file in files if file.is_file()]]
