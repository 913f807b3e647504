"""Layers of a network that are linear in their inputs, and what is left out.

A linear layer's parameters are a matrix (out, width), a bias its last column. In flat vectors they
have the order of the network: weights in row-major order, then biases, so that an operator of a
layer acts on the same vectors as Gauss-Newton restricted to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from penchant_numerics.layers import TangentFeatures
from torch import Tensor, nn

_SEEN = 8  # samples that show whether a layer's gradient is that of its inputs and errors


@dataclass(frozen=True)
class Layer:
    """A layer's parameters as a matrix (out, width); with `bias`, the last column is the bias.

    A `transposed` layer has its weights as (width, out) in flat rows.

    >>> layer = Layer("fc", 2, 3, bias=True)
    >>> matrix = layer.matrices(torch.tensor([[1.0, 2.0, 3.0, 4.0, 10.0, 20.0]], device="cpu"))
    >>> matrix.tolist()
    [[[1.0, 2.0, 10.0], [3.0, 4.0, 20.0]]]
    >>> layer.rows(matrix).tolist()
    [[1.0, 2.0, 3.0, 4.0, 10.0, 20.0]]
    """

    name: str
    out: int
    width: int
    bias: bool
    transposed: bool = False

    @property
    def size(self) -> int:
        """Numbers of the layer."""
        return self.out * self.width

    def matrices(self, rows: Tensor) -> Tensor:
        """Matrices (k, out, width) of flat rows (k, size)."""
        if not self.bias:
            return self._shaped(rows, self.width)

        # weights come first in a flat row, then biases
        inputs = self.width - 1
        weights = self.out * inputs
        weight, bias = rows.split([weights, self.out], dim=1)
        weight = self._shaped(weight, inputs)
        column = bias[:, :, None]  # (k, out, 1)
        return torch.cat([weight, column], dim=2)

    def rows(self, matrices: Tensor) -> Tensor:
        """Flat rows (k, size) of matrices (k, out, width)."""
        if not self.bias:
            return self._flat(matrices)
        # the bias is the last column, and comes last in a flat row
        weight = self._flat(matrices[:, :, :-1])
        bias = matrices[:, :, -1]
        return torch.cat([weight, bias], dim=1)

    def _shaped(self, rows: Tensor, inputs: int) -> Tensor:
        """Weights (k, out, inputs) of flat rows."""
        if self.transposed:
            return rows.reshape(-1, inputs, self.out).mT
        return rows.reshape(-1, self.out, inputs)

    def _flat(self, weights: Tensor) -> Tensor:
        """Flat rows of weights (k, out, inputs)."""
        if self.transposed:
            return weights.mT.flatten(1)
        return weights.flatten(1)


@dataclass(frozen=True)
class Coverage:
    """Which parameters a Kronecker-factored curvature represents, by layer, and which it cannot."""

    layers: Mapping[str, tuple[str, ...]]  # layer -> its parameters
    others: Mapping[str, tuple[str, ...]]  # module -> parameters that are not a linear layer's
    sizes: Mapping[str, int]  # parameter -> numbers
    kinds: Mapping[str, str]  # module -> class

    @property
    def share(self) -> float:
        """The share of the network's numbers that is represented."""
        inside = 0
        for names in self.layers.values():
            inside += sum(self.sizes[name] for name in names)
        every = sum(self.sizes.values())
        return inside / every

    def report(self) -> str:
        """What is not represented, in words; empty where everything is."""
        lines = []
        for module, names in self.others.items():
            count = sum(self.sizes[name] for name in names)
            where = module or "the network itself"
            kind = self.kinds[module]
            lines.append(f"{where} ({kind}: {count} parameters)")
        return ", ".join(lines)


def coverage(network: nn.Module, inputs: Tensor) -> Coverage:
    """Layers whose gradients are sums of errors times inputs.

    These are Linear, Conv1d and Conv2d without groups, and GPT-2's Conv1D, not tied to another,
    whose first axis is the sample.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    >>> found = coverage(network, torch.ones(4, 2, device="cpu"))
    >>> list(found.layers), found.report()
    (['0'], '1 (LayerNorm: 6 parameters)')
    """
    sizes = {name: value.numel() for name, value in network.named_parameters()}
    features = TangentFeatures(network, inputs[:_SEEN])
    layers = {}
    for name in features.layers:
        own = parameter_names(name)
        layers[name] = tuple(each for each in own if each in sizes)

    # everything else, by the module that holds it
    others: dict[str, list[str]] = {}
    for name in features.others:
        module = name.rpartition(".")[0]
        others.setdefault(module, []).append(name)

    # modules are named by their class where they are left out
    kinds = {}
    for name in [*layers, *others]:
        submodule = network.get_submodule(name)
        kinds[name] = type(submodule).__name__
    grouped = {module: tuple(names) for module, names in others.items()}
    return Coverage(layers, grouped, sizes, kinds)


def parameter_names(layer: str) -> tuple[str, str]:
    """Names of a layer's weight and bias; the layer that is the whole network has no name."""
    weight = f"{layer}.weight"
    bias = f"{layer}.bias"
    return weight.lstrip("."), bias.lstrip(".")
