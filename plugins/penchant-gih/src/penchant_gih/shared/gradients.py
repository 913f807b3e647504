"""Input gradients of many networks, each at points of its own."""

from __future__ import annotations

import torch
from penchant_numerics.device import memory
from penchant_numerics.inputs import first_output
from penchant_numerics.training import Ensemble, State
from torch import Tensor
from torch.func import functional_call, grad, vjp

_SHARE = 0.25  # of the budget, for stacked parameters: 256 MiB on a CPU
_VECTORS = 2**15  # numbers of one shard's gradients: 32 networks of 1024 inputs
_MOST_A_SHARD = 1024  # networks


def shard_size(size: int, inputs: int) -> int:
    """Networks per shard.

    Its gradients stay far smaller than the matrix they are merged into, and small inputs do not
    make many shards.
    """
    vectors = max(32, _VECTORS // size)
    networks = vectors // inputs
    return max(1, min(_MOST_A_SHARD, networks))


def networks_at_once(parameters: int, device: torch.device | str) -> int:
    """How many networks of a number of parameters in single precision are stacked, at least one.

    Args:
        parameters: Parameters of a network.
        device: Where they are.
    """
    a_network = 4 * parameters  # bytes
    return memory.fitting(a_network, device, share=_SHARE)


def probed_gradients(ensemble: Ensemble, points: Tensor, *, rows_mix: bool = False) -> Tensor:
    """Gradients of f by its own input, network n at points[n].

    Args:
        ensemble: The networks.
        points: Inputs (networks, inputs, *shape).
        rows_mix: Whether an output depends on the other inputs of its batch, as it does with
            batch statistics; costs a backward pass an input.

    Returns:
        Gradients (networks, inputs, D).
    """

    def outputs(state: State, x: Tensor) -> Tensor:
        values = functional_call(ensemble.module, state, (x,))
        return first_output(values)

    def total(state: State, x: Tensor) -> Tensor:
        # Rows do not mix: the gradient of the sum is that of each.
        return outputs(state, x).sum()

    def own(state: State, x: Tensor) -> Tensor:
        # One backward pass per output; of each only the gradient by its own input is used.
        values, pull, *_ = vjp(lambda inputs: outputs(state, inputs), x)
        unit = torch.eye(len(values), device=x.device, dtype=x.dtype)
        each = torch.vmap(pull)(unit)[0]  # (outputs, inputs, *shape)
        gradients: Tensor = each.diagonal().movedim(-1, 0)
        return gradients

    # All networks at once.
    function = own if rows_mix else grad(total, argnums=1)
    gradients: Tensor = torch.vmap(function, randomness="error")(ensemble.state, points).flatten(2)
    return gradients
