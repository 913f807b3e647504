"""Perceptrons of one architecture side by side: one module over (networks, samples, ...).

A step of a narrow network is mostly the overhead of its operations, which a stack pays once.
Activations, products and batch statistics of one network do not see another's. The networks
themselves stay as they are until `write_back` gives them what the stack has learnt.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import penchant
import torch
from torch import Tensor, nn
from torch.nn import functional

from penchant_mine.shared.generative.networks import Joined

TOGETHER = 8  # networks of a stack, at most
WIDEST = 128  # units of a layer up to which a CPU trains a stack faster than its networks
ELEMENTWISE = (nn.ReLU, nn.ELU, nn.LeakyReLU, nn.Tanh, nn.GELU)


def stack_networks(networks: Sequence[nn.Module]) -> nn.Module:
    """One module whose inputs and outputs have an axis of networks first.

    Args:
        networks: Networks of one architecture. Several are perceptrons, made of the layers in this
            file; a single one may be anything.

    >>> first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> both = stack_networks([first, second])(torch.ones(2, 5, 2))
    >>> both.shape
    torch.Size([2, 5, 3])
    >>> torch.allclose(both[1], second(torch.ones(5, 2)))
    True
    """
    if len(networks) == 1:
        return Alone(networks[0])
    return stacked(networks)


class Alone(nn.Module):
    """A network of any kind, with an axis of length one before its samples."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensor:
        """Outputs (1, samples, ...)."""
        outputs: Tensor = self.network(*(each[0] for each in inputs))
        return outputs[None]


class Linears(nn.Module):
    """Linear layers."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(_together(layers, "weight"))  # (networks, outputs, inputs)
        self.bias = nn.Parameter(_together(layers, "bias"))
        self.origins = tuple(layers)  # no submodules: they learn nothing here

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (networks, samples, outputs)."""
        return torch.baddbmm(self.bias[:, None], x, self.weight.transpose(1, 2))


class BatchNorms(nn.Module):
    """Batch norms in training: statistics of each network's own batch."""

    def __init__(self, layers: Sequence[nn.BatchNorm1d]) -> None:
        super().__init__()
        self.weight = nn.Parameter(_together(layers, "weight"))  # (networks, features)
        self.bias = nn.Parameter(_together(layers, "bias"))
        self.running_mean = _together(layers, "running_mean")
        self.running_var = _together(layers, "running_var")
        self.origins = tuple(layers)
        momentum = layers[0].momentum
        assert momentum is not None  # the perceptrons here have torch's default
        self.momentum = momentum
        self.eps = layers[0].eps

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (networks, samples, features)."""
        networks, samples, features = x.shape
        # Features of another network are further features of the same samples.
        flat = x.transpose(0, 1).reshape(samples, networks * features)
        normed = functional.batch_norm(
            flat,
            self.running_mean.view(-1),
            self.running_var.view(-1),
            self.weight.view(-1),
            self.bias.view(-1),
            training=True,
            momentum=self.momentum,
            eps=self.eps,
        )
        return normed.reshape(samples, networks, features).transpose(0, 1)


class JoinedSideBySide(nn.Module):
    """Perceptrons over two vectors laid end to end."""

    def __init__(self, networks: Sequence[Joined]) -> None:
        super().__init__()
        self.layers = stacked([network.layers for network in networks])

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Numbers (networks, samples, outputs)."""
        flat = x.flatten(2)
        if other is not None:
            flat = torch.cat([flat, other.flatten(2)], 2)
        numbers: Tensor = self.layers(flat)
        return numbers


def stacked(networks: Sequence[nn.Module]) -> nn.Module:
    """Several networks, or layers of them, as one."""
    first = networks[0]
    if isinstance(first, nn.Linear):
        return Linears(networks)  # type: ignore[arg-type]  # all are of one architecture
    if isinstance(first, nn.BatchNorm1d):
        return BatchNorms(networks)  # type: ignore[arg-type]
    if isinstance(first, Joined):
        return JoinedSideBySide(networks)  # type: ignore[arg-type]
    if isinstance(first, nn.Sequential | nn.ModuleList):
        layers = zip(*(network.children() for network in networks), strict=True)
        made = [stacked(each) for each in layers]
        return nn.Sequential(*made) if isinstance(first, nn.Sequential) else nn.ModuleList(made)
    if isinstance(first, nn.Unflatten):
        return nn.Unflatten(int(first.dim) + 1, first.unflattened_size)
    if isinstance(first, ELEMENTWISE):
        return first
    raise TypeError(f"a layer of perceptrons is expected, found {type(first).__name__}")


def _together(layers: Sequence[nn.Module], name: str) -> Tensor:
    """The tensors of this name, stacked."""
    return torch.stack([getattr(layer, name).detach() for layer in layers])


@torch.no_grad()
def write_back(stack: nn.Module) -> None:
    """Give the networks of a stack the weights and statistics that it has now."""
    for module in stack.modules():
        if not isinstance(module, Linears | BatchNorms):
            continue
        for number, layer in enumerate(module.origins):
            for name, tensor in layer.state_dict(keep_vars=True).items():
                if hasattr(module, name):
                    tensor.copy_(getattr(module, name)[number])


def groups(count: int, widths: Iterable[int] | None) -> list[list[int]]:
    """Numbers 0..count-1 of trainings in the groups that share a stack.

    A function of options only: numbers must not depend on workers or on what is free.

    Args:
        count: How many trainings there are.
        widths: Of the layers of perceptrons; None for other networks, which are trained alone.

    >>> groups(10, [64])
    [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]
    >>> groups(2, [500])
    [[0], [1]]
    """
    narrow = widths is not None and max(widths, default=0) <= WIDEST
    size = TOGETHER if narrow else 1
    numbers = list(range(count))
    return [numbers[first : first + size] for first in range(0, count, size)]


def map_stacked(
    context: penchant.Context,
    function: Callable[..., Any],
    variants: Sequence[str],
    trainings: list[list[int]],
    *,
    shared: Mapping[str, Any] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Rows of all trainings of every variant; each group of trainings is a shard.

    Args:
        context: Spreads the shards.
        function: Called with a context and an item with the keys `variant` and `trainings`; made
            with `shard_of`, so that it returns rows of all its trainings, stacked.
        variants: Their names.
        trainings: Groups of numbers of trainings.
        shared: What all shards are given.
    """
    items = [{"variant": name, "trainings": group} for name in variants for group in trainings]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
    for item, answer in zip(items, context.map(function, items, shared=shared), strict=True):
        rows[str(item["variant"])] += rows_of(answer, len(item["trainings"]))
    return rows


def rows_of(answer: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The rows that `shard_of` has stacked.

    >>> rows_of({"modes": [3, 5]}, 2)
    [{'modes': 3}, {'modes': 5}]
    """
    return [{name: each[number] for name, each in answer.items()} for number in range(count)]
