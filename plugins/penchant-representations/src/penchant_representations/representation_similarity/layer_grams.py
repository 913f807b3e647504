"""Gram matrices of what layers give for a batch of samples, layer by layer as the batch passes.

Features are never stored: a hook turns what a layer gives into the inner products of its samples,
around their mean over the batch. What a layer gives at several positions, those of an image or the
tokens of a sequence, is one long vector (`flatten`) or its mean over positions (`mean`). Positions
of a sequence that do not count are left out. One vector needs the same positions in all sequences:
zeros in their places are a pattern that all layers share, and CKA would measure that.
"""

import fnmatch
from collections.abc import Sequence
from typing import Any

import torch
from penchant_numerics import Refusal
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.layers import is_transposed
from torch import Tensor, nn

_TRIED = 2  # samples that show which layers are used, and in what order
_ROUNDINGS = 16  # of the largest feature: what differs by less is the same
_DEFAULT = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_SEQUENCES = 3  # axes of what a layer gives at every position of sequences


def _tensor(made: Any) -> Tensor | None:
    """What a module gives; of several tensors, as attention gives them, the first."""
    if isinstance(made, (tuple, list)) and made:
        made = made[0]
    return made if isinstance(made, Tensor) and made.is_floating_point() else None


def features(
    module: nn.Module, made: Tensor, positions: str, counted: Tensor | None = None
) -> Tensor:
    """Features (n, d) of what a module gives (n, ...).

    Channels are the second axis of images (n, c, h, w) and of what a convolution gives, the last
    axis of everything else.

    Args:
        module: The module.
        made: What it gives.
        positions: `flatten` or `mean`.
        counted: Which positions of sequences count (n, positions); None: all.

    Raises:
        Refusal: Where other positions count in other sequences, and they are to be one vector.
    """
    by_channel = made.dim() > 3 or isinstance(module, (nn.Conv1d, nn.BatchNorm1d))
    own = made.dim() == _SEQUENCES and not by_channel
    if counted is not None and own and made.shape[1] == counted.shape[1]:
        if positions == "mean":
            made = made * counted[:, :, None].to(made)
            return made.sum(1) / counted.sum(1, keepdim=True).to(made)
        check_aligned(counted)
        made = made[:, counted[0]]
    if positions == "flatten" or made.dim() < _SEQUENCES:
        return made.flatten(1)
    if by_channel:
        return made.flatten(2).mean(2)
    return made.mean(1)


def check_aligned(counted: Tensor) -> None:
    """Refuse sequences in which other positions count: they cannot be one vector each.

    Args:
        counted: Which positions count (n, positions).
    """
    counts = counted.sum(1)
    if not bool((counted == counted[:1]).all()):
        raise Refusal(
            'positions = "flatten" compares the same positions of all sequences, found sequences '
            f"in which {int(counts.min())} to {int(counts.max())} positions have a label, not the "
            'same ones in all; positions = "mean" compares their means'
        )


def _is_default(module: nn.Module) -> bool:
    """Linear layers, GPT-2's among them, and convolutions."""
    return isinstance(module, _DEFAULT) or is_transposed(module)


@torch.no_grad()
def layer_names(
    network: nn.Module, inputs: Tensor, patterns: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Layers in the order of their first use, and those whose rows are not samples.

    Args:
        network: A network in evaluation mode.
        inputs: Inputs (n, ...), of which two are tried.
        patterns: Names of modules, with * and ?; None: all linear layers and convolutions.

    Raises:
        Refusal: Where a pattern fits no module, or one whose rows are not samples.
    """
    modules = dict(network.named_modules())
    if patterns is None:
        chosen = {name for name, module in modules.items() if _is_default(module)}
    else:
        chosen = set()
        for pattern in patterns:
            fitting = set(fnmatch.filter(modules, pattern))
            if not fitting:
                known = ", ".join(name for name in modules if name)
                raise Refusal(f"no layer is called {pattern!r}, expected one of {known}")
            chosen |= fitting
    tried = inputs[:_TRIED]
    rows: dict[str, int | None] = {}

    def hook(name: str) -> Any:
        def seen(module: nn.Module, given: Any, made: Any) -> None:
            tensor = _tensor(made)
            known = tensor is not None and tensor.dim() > 1
            rows.setdefault(name, len(tensor) if known else None)  # type: ignore[arg-type]

        return seen

    _with_hooks(network, {name: hook(name) for name in chosen}, tried)
    fitting_rows = [name for name, count in rows.items() if count == len(tried)]
    others = [name for name in rows if name not in fitting_rows]
    if patterns is not None and others:
        listed = ", ".join(f"{name!r} gives {rows[name]}" for name in others)
        raise Refusal(f"expected one row for each of {len(tried)} samples, but {listed}")
    return fitting_rows, others


def layer_grams(
    network: nn.Module,
    inputs: Tensor,
    names: Sequence[str],
    *,
    positions: str,
    counted: Tensor | None = None,
) -> Tensor:
    """Inner products of samples in every layer, around the mean of the batch.

    Args:
        network: A network in evaluation mode.
        inputs: Inputs (n, ...).
        names: Layers; of one that is used several times, the first use.
        positions: `flatten` or `mean`.
        counted: Which positions of sequences count (n, positions); None: all.

    Returns:
        Gram matrices (layers, n, n) in double precision.

    Raises:
        Refusal: Where a layer gives other than one row per sample, or the same for all; where
            other positions count in other sequences, and they are to be one vector.
    """
    count = len(inputs)
    grams: dict[str, Tensor] = {}

    def hook(name: str) -> Any:
        def seen(module: nn.Module, given: Any, made: Any) -> None:
            if name in grams:
                return
            tensor = _tensor(made)
            assert tensor is not None
            if len(tensor) != count:
                raise Refusal(
                    f"layer {name!r} gives {len(tensor)} rows for {count} samples, expected as many"
                )
            rows = features(module, tensor, positions, counted)
            grams[name] = centred_gram(name, rows)

        return seen

    with torch.no_grad():
        _with_hooks(network, {name: hook(name) for name in names}, inputs)
    return torch.stack([grams[name] for name in names])


def centred_gram(name: str, rows: Tensor) -> Tensor:
    """Inner products (n, n) of features (n, d) around their mean, in double precision."""
    # around their mean, so that single precision is enough for the products
    centred = rows - rows.mean(0)
    rounding = _ROUNDINGS * torch.finfo(rows.dtype).eps * rows.abs().max()
    if bool(centred.abs().max() <= rounding):
        raise Refusal(
            f"layer {name!r} gives the same for all {len(rows)} samples of a minibatch, "
            "expected features that differ; leave it out by `layer_names`"
        )
    return (centred @ centred.T).to(accumulation_dtype(rows.device))


def centred_kernel(kernel: Tensor) -> Tensor:
    """A kernel (n, n) around the mean of its features: H K H with H = I - 11'/n."""
    rows = kernel - kernel.mean(0)
    centred: Tensor = rows - rows.mean(1, keepdim=True)
    return centred


def _with_hooks(network: nn.Module, hooks: dict[str, Any], inputs: Tensor) -> None:
    """One forward pass with hooks that are there for that time only."""
    handles = []
    for name, hook in hooks.items():
        handles.append(network.get_submodule(name).register_forward_hook(hook))
    try:
        network(inputs)
    finally:
        for handle in handles:
            handle.remove()
