"""Is a network the same function every time? Lanczos and subspace iteration assume it; dropout and batch statistics break it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves

Calls = dict[str, tuple[list[Tensor], list[Tensor]]]  # "module#call" -> its inputs and outputs

_SAMPLES = 16  # rows the two passes see; batch statistics and random layers show with fewer
_ROUNDING = 1.0  # in roots of machine precision: batches of other sizes round differently


class NotDeterministicError(ValueError):
    """A network whose outputs, or state, change from one pass to the next."""


def check_deterministic(network: nn.Module, inputs: Tensor) -> None:
    """Refuse a network that is not a function of its parameters and one sample, naming the module that makes it so.

    Known culprits are found by their mode; others by passes over a few samples, twice and over half of them, module by module.
    Neither the network nor the global random state is changed.

    >>> check_deterministic(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), torch.ones(3, 2, device="cpu"))
    Traceback (most recent call last):
    penchant_numerics.determinism.NotDeterministicError: module '1' (Dropout) is in training mode; call network.eval()
    """
    for name, module in network.named_modules():
        random = isinstance(module, _DropoutNd) and module.p > 0
        if module.training and (random or isinstance(module, _BatchNorm)):
            raise NotDeterministicError(
                f"module {name!r} ({type(module).__name__}) is in training mode; call network.eval()"
            )
    few = inputs[:_SAMPLES]
    devices = [inputs.device] if inputs.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        first, second = _passed(network, few), _passed(network, few)
        part = _passed(network, few[: (len(few) + 1) // 2])
    _compare(
        network, first, second, torch.equal, "gives other outputs for equal inputs the second time"
    )
    _compare(
        network,
        first,
        part,
        _close,
        "mixes the samples of a batch (check=False accepts that, with all samples in one batch)",
    )


def _compare(
    network: nn.Module,
    first: Calls,
    second: Calls,
    same: Callable[[Tensor, Tensor], bool],
    what: str,
) -> None:
    """Refuse the first call, in the order calls end, that gives other outputs for the same inputs."""
    for call, (given, made) in first.items():
        others = second.get(call, (given, made))
        if all(map(same, given, others[0])) and not all(map(same, made, others[1])):
            name = call.split("#")[0]
            raise NotDeterministicError(
                f"module {name!r} ({type(network.get_submodule(name)).__name__}) {what}"
            )


def _close(whole: Tensor, part: Tensor) -> bool:
    """Whether the first rows of a tensor are another, to rounding; tensors without rows of samples say nothing."""
    if (
        whole.dim() != part.dim()
        or not whole.is_floating_point()
        or whole.shape[1:] != part.shape[1:]
    ):
        return True
    error = (whole[: len(part)] - part).abs().max() if part.numel() else part.sum()
    return bool(error <= _ROUNDING * torch.finfo(part.dtype).eps ** 0.5 * whole.abs().max())


def _passed(network: nn.Module, inputs: Tensor) -> Calls:
    """Inputs and outputs of every call of every module, in the order the calls end: inner modules come first."""
    seen: Calls = {}
    handles = [
        module.register_forward_hook(_recorder(name, seen))
        for name, module in network.named_modules()
    ]
    state = {
        name: value.clone() for name, value in network.named_buffers()
    }  # what a pass changes is a copy
    try:
        functional_call(network, state, (inputs,))
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _recorder(name: str, seen: Calls) -> Callable[..., None]:
    calls = iter(range(1 << 30))

    def record(module: nn.Module, given: Any, made: Any) -> None:
        seen[f"{name}#{next(calls)}"] = (_tensors(given), _tensors(made))

    return record


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf.clone() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
