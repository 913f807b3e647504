"""What a layer of a network gives for samples."""

from __future__ import annotations

from typing import Any

import penchant
import torch
from torch import Tensor, nn

CHUNK = 1024  # samples a forward pass


@torch.no_grad()
def activations(
    network: nn.Module, layer: str, inputs: Tensor, positions: Tensor | None = None
) -> Tensor:
    """Outputs (samples, size) of the layer with this name.

    Args:
        network: The network.
        layer: The layer's name.
        inputs: Samples.
        positions: Of sequences: the position (samples,) at which the layer is read.

    Returns:
        A row per sample.
    """
    modules = dict(network.named_modules())
    if layer not in modules:
        known = ", ".join(name for name in modules if name)
        raise penchant.Error(f"the network has no layer {layer!r}; its layers are {known}")
    # A hook sees what the layer gives, however the network calls it.
    calls: list[Any] = []
    handle = modules[layer].register_forward_hook(lambda module, given, out: calls.append(out))
    rows = []
    # Samples go through some at a time.
    try:
        for number, chunk in enumerate(inputs.split(CHUNK)):
            calls.clear()
            network(chunk)
            # Of a layer that is called several times, the last call counts.
            out = calls[-1] if calls else None
            if positions is not None:
                out = _at_positions(out, positions.split(CHUNK)[number], layer)
            rows.append(_rows(out, layer, len(chunk)))
    finally:
        handle.remove()
    return torch.cat(rows)


def _at_positions(out: Any, positions: Tensor, layer: str) -> Any:
    """What a layer gives at one position of each sequence; (samples, size) has no positions."""
    if not isinstance(out, Tensor) or out.ndim < 3:
        return out
    if int(positions.max()) >= out.shape[1]:
        raise penchant.Error(
            f"layer {layer!r} gives {tuple(out.shape)}, expected (samples, positions, ...)"
        )
    return out[torch.arange(len(out), device=out.device), positions]


def _rows(out: Any, layer: str, count: int) -> Tensor:
    """One row per sample."""
    if isinstance(out, Tensor) and out.ndim and len(out) == count:
        return out.reshape(count, -1)
    if out is None:
        actual = "was not called"
    elif isinstance(out, Tensor):
        actual = f"gives {tuple(out.shape)}"
    else:
        actual = f"gives {type(out).__name__}"
    raise penchant.Error(
        f"layer {layer!r} {actual} for {count} samples, expected a tensor with a row for each"
    )
