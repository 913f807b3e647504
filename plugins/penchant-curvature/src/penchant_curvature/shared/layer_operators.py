"""From a network and samples to curvatures, layer by layer or one over all layers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from penchant_numerics.device import memory
from torch import Tensor, nn

from penchant_curvature.shared.column_bytes import ColumnSizes
from penchant_curvature.shared.columns import Columns, Stored, store
from penchant_curvature.shared.curvature_operator import Curvature
from penchant_curvature.shared.kronecker import KroneckerSum
from penchant_curvature.shared.kronecker_moments import MomentPasses
from penchant_curvature.shared.layer_samples import LayerSamples
from penchant_curvature.shared.linear_layers import Coverage, Layer, parameter_names
from penchant_curvature.shared.moment_sums import Measured

ALL = "all"  # the name of the one operator over all layers
HELD_SHARE = 0.5  # of the budget, for curvatures that are made together


class LayerOperators(Mapping[str, Curvature]):
    """{layer name: curvature}, computed when they are read, as many together as fit.

    Args:
        names: The layers.
        make: Computes the curvatures of some of them in one pass.
        sizes: Bytes of each; without them each is made by itself.
        device: Where they live.
    """

    def __init__(
        self,
        names: Sequence[str],
        make: Callable[[Sequence[str]], dict[str, Curvature]],
        *,
        sizes: Mapping[str, int] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self._names = tuple(names)
        self._make = make
        self._sizes = sizes
        self._device = device
        self._held: dict[str, Curvature] = {}

    def __getitem__(self, name: str) -> Curvature:
        if name not in self._names:
            raise KeyError(name)

        # what was made is read again: by distances, spectra, pairs
        if name not in self._held:
            self._held = {}  # its memory is free before the next ones need some
            self._held = self._make(self._together(name))
        return self._held[name]

    def _together(self, name: str) -> list[str]:
        """That layer and those that follow it, while they fit into a share of the budget."""
        if self._sizes is None:
            return [name]
        share = HELD_SHARE * memory.available(self._device)
        room = share - self._sizes[name]
        names = [name]
        start = self._names.index(name)
        following = self._names[start + 1 :]
        for other in following:
            room -= self._sizes[other]
            if room < 0:
                break
            names.append(other)
        return names

    def only(self, names: Sequence[str]) -> LayerOperators:
        """The same for some layers: no others are made beside them."""
        chosen = [name for name in self._names if name in names]
        return LayerOperators(chosen, self._make, sizes=self._sizes, device=self._device)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def column_operators(
    network: nn.Module,
    data: tuple[Tensor, Tensor | None],
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
        batch: Samples per pass; None: by device and budget.

    Returns:
        The operators; one that does not fit raises `TooLargeError` when it is read.
    """
    modules: dict[str, Sequence[str] | None] = dict.fromkeys(covered.layers)

    # parameters beside a linear layer in one module have a name of their own
    for name, names in covered.others.items():
        modules[name if name not in modules else f"{name} (other)"] = names

    @functools.cache
    def sizes() -> ColumnSizes:
        one = 1 if columns == "empirical" else None
        return ColumnSizes(network, data[0], columns=one, bias=bias)

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

    def make(names: Sequence[str]) -> dict[str, Curvature]:
        if blocks == "layers":
            chosen = {name: modules[name] for name in names}
            sizes().check(chosen)
            operators: dict[str, Curvature] = {}
            for name in names:
                layer, columns_of_layer = stored(name)
                operators[name] = Columns([layer], [columns_of_layer])
            return operators

        # over all layers a column has a block for each
        sizes().check(modules)
        pairs = [stored(each) for each in modules]
        return {ALL: Columns(*zip(*pairs))}

    operators = list(modules) if blocks == "layers" else [ALL]
    return LayerOperators(operators, make)


def kronecker_operators(
    network: nn.Module,
    data: tuple[Tensor, Tensor | None],
    covered: Coverage,
    groups: Tensor,
    *,
    loss: str,
    blocks: str = "layers",
    bias: bool = True,
    batch: int | None = None,
    by_class: bool = False,
    positions: str = "expand",
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
        batch: Samples per pass; None: by device.
        by_class: Whether the groups are classes.
        positions: Positions of a convolution, or tokens: `expand`, samples of their own, or
            `reduce`, averaged first.

    Raises:
        IndefiniteError: One operator over several layers was requested, with expanded positions.
    """
    # a group without samples has no moments
    _, groups = torch.unique(groups, return_inverse=True)
    layers = {}
    for name, names in covered.layers.items():
        _, own = parameter_names(name)
        layers[name] = bias and own in names
    joined = blocks == "all" and len(layers) > 1
    passes = MomentPasses(
        network,
        data[0],
        groups,
        layers,
        measured=Measured(loss, positions, joined=joined),
        batch=batch,
    )
    if joined:
        passes.check_positions()

    def make(names: Sequence[str]) -> dict[str, Curvature]:
        whole = list(names) == [ALL]
        chosen = list(layers) if whole else names
        factors_of = passes.run(chosen)

        # one operator of all pairs of layer and factors, or one of each
        if whole:
            every, factors = zip(*factors_of.values())
            return {ALL: KroneckerSum(every, factors, groups=groups, by_class=by_class)}
        operators: dict[str, Curvature] = {}
        for name, (layer, moments) in factors_of.items():
            operators[name] = KroneckerSum([layer], [moments], groups=groups, by_class=by_class)
        return operators

    if blocks == "all":
        return LayerOperators([ALL], make)
    return LayerOperators(list(layers), make, sizes=passes.factor_bytes(), device=data[0].device)
