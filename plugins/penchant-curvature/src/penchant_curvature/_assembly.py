"""From a network and samples to curvatures: layer by layer, made when they are asked for, or one over all layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from penchant_curvature._columns import Columns, store
from penchant_curvature._curvature_operator import Curvature
from penchant_curvature._kronecker import KroneckerSum, moments
from penchant_curvature._layers import Coverage
from penchant_curvature._samples import LayerSamples

ALL = "all"  # the name of the one operator over all layers


class LayerOperators(Mapping[str, Curvature]):
    """{layer name: curvature}, each computed when it is read; the last one is kept."""

    def __init__(self, names: Sequence[str], make: Callable[[str], Curvature]) -> None:
        self._names, self._make = tuple(names), make
        self._last: tuple[str, Curvature] | None = None

    def __getitem__(self, name: str) -> Curvature:
        if name not in self._names:
            raise KeyError(name)
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
    """Gauss-Newton or the empirical Fisher: every module with parameters, linear layers factored."""
    modules: dict[str, Sequence[str] | None] = dict.fromkeys(covered.layers)
    modules.update(
        {
            name if name not in modules else f"{name} (other)": names
            for name, names in covered.others.items()
        }
    )

    def make(name: str) -> Curvature:
        pairs = [_stored(each) for each in ([name] if blocks == "layers" else modules)]
        return Columns(*zip(*pairs))

    def _stored(name: str):  # type: ignore[no-untyped-def]
        options = {
            "parameters": modules[name],
            "loss": loss,
            "columns": columns,
            "bias": bias,
            "batch": batch,
        }
        return store(LayerSamples(network, data, name, **options))

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
    """KFAC, CFAC or what lies between, by the groups (n,) of samples; linear layers only."""
    _, groups = torch.unique(groups, return_inverse=True)  # a group without samples has no moments

    def make(name: str) -> Curvature:
        names = [name] if blocks == "layers" else list(covered.layers)
        joined = len(names) > 1
        found = [
            moments(
                LayerSamples(network, data, each, loss=loss, bias=bias, batch=batch),
                groups,
                joined=joined,
            )
            for each in names
        ]
        return KroneckerSum(*zip(*found), groups=groups, by_class=by_class)

    return LayerOperators(list(covered.layers) if blocks == "layers" else [ALL], make)
