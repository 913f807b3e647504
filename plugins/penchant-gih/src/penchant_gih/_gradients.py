"""Input gradients of many networks, each at points of its own."""

from __future__ import annotations

import torch
from penchant_numerics.derivatives import first_output
from penchant_numerics.ensembles import Ensemble
from torch import Tensor
from torch.func import functional_call

_FLOATS_AT_ONCE = 2**26  # stacked parameters on the device: 256 MiB in single precision
_VECTORS = 2**15  # numbers of one shard's gradients: 32 networks of 1024 inputs


def shard_size(size: int, inputs: int) -> int:
    """Networks a shard: its gradients stay far smaller than the matrix they are merged into, and small inputs do not make many shards."""
    return max(1, min(1024, max(32, _VECTORS // size) // inputs))


def networks_at_once(parameters: int) -> int:
    """How many networks of so many parameters are stacked; at least four, as each stack is drawn once more to be checked."""
    return max(4, _FLOATS_AT_ONCE // max(1, parameters))


def probed_gradients(ensemble: Ensemble, points: Tensor) -> Tensor:
    """Gradients (networks, inputs, D) of f, network n at points[n] (networks, inputs, *shape)."""

    def total(state: dict[str, Tensor], x: Tensor) -> Tensor:
        return first_output(
            functional_call(ensemble.module, state, (x,))
        ).sum()  # rows do not mix: the sum keeps them apart

    return torch.vmap(torch.func.grad(total, argnums=1), randomness="error")(
        ensemble.state, points
    ).flatten(2)
