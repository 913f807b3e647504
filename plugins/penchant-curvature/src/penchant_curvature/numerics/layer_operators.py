"""From a network and samples to curvatures, layer by layer or one over all layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from penchant_curvature.numerics.columns import Columns, Stored, store
from penchant_curvature.numerics.curvature_operator import Curvature
from penchant_curvature.numerics.kronecker import KroneckerSum, moments
from penchant_curvature.numerics.layer_samples import LayerSamples
from penchant_curvature.numerics.linear_layers import Coverage, Layer

ALL = "all"  # the name of the one operator over all layers


class LayerOperators(Mapping[str, Curvature]):
    """{layer name: curvature}, each computed when it is read; the last one is kept."""

    def __init__(self, names: Sequence[str], make: Callable[[str], Curvature]) -> None:
        self._names = tuple(names)
        self._make = make
        self._last: tuple[str, Curvature] | None = None

    def __getitem__(self, name: str) -> Curvature:
        if name not in self._names:
            raise KeyError(name)

        # what was read last is read again: by distances, spectra, pairs
        if self._last is None or self._last[0] != name:
            self._last = None  # its memory is free before the next one needs some
            self._last = (name, self._make(name))
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def column_operators(
    network: nn.Module,
    data: Sequence[Tensor | None],
    covered: Coverage,
    *,
    columns: str,
    loss: str,
    blocks: str = "layers",
    bias: bool = True,
    batch: int | None = None,
) -> LayerOperators:
    """Gauss-Newton or the empirical Fisher of every module with parameters.

    Args:
        network: A network in evaluation mode.
        data: Inputs and labels.
        covered: Its linear layers, which are factored, and all others.
        columns: `gauss-newton` or `empirical`.
        loss: `cross-entropy` or `squared-error`.
        blocks: `layers`, or `all` for one operator over all.
        bias: Whether biases of linear layers are there.
        batch: Samples a pass; None: by device.
    """
    modules: dict[str, Sequence[str] | None] = dict.fromkeys(covered.layers)

    # parameters beside a linear layer in one module have a name of their own
    for name, names in covered.others.items():
        modules[name if name not in modules else f"{name} (other)"] = names

    def stored(name: str) -> tuple[Layer, Stored]:
        samples = LayerSamples(
            network,
            data,
            name,
            parameters=modules[name],
            loss=loss,
            columns=columns,
            bias=bias,
            batch=batch,
        )
        return store(samples)

    def make(name: str) -> Curvature:
        names = [name] if blocks == "layers" else modules

        # over all layers a column has a part in each
        pairs = [stored(each) for each in names]
        return Columns(*zip(*pairs))

    return LayerOperators(list(modules) if blocks == "layers" else [ALL], make)


def kronecker_operators(
    network: nn.Module,
    data: Sequence[Tensor | None],
    covered: Coverage,
    groups: Tensor,
    *,
    loss: str,
    blocks: str = "layers",
    bias: bool = True,
    batch: int | None = None,
    by_class: bool = False,
) -> LayerOperators:
    """KFAC, CFAC or what lies between, of linear layers only.

    Args:
        network: A network in evaluation mode.
        data: Inputs and labels.
        covered: Its linear layers.
        groups: The group (n,) of each sample, inside which errors are independent of inputs.
        loss: `cross-entropy` or `squared-error`.
        blocks: `layers`, or `all` for one operator over all.
        bias: Whether biases are there.
        batch: Samples a pass; None: by device.
        by_class: Whether the groups are classes.
    """
    # a group without samples has no moments
    _, groups = torch.unique(groups, return_inverse=True)

    def make(name: str) -> Curvature:
        names = [name] if blocks == "layers" else list(covered.layers)
        found = []
        for each in names:
            samples = LayerSamples(
                network,
                data,
                each,
                loss=loss,
                bias=bias,
                batch=batch,
            )
            found.append(moments(samples, groups, joined=len(names) > 1))
        return KroneckerSum(
            *zip(*found),
            groups=groups,
            by_class=by_class,
        )

    return LayerOperators(list(covered.layers) if blocks == "layers" else [ALL], make)
