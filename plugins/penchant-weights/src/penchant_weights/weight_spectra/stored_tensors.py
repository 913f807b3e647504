"""Tensors of files on disk, one at a time: safetensors with shards and index, and torch files.

A safetensors file is read tensor by tensor. A torch file is mapped into memory, so that only the
pages of the tensor in use are read; one in the format before torch 1.6 cannot be mapped
and is read whole. Nothing in a file is run.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from penchant_numerics import Refusal
from torch import Tensor

from penchant_weights.shared.stored_files import stored_files


class StoredTensor(NamedTuple):
    """A tensor that is read when it is needed."""

    shape: tuple[int, ...]
    is_floating_point: bool
    read: Callable[[], Tensor]


def stored_tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a path with its name, one at a time.

    Args:
        path: A file, an index, or a folder with either.

    Yields:
        The name, and the tensor on the host, in the precision of the file.
    """
    for file in stored_files(path):
        if file.suffix == ".safetensors":
            yield from _of_safetensors(file)
        else:
            yield from _of_torch(file)


def tensors_by_name(path: Path) -> dict[str, StoredTensor]:
    """Names and shapes of all tensors of a path; none is read before it is needed.

    Args:
        path: A file, an index, or a folder with either.
    """
    stored: dict[str, StoredTensor] = {}
    for file in stored_files(path):
        of_file = _lazy_safetensors(file) if file.suffix == ".safetensors" else _lazy_torch(file)
        stored |= of_file
    return stored


def _of_safetensors(file: Path) -> Iterator[tuple[str, Tensor]]:
    from safetensors import safe_open

    with safe_open(file, framework="pt", device="cpu") as tensors:
        for name in tensors.keys():  # noqa: SIM118 (it is no dict)
            yield name, tensors.get_tensor(name)


def _lazy_safetensors(file: Path) -> dict[str, StoredTensor]:
    from safetensors import SafetensorError, safe_open

    stored = {}
    try:
        with safe_open(file, framework="pt", device="cpu") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (it is no dict)
                described = tensors.get_slice(name)
                # F32, F8_E4M3, BF16 and so on
                is_float = described.get_dtype().removeprefix("B").startswith("F")
                read = functools.partial(_read_safetensors, file, name)
                stored[name] = StoredTensor(tuple(described.get_shape()), is_float, read)
    except SafetensorError as error:
        raise Refusal(f"{file} cannot be read as a checkpoint: {error}") from None
    return stored


def _read_safetensors(file: Path, name: str) -> Tensor:
    from safetensors import safe_open

    with safe_open(file, framework="pt", device="cpu") as tensors:
        tensor: Tensor = tensors.get_tensor(name)
    return tensor


def _lazy_torch(file: Path) -> dict[str, StoredTensor]:
    """Mapped tensors: holding one reads nothing of it."""
    return {name: of_memory(tensor) for name, tensor in _of_torch(file)}


def of_memory(tensor: Tensor) -> StoredTensor:
    """A tensor that is already there, such as a network's parameter."""
    return StoredTensor(tuple(tensor.shape), tensor.is_floating_point(), lambda: tensor)


def _of_torch(file: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        state = _loaded(file)
    except Exception as error:  # a file that is no checkpoint fails in many ways
        problem, _, _ = str(error).partition("\n")
        raise Refusal(f"{file} cannot be read as a checkpoint: {problem}") from None
    yield from _flattened(state, "")


def _loaded(file: Path) -> Any:
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return torch.load(file, map_location="cpu", weights_only=True)


def _flattened(value: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Tensors in nested dicts, by names with dots."""
    if isinstance(value, Tensor):
        yield prefix, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _flattened(entry, f"{prefix}.{key}" if prefix else str(key))
