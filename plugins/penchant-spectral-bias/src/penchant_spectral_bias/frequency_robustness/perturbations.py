"""A network under random changes of its parameters: theta + delta u, u a random unit vector."""

from collections.abc import Callable, Sequence

import torch
from penchant_numerics.device import lacks_batching, warn_not_vectorised
from torch import Generator, Tensor, nn


def unit_vector(network: nn.Module, generator: Generator) -> dict[str, Tensor]:
    """A uniformly random unit vector in parameter space, by name.

    It is sampled on the CPU, the same for every device.
    """
    sampled, squares = {}, []
    for name, parameter in network.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, device="cpu")
        noise = noise.double()
        sampled[name] = noise
        squares.append(noise.square().sum())

    # a normal vector over its length is uniform on the sphere
    length = torch.stack(squares).sum().sqrt()
    vector = {}
    for name, parameter in network.named_parameters():
        unit = sampled[name] / length
        vector[name] = unit.to(parameter.device, parameter.dtype)
    return vector


def chunk_size(device: torch.device) -> int:
    """Perturbed networks per pass, by device type (`make bench`)."""
    if device.type == "cpu":
        return 4
    return 64


@torch.no_grad()
def perturbed_outputs(
    network: nn.Module,
    inputs: Tensor,
    deltas: Sequence[float],
    directions: Callable[[int], Generator],
    count: int,
    *,
    chunk: int | None = None,
    every: bool = False,
) -> Tensor:
    """First outputs of a network moved by every delta along random directions.

    Args:
        network: The network; it is not changed.
        inputs: Where it is evaluated, (points, ...).
        deltas: Lengths of the moves.
        directions: Gives the generator of direction i, which is the same for every delta.
        count: How many directions.
        chunk: Moved networks that are evaluated as one stacked network.
        every: Whether all outputs are given, not only the first.

    Returns:
        Outputs (directions, deltas, points), or (directions, deltas, points, outputs).
    """
    named = {name: each.detach() for name, each in network.named_parameters()}
    buffers = dict(network.named_buffers())
    chunk = chunk or chunk_size(inputs.device)

    def output(parameters: dict[str, Tensor]) -> Tensor:
        outputs: Tensor = torch.func.functional_call(network, (parameters, buffers), (inputs,))
        if every:
            return outputs.flatten(1)
        first: Tensor = outputs[:, 0]
        return first

    blocks = []
    # some directions at a time, and for each of these all lengths
    for start in range(0, count, chunk):
        indices = range(start, min(start + chunk, count))
        sampled = [unit_vector(network, directions(index)) for index in indices]
        moves = {}
        for name in named:
            moves[name] = torch.stack([vector[name] for vector in sampled])
        rows = []
        for delta in deltas:
            moved = {name: tensor + delta * moves[name] for name, tensor in named.items()}
            rows.append(_of_each(output, moved, len(sampled)))
        blocks.append(torch.stack(rows, dim=1))
    return torch.cat(blocks)


def _of_each(
    output: Callable[[dict[str, Tensor]], Tensor], stacked: dict[str, Tensor], count: int
) -> Tensor:
    """Outputs (count, points) of stacked parameters, one by one where torch cannot stack."""
    try:
        return torch.vmap(output)(stacked)
    except RuntimeError as error:
        if not lacks_batching(error):
            raise
        warn_not_vectorised(error, "outputs of moved networks")
    rows = []
    for index in range(count):
        own = {name: tensor[index] for name, tensor in stacked.items()}
        rows.append(output(own))
    return torch.stack(rows)
