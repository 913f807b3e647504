"""Parameters of a network as one flat vector: which ones, and where each of them lies in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn


def select(network: nn.Module, patterns: str | Iterable[str] | None = None) -> dict[str, Tensor]:
    """Parameters by name, detached, in the network's order: all, or those that a pattern names.

    A pattern is the name of a parameter, of a layer (all that is under it), or has wildcards: `features.*.weight`. A
    parameter that two modules share appears once.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> list(select(network, "2"))
    ['2.weight', '2.bias']
    >>> list(select(network, ["0.bias", "*.weight"]))
    ['0.weight', '0.bias', '2.weight']
    """
    found = {name: value.detach() for name, value in network.named_parameters()}
    if patterns is None:
        return found
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in found):
            near = difflib.get_close_matches(pattern, list(found), n=3, cutoff=0.3)
            raise ValueError(
                f"no parameter is named {pattern!r}; near it: {', '.join(near) or 'nothing'} (of {len(found)})"
            )
    return {
        name: value
        for name, value in found.items()
        if any(_matches(name, pattern) for pattern in patterns)
    }


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


class Layout:
    """Where named tensors lie in a flat vector: one after another, each in row-major order.

    >>> layout = Layout({"a": torch.zeros(2, 2, device="cpu"), "b": torch.zeros(3, device="cpu")})
    >>> layout.size, layout.slices["b"]
    (7, slice(4, 7, None))
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        if not tensors:
            raise ValueError("no parameters: expected at least one")
        self.names = tuple(tensors)
        self.shapes = tuple(value.shape for value in tensors.values())
        self.sizes = [value.numel() for value in tensors.values()]
        self.size = sum(self.sizes)
        starts = [sum(self.sizes[:number]) for number in range(len(self.sizes))]
        self.slices = {
            name: slice(start, start + size)
            for name, start, size in zip(self.names, starts, self.sizes)
        }
        first = next(iter(tensors.values()))
        self.device, self.dtype = first.device, first.dtype
        for name, value in tensors.items():
            if (value.device, value.dtype) != (self.device, self.dtype):
                found = f"{name} is {value.dtype} on {value.device}, {self.names[0]} {self.dtype} on {self.device}"
                raise ValueError(f"parameters must have one precision and one device: {found}")

    def split(self, row: Tensor) -> list[Tensor]:
        """Tensors (..., *shape) of a flat row (..., size), as views where the row allows it."""
        return [
            part.reshape((*part.shape[:-1], *shape))
            for part, shape in zip(row.split(self.sizes, dim=-1), self.shapes)
        ]

    def named(self, row: Tensor) -> dict[str, Tensor]:
        """The same by name."""
        return dict(zip(self.names, self.split(row)))

    def join(self, tensors: Sequence[Tensor], *, leading: int = 0) -> Tensor:
        """The flat row (..., size) of tensors (..., *shape) with so many leading dimensions."""
        return torch.cat(
            [
                each.flatten(leading) if each.dim() > leading else each[..., None]
                for each in tensors
            ],
            dim=-1,
        )

    def write_(self, row: Tensor, tensors: Sequence[Tensor]) -> None:
        """Put tensors into a contiguous row (..., size)."""
        for part, value in zip(self.split(row), tensors):
            part.copy_(value)

    def add_(self, row: Tensor, tensors: Sequence[Tensor]) -> None:
        """Add tensors to a contiguous row (..., size) in place, without a second row."""
        for part, value in zip(self.split(row), tensors):
            part += value
