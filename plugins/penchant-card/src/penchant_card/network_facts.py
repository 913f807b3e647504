"""The head of a card: what the network is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from torch import nn


@attrs.frozen
class NetworkFacts:
    """What a network is.

    Attributes:
        name: What it is called.
        kind: "one given network" or "networks at initialisation".
        parameters: How many numbers it has that are trained.
        input: Shape of one input.
        output: Its outputs for one input.
        source: Where it comes from.
        checksum: Of its weights; empty where networks are drawn.
        data: What it is measured on; empty without data.
        accuracy: How often it is right, in words; empty where there are no classes.
    """

    name: str
    kind: str
    parameters: int
    input: str
    output: str
    source: str
    checksum: str
    data: str
    accuracy: str = ""


def checksum(network: nn.Module) -> str:
    """A checksum of weights: the same for the same numbers under the same names.

    >>> import torch
    >>> checksum(torch.nn.Linear(2, 1)) == checksum(torch.nn.Linear(2, 1))
    False
    """
    import torch

    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        if isinstance(value, torch.Tensor):
            digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
            digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def parameters(network: nn.Module) -> int:
    """How many numbers are trained; shared ones count once."""
    return sum(each.numel() for each in network.parameters())


def source_of(architecture: Any) -> str:
    """Where a network comes from: its component, model or class, and its file."""
    table = {key: value for key, value in architecture.items() if value is not None}
    name = str(table["name"])
    factory = table.get("factory")
    if factory is not None and not isinstance(factory, str):
        cls = factory if isinstance(factory, type) else type(factory)
        is_function = callable(factory) and hasattr(factory, "__qualname__")
        named = factory if is_function else cls
        name = f"{named.__module__}:{named.__qualname__}"
    elif factory is not None:
        name = factory
    else:
        left = ("name", "label", "weights", "pretrained", "strict")
        options = [f"{key}={value}" for key, value in table.items() if key not in left]
        name = f"{name}:{','.join(options)}" if options else name
    return f"{name}, weights {table['weights']}" if "weights" in table else name
