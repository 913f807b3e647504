"""Bytes of curvatures that are sums of outer products, known before any of them is made.

What does not fit is refused in a sentence: into the memory budget where one was set, else into all
that the device has.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from penchant_numerics import Refusal
from penchant_numerics.device import memory
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers.layer_uses import layer_uses
from torch import Tensor, nn

from penchant_curvature.shared.linear_layers import parameter_names

GRAMS = 4  # matrices of the size of V^T V that are held at once, with its eigenvectors
_BYTES = 8  # of a number in double precision
_GIB = 2**30


class TooLargeError(Refusal):
    """The request takes more memory than there is; the message says how much."""


class ColumnShape(NamedTuple):
    """What columns of one layer hold, for one sample."""

    positions: int
    columns: int
    units: int
    width: int

    @property
    def by_positions(self) -> bool:
        """Whether inputs and errors are fewer numbers than the gradients they make.

        >>> ColumnShape(positions=1024, columns=10, units=64, width=27).by_positions
        False
        """
        t, k, o, d = self
        if t == 1:
            return True

        # a sample's columns share its inputs
        a_column = t * (o + d / k)
        return a_column <= o * d

    @property
    def numbers(self) -> int:
        """Numbers in the smaller of both forms."""
        t, k, o, d = self
        if self.by_positions:
            return t * (d + k * o)
        return k * o * d


class ColumnSizes:
    """Shapes of the columns of a network's layers, from one pass.

    Args:
        network: A network in evaluation mode.
        inputs: Samples (n, ...).
        columns: Columns per sample; None: one per output, two where there is one.
        bias: Whether biases of linear layers are there.
    """

    def __init__(
        self, network: nn.Module, inputs: Tensor, *, columns: int | None = None, bias: bool = True
    ) -> None:
        self.network = network
        self.inputs = inputs
        outputs = Outputs(network)
        self.uses = layer_uses(outputs, inputs)
        with torch.no_grad():
            made = outputs(outputs.values, inputs[:1])
        self.columns = columns or max(2, made.shape[1])
        self.sizes = {name: value.numel() for name, value in network.named_parameters()}
        self.bias = bias

    def shape(self, layer: str, parameters: Sequence[str] | None = None) -> ColumnShape:
        """The columns of a linear layer, or of a module by its parameters."""
        is_linear = parameters is None and layer in self.uses
        if not is_linear:
            names = parameters or ()
            numbers = sum(self.sizes[name] for name in names)
            return ColumnShape(1, self.columns, numbers, 1)

        # a bias is one more input
        use = self.uses[layer]
        _, bias = parameter_names(layer)
        biased = self.bias and bias in self.sizes
        width = use.width + biased
        return ColumnShape(use.positions, self.columns, use.units, width)

    def check(self, modules: Mapping[str, Sequence[str] | None]) -> None:
        """Refuse the columns of some modules, and their Gram matrix, where they do not fit.

        Args:
            modules: Parameters by module; None for those of a linear layer.
        """
        samples = len(self.inputs)
        a_sample = 0
        for layer, names in modules.items():
            shape = self.shape(layer, names)
            a_sample += shape.numbers

        # a Gram matrix has a row for every column of every sample
        rows = samples * self.columns
        of_grams = GRAMS * rows**2
        numbers = samples * a_sample + of_grams

        # the message names samples, columns and layers
        where = ", ".join(modules) or "the network"
        what = f"{samples} x {self.columns} columns of {where}"
        there = memory.limit(self.inputs.device)
        needed = _BYTES * numbers
        refuse_too_large(needed, there, what)


def refuse_too_large(needed: int, there: int, what: str) -> None:
    """Raise `TooLargeError` where more bytes are needed than there are.

    Args:
        needed: Bytes that are needed.
        there: Bytes that there are.
        what: What takes them, for the message.
    """
    if needed <= there:
        return
    taken = needed / _GIB
    available = there / _GIB
    raise TooLargeError(f"{what} take {taken:.3g} GiB, memory has {available:.3g} GiB")
