"""Is a network the same function every time, and a function of one sample?

Lanczos and subspace iteration assume it; dropout and batch statistics break it.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from penchant_numerics.device import memory
from penchant_numerics.device.precision import agreement
from penchant_numerics.device.sample_bytes import fitting_batch
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves

_SAMPLES = 16  # rows the passes see at most; batch statistics and random layers show with fewer
_SHARE = 0.15  # of the budget, for what one pass notes: three are compared
_RANDOM = "gives other outputs for equal inputs the second time"
_MIXES = "mixes the samples of a batch"
_ROUNDING = 1.0  # in roots of machine precision: batches of other sizes round differently


class Call(NamedTuple):
    """What a module was given and what it made."""

    given: list[Tensor]
    made: list[Tensor]


Calls = dict[str, Call]  # by "module#number"


class NotDeterministicError(Refusal):
    """A network whose outputs change from one pass to the next, or with what is beside a sample.

    Attributes:
        culprit: The module that makes it so.
        what: What it does, with the module's name.
        mixes: Whether it mixes samples; otherwise it is random.
    """

    def __init__(self, network: nn.Module, name: str, what: str, *, hint: str = "") -> None:
        self.culprit = network.get_submodule(name)
        kind = type(self.culprit).__name__
        self.what = f"module {name!r} ({kind}) {what}" if name else f"the network ({kind}) {what}"
        self.mixes = what == _MIXES
        super().__init__(f"{self.what}{hint}")


def check_deterministic(network: nn.Module, inputs: Tensor) -> None:
    """Refuse a network that is not a function of its parameters and one sample.

    The module that makes it so is named. Known culprits are found by their mode; others by passes
    over a few samples, twice and over half of them, module by module. Neither the network nor the
    global random state is changed.

    >>> network = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    >>> check_deterministic(network, torch.ones(3, 2, device="cpu"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penchant_numerics.device.determinism.NotDeterministicError: module '1' (Dropout) is in ...
    """
    _check_modes(network)

    def check(pairs: int) -> None:
        """Compare passes of the same samples twice, and of half of them."""
        few = inputs[: 2 * pairs]
        half = few[: (len(few) + 1) // 2]
        first = _passed(network, few)
        # the second pass is the first, to the bit
        _compare(network, first, _passed(network, few), torch.equal, _RANDOM)
        # and half of the samples have what they had among all, to rounding
        _compare(network, first, _passed(network, half), close, _MIXES)

    devices = [inputs.device] if inputs.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        pairs = _fitting_pairs(network, inputs)
        memory.halving(check, pairs, what="pairs of samples in a check")


def _fitting_pairs(network: nn.Module, inputs: Tensor) -> int:
    """Pairs of samples whose calls fit, at least one: a single sample cannot mix."""

    # Sizes are tried in pairs: what mixes samples may have no answer for a single one.
    def passed(some: Tensor) -> Calls:
        pairs = torch.cat([some, some])
        return _passed(network, pairs)

    return fitting_batch(passed, inputs, largest=_SAMPLES // 2, share=_SHARE)


def _check_modes(network: nn.Module) -> None:
    """Refuse dropout and batch-norm in training mode."""
    for name, module in network.named_modules():
        random = isinstance(module, _DropoutNd) and module.p > 0
        mixing = isinstance(module, _BatchNorm)
        if module.training and (random or mixing):
            what = "is in training mode"
            raise NotDeterministicError(network, name, what, hint="; call network.eval()")


def _compare(
    network: nn.Module,
    first: Calls,
    second: Calls,
    same: Callable[[Tensor, Tensor], bool],
    what: str,
) -> None:
    """Refuse the first call, in the order they end, with other outputs for the same inputs."""
    for key, call in first.items():
        other = second.get(key, call)
        same_inputs = all(map(same, call.given, other.given))
        same_outputs = all(map(same, call.made, other.made))
        if same_inputs and not same_outputs:
            # inner modules end first, so that this is the one that does it
            name = key.split("#")[0]
            hint = " (check=False accepts that, with all in one batch)" if what == _MIXES else ""
            raise NotDeterministicError(network, name, what, hint=hint)


def close(whole: Tensor, some: Tensor) -> bool:
    """Whether the first rows of a tensor are another, to rounding.

    Tensors without rows of samples say nothing.
    """
    same_rows = whole.shape[1:] == some.shape[1:]
    if whole.dim() != some.dim() or not same_rows:
        return True
    if not whole.is_floating_point() or not some.numel():
        return True

    # the difference of the rows of both
    rows = len(some)
    error = (whole[:rows] - some).abs().max()

    # relative to the largest number
    root = torch.finfo(some.dtype).eps ** 0.5
    rounding = agreement(root)
    allowed = _ROUNDING * rounding * whole.abs().max()
    return bool(error <= allowed)


def _passed(network: nn.Module, inputs: Tensor) -> Calls:
    """Every call of every module, in the order the calls end: inner modules come first."""
    seen: Calls = {}
    handles = []
    for name, module in network.named_modules():
        handles.append(module.register_forward_hook(_recorder(name, seen)))

    # what a pass changes is a copy
    state = {name: value.clone() for name, value in network.named_buffers()}
    try:
        functional_call(network, state, (inputs,))
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _recorder(name: str, seen: Calls) -> Callable[..., None]:
    """A hook that notes the calls of a module."""
    numbers = itertools.count()

    def record(module: nn.Module, given: Any, made: Any) -> None:
        """Note one call."""
        number = next(numbers)
        key = f"{name}#{number}"
        seen[key] = Call(_tensors(given), _tensors(made))

    return record


def _tensors(tree: Any) -> list[Tensor]:
    """Copies of all tensors in what a module takes or gives."""
    tensors = []
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor):
            tensors.append(leaf.clone())
    return tensors
