"""Linear layers of stacked networks, as one product where they share their input.

`torch.vmap` adds biases in a pass of their own and repeats an input that networks share; a product
of all weights at once does neither.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def with_stacked_linear(network: nn.Module) -> nn.Module:
    """A copy of a network for `torch.vmap`; its parameters have the same names.

    Args:
        network: It stays as it is; its layers of the very class `nn.Linear` are replaced.

    Returns:
        The copy, which computes the same.
    """
    # the network may itself be a linear layer
    holder = nn.Sequential(copy.deepcopy(network))
    for module in list(holder.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear:
                setattr(module, name, _StackedLinear(child))
    return holder[0]


class _StackedLinear(nn.Module):
    """The parameters of a linear layer, multiplied by `_Product`."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = layer.weight
        self.bias = layer.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """W x + b."""
        # torch's `apply` has no annotations
        outputs: Tensor = _Product.apply(inputs, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return outputs


class _Product(torch.autograd.Function):
    """`functional.linear` with a rule of its own for stacks of weights.

    Only the rule for `torch.vmap` is differentiated, outside of it; it is made of plain operations.
    """

    @staticmethod
    def forward(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return functional.linear(inputs, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Nothing is saved."""

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        inputs: Tensor,
        weights: Tensor,
        biases: Tensor | None,
    ) -> tuple[Tensor, int]:
        """Outputs of all networks, and the axis of networks in them."""
        count = info.batch_size
        if in_dims[0] is None:
            flat = None if biases is None else biases.flatten()
            together = functional.linear(inputs, weights.flatten(0, 1), flat)
            return together.unflatten(-1, (count, -1)), together.dim() - 1
        rows = inputs.movedim(in_dims[0], 0)  # (networks, ..., inputs)
        shape = rows.shape[:-1]
        rows = rows.flatten(1, -2)
        turned = weights.transpose(1, 2)
        if biases is None:
            outputs = torch.bmm(rows, turned)
        else:
            outputs = torch.baddbmm(biases[:, None], rows, turned)
        return outputs.reshape(*shape, -1), 0
