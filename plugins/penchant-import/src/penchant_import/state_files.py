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
from typing import TYPE_CHECKING, Any

from penchant.errors import Error

if TYPE_CHECKING:
    from torch import nn

INDEX = ".index.json"  # the ending of a file that says which file holds which tensor
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
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
    from penchant_numerics.state_dicts import fill

    content = read_tensors(path)
    try:
        return fill(network, content, strict=strict)
    except ValueError as error:
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
        raise Error(f"{path} must hold a dict of tensors, found {kind}")
    return state


def _problem(error: Exception) -> str:
    """The first line of what torch says, without colours and without its advice."""
    line, _, _ = _COLOURS.sub("", str(error)).partition("\n")
    # Its advice is how to switch off the protection, which Penchant does not do.
    sentences = [each for each in re.split(r"(?<=\.)\s", line) if not _ADVICE.search(each)]
    return " ".join(sentences).strip() or "it is no file of tensors that torch.save wrote"


def _read_pickled(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        # A class that torch does not know. Files from before 2020 are not zip archives, and a
        # TorchScript archive holds code.
        if not zipfile.is_zipfile(path) or _is_program(path):
            raise
    return torch.load(path, map_location="cpu", weights_only=False, pickle_module=_Restricted)


def _is_program(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


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


class _Unpickler(pickle.Unpickler):
    """Looks up torch's own functions that make tensors, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        import torch

        if (module, name) in _CALLED:
            return super().find_class(module, name)
        # Types of numbers, such as torch.float32.
        kind = getattr(torch, name, None) if module == "torch" else None
        if isinstance(kind, torch.dtype):
            return kind
        return _Ignored


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
    index = json.loads(path.read_text())
    names_of = collections.defaultdict(list)
    for name, file in index["weight_map"].items():
        # Files are beside their index: no path leads out of the folder.
        if Path(file).name != file:
            raise Error(f"{path} names {file!r}, expected a file of the same folder")
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


def files_read(path: Path) -> list[Path]:
    """The files that a checkpoint consists of: itself, and the files that an index names."""
    if not path.name.endswith(INDEX):
        return [path]
    try:
        names = json.loads(path.read_text())["weight_map"].values()
    except (ValueError, KeyError, AttributeError):
        return [path]  # refused when it is read
    files = [path.with_name(Path(name).name) for name in sorted(set(names))]
    return [path, *[file for file in files if file.is_file()]]
