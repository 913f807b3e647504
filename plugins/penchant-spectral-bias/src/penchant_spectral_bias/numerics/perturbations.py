"""A network under random changes of its parameters: theta + delta u, u a random unit vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn


def unit_vector(network: nn.Module, generator: Generator) -> dict[str, Tensor]:
    """A uniformly random unit vector in parameter space, by name; drawn on the CPU, the same for every device."""
    parts = {
        name: torch.randn(each.shape, generator=generator, device="cpu")
        for name, each in network.named_parameters()
    }
    length = torch.stack([part.double().square().sum() for part in parts.values()]).sum().sqrt()
    return {
        name: (part.double() / length).to(each.device, each.dtype)
        for (name, each), part in zip(network.named_parameters(), parts.values())
    }


def chunk_size(device: torch.device) -> int:
    """Perturbed networks a pass, by device type (`make bench`)."""
    return 4 if device.type == "cpu" else 64


@torch.no_grad()
def perturbed_outputs(
    network: nn.Module,
    inputs: Tensor,
    deltas: Sequence[float],
    directions: Callable[[int], Generator],
    count: int,
    *,
    chunk: int | None = None,
) -> Tensor:
    """First outputs (perturbations, deltas, points) of `network` moved by every delta along `count` random directions.

    Direction i comes from the generator `directions(i)` alone, and is the same for every delta. Moved networks are
    evaluated `chunk` at a time as one stacked network.
    """
    named = {name: each.detach() for name, each in network.named_parameters()}
    buffers = dict(network.named_buffers())
    chunk = chunk or chunk_size(inputs.device)

    def output(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(network, (parameters, buffers), (inputs,))[:, 0]

    blocks = []
    for start in range(0, count, chunk):
        drawn = [
            unit_vector(network, directions(index))
            for index in range(start, min(start + chunk, count))
        ]
        moves = {name: torch.stack([each[name] for each in drawn]) for name in named}
        rows = [
            torch.vmap(output)(
                {name: tensor + delta * moves[name] for name, tensor in named.items()}
            )
            for delta in deltas
        ]
        blocks.append(torch.stack(rows, dim=1))
    return torch.cat(blocks)
