"""Kronecker factors of many layers in one pass over the samples.

A batch passes forth once, and every layer's inputs become a part of its H as they come. It passes
back once for each column of the loss's root L (the Hessian of the loss in the outputs is L L^T):
the errors that arrive at all layers become parts of their Delta. So all layers together cost one
forward pass and C backward passes, and only one column of errors is there at a time.

Products of a batch are made in the network's precision and summed in double precision. Samples are
passed in the order of their groups, so that those of a group lie side by side in a batch.

Positions of a convolution, or tokens, are samples of their own (`expand`), or inputs are averaged
and errors summed over them first (`reduce`): Eschenhagen et al., Kronecker-factored approximate
curvature for modern neural network architectures, NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics import memory
from penchant_numerics.gauss_newton import batch_size, loss_factor_times
from penchant_numerics.layer_passes import layer_pass
from penchant_numerics.linear_layers import input_positions
from penchant_numerics.linearisation import Outputs
from penchant_numerics.moments import accumulation_dtype
from penchant_numerics.sample_bytes import fitting_batch
from torch import Tensor, nn

from penchant_curvature.numerics.column_bytes import refuse_too_large
from penchant_curvature.numerics.linear_layers import Layer

POSITIONS = ("expand", "reduce")
_MEASURED = 8  # columns that tell the bytes of a pass
_TOGETHER = 2048  # errors that are multiplied at once, or more where a sample has more


@dataclass(frozen=True)
class Moments:
    """Factors of one layer, and what joins it to other layers.

    Groups with few samples also have roots R (d, r) of H = R R^T, which make products cheaper.
    """

    H: Sequence[Tensor]  # (d, d), by group
    Delta: Sequence[Tensor]  # (o, o), by group
    roots: tuple[Tensor | None, ...]
    inputs: Tensor | None = None  # (n, d), means over positions
    errors: Tensor | None = None  # (n, k, o), sums over positions


@dataclass(frozen=True)
class Wanted:
    """What is measured of all layers.

    Args:
        loss: `cross-entropy` or `squared-error`.
        positions: `expand` or `reduce`.
        joined: Whether what joins layers to each other is kept, too.
    """

    loss: str
    positions: str = "expand"
    joined: bool = False

    def __post_init__(self) -> None:
        if self.positions not in POSITIONS:
            choices = " or ".join(POSITIONS)
            raise ValueError(f"positions must be {choices}, found {self.positions!r}")


class _Part:
    """Samples of one group, side by side in a batch."""

    def __init__(self, group: int, first: int, last: int) -> None:
        self.group = group
        self.first = first
        self.last = last

    def of(self, columns: Tensor, samples: int) -> Tensor:
        """These samples' columns, of columns (d, samples x positions)."""
        each = columns.shape[1] // samples
        first, last = self.first * each, self.last * each
        return columns[:, first:last]


class _Sums:
    """H, Delta, and what else is wanted of one layer, batch after batch.

    Args:
        module: The layer.
        bias: Whether a bias is there, as a last input that is 1.
        members: Samples of each group.
        wanted: What is measured.
    """

    def __init__(
        self, module: nn.Module, *, bias: bool, members: Sequence[int], wanted: Wanted
    ) -> None:
        self.module = module
        self.bias = bias
        self.members = members
        self.wanted = wanted
        self.positions = 0  # of a sample, over all uses
        self.wide = accumulation_dtype(module.weight.device)

        # sums by group, in double precision
        self.H: dict[int, Tensor] = {}
        self.Delta: dict[int, Tensor] = {}
        self.kept: dict[int, list[Tensor]] = {}
        self.waiting: dict[int, list[Tensor]] = {}  # errors (o, m)
        self.means: list[Tensor] = []  # batch by batch
        self.totals: list[list[Tensor]] = []  # batch by batch, column by column

    # ---- on the way forth

    def see(self, uses: Sequence[Tensor], parts: Sequence[_Part], samples: int) -> None:
        """Add the inputs of all uses of the layer in a batch."""
        columns = [_input_columns(self.module, given) for given in uses]
        every = sum(each.shape[1] for each in columns)
        self.positions = every // samples
        if self._needs_sums:
            means = self._means(columns, samples)
        if self.wanted.positions == "reduce":
            columns = [means]
        if self.wanted.joined:
            joining = self._with_bias(means.to(self.wide))
            self.means.append(joining.T)
        for each in columns:
            for part in parts:
                self._add_inputs(part.group, part.of(each, samples))

    @property
    def _needs_sums(self) -> bool:
        """Whether sums over positions are asked for."""
        reduced = self.wanted.positions == "reduce"
        return reduced or self.wanted.joined

    def _means(self, columns: Sequence[Tensor], samples: int) -> Tensor:
        """Inputs (d, samples), averaged over positions of all uses."""
        by_position = [each.unflatten(1, (samples, -1)) for each in columns]
        every = torch.cat(by_position, dim=2)
        return every.mean(2)

    def _add_inputs(self, group: int, columns: Tensor) -> None:
        """Add h h^T / count of columns h (d, m), and h beside it for a bias."""
        count = self._count(group)
        scaled = columns / count**0.5
        if self.bias:
            ones = torch.full_like(scaled[:1], count**-0.5)
            scaled = _below(scaled, ones)
        self._add(self.H, group, scaled)
        # few samples are a root of H that is smaller than H
        if 2 * count <= len(scaled):
            self.kept.setdefault(group, []).append(scaled.to(self.wide))

    def _with_bias(self, columns: Tensor) -> Tensor:
        """Columns (d, m), with a last row of ones for the bias."""
        if not self.bias:
            return columns
        ones = torch.ones_like(columns[:1])
        return torch.cat([columns, ones])

    def _count(self, group: int) -> int:
        """Inputs that a group has, all positions counted that are samples of their own."""
        each = 1 if self.wanted.positions == "reduce" else self.positions
        return self.members[group] * each

    def _add(self, sums: dict[int, Tensor], group: int, columns: Tensor) -> None:
        """Add x x^T of columns x (d, m): a product in their precision, to a sum in double."""
        product = columns @ columns.T
        if group in sums:
            sums[group] += product
        else:
            sums[group] = product.to(self.wide)

    # ---- on the way back

    def hear(self, uses: Sequence[Tensor | None], parts: Sequence[_Part], samples: int) -> None:
        """Add the errors of all uses towards one column of L."""
        heard = [_error_columns(self.module, each) for each in uses if each is not None]
        if self._needs_sums:
            total = self.module.weight.new_zeros(len(self.module.weight), samples)
            for each in heard:
                total += each.unflatten(1, (samples, -1)).sum(2)
            self.totals[-1].append(total.T)
        if self.wanted.positions == "reduce":
            heard = [total]
        for each in heard:
            for part in parts:
                self._wait(part.group, part.of(each, samples))

    def _wait(self, group: int, columns: Tensor) -> None:
        """Let errors wait for those of other columns: few large products are faster than many."""
        waiting = self.waiting.setdefault(group, [])
        waiting.append(columns)
        if sum(each.shape[1] for each in waiting) >= _TOGETHER:
            self._add_errors(group)

    def _add_errors(self, group: int) -> None:
        """Add what has waited to Delta."""
        waiting = self.waiting.pop(group)
        columns = waiting[0] if len(waiting) == 1 else _side_by_side(waiting)
        self._add(self.Delta, group, columns)

    def finish_batch(self) -> None:
        """Nothing waits for another batch."""
        for group in list(self.waiting):
            self._add_errors(group)

    def result(self, name: str, order: Tensor) -> tuple[Layer, Moments]:
        """Factors of all samples; `order` is the one in which they came."""
        groups = range(len(self.members))
        roots = []
        for group in groups:
            own = self.kept.get(group)
            roots.append(None if own is None else torch.cat(own, dim=1))

        # samples in the order in which they were given
        inputs = errors = None
        if self.wanted.joined:
            back = order.argsort()
            inputs = torch.cat(self.means)[back]
            totals = [torch.stack(each, dim=1) for each in self.totals]
            errors = torch.cat(totals).to(self.wide)[back]
        weight = self.module.weight
        width = weight[0].numel() + self.bias
        layer = Layer(name, len(weight), width, bias=self.bias)
        H = [self.H[group] for group in groups]
        Delta = [self.Delta[group] for group in groups]
        return layer, Moments(H, Delta, tuple(roots), inputs, errors)


def _below(columns: Tensor, row: Tensor) -> Tensor:
    """Columns (d, m) with one more row (1, m); views of rows stay views of rows."""
    if columns.stride(0) == 1:
        beside = torch.cat([columns.T, row.T], dim=1)
        return beside.T
    return torch.cat([columns, row])


def _side_by_side(columns: Sequence[Tensor]) -> Tensor:
    """Columns (d, m) of several, (d, sum of m); views of rows stay views of rows."""
    if columns[0].stride(0) == 1:
        return torch.cat([each.T for each in columns]).T
    return torch.cat(columns, dim=1)


def _input_columns(module: nn.Module, inputs: Tensor) -> Tensor:
    """What a layer sees, (d, samples x positions), sample after sample."""
    if isinstance(module, nn.Linear):
        return inputs.reshape(-1, inputs.shape[-1]).T
    patches = input_positions(module, inputs).transpose(1, 2)  # (n, d, t)
    return patches.transpose(0, 1).flatten(1)


def _error_columns(module: nn.Module, errors: Tensor) -> Tensor:
    """Errors (o, samples x positions), sample after sample."""
    if isinstance(module, nn.Linear):
        return errors.reshape(-1, errors.shape[-1]).T
    by_channel = errors.flatten(2)  # (n, o, t)
    return by_channel.transpose(0, 1).flatten(1)


class MomentPasses:
    """Factors of some layers over samples in groups.

    Args:
        network: A network in evaluation mode.
        inputs: Samples (n, ...).
        groups: The group (n,) of each sample, counted from 0 without gaps.
        layers: Linear layers by name, and whether their bias is there.
        wanted: What is measured of them.
        batch: Samples a pass; None: by device and budget.
    """

    def __init__(
        self,
        network: nn.Module,
        inputs: Tensor,
        groups: Tensor,
        layers: Mapping[str, bool],
        *,
        wanted: Wanted,
        batch: int | None = None,
    ) -> None:
        self.outputs = Outputs(network)
        self.modules = {name: network.get_submodule(name) for name in layers}
        self.biases = dict(layers)
        self.wanted = wanted

        # groups one after another: those of a batch lie side by side
        self.order = groups.argsort(stable=True)
        self.inputs = inputs
        self.groups = groups
        self.members = groups.bincount().tolist()
        self._batch = batch

    def factor_bytes(self) -> dict[str, int]:
        """Bytes of every layer's factors."""
        found = {}
        for name, module in self.modules.items():
            weight = module.weight
            width = weight[0].numel() + self.biases[name]
            numbers = len(self.members) * (width**2 + len(weight) ** 2)
            wide = accumulation_dtype(weight.device)
            found[name] = numbers * (torch.finfo(wide).bits // 8)
        return found

    def run(self, names: Sequence[str]) -> dict[str, tuple[Layer, Moments]]:
        """Factors of some of the layers, by one pass over all samples, where they fit."""
        sizes = self.factor_bytes()
        needed = sum(sizes[name] for name in names)
        # what is asked for is not part of a budget, but it must fit somewhere
        there = memory.capacity(self.inputs.device)
        refuse_too_large(needed, there, f"factors of {', '.join(names)}")
        size = self._batch or self._fitting(names)

        def work(samples: int) -> dict[str, tuple[Layer, Moments]]:
            sums = self._new_sums(names)
            for chosen in self.order.split(samples):
                self._add(sums, chosen)
            return {name: each.result(name, self.order) for name, each in sums.items()}

        return memory.halving(work, size, what="samples a pass of curvature")

    def _new_sums(self, names: Sequence[str]) -> dict[str, _Sums]:
        """Empty sums."""
        found = {}
        for name in names:
            found[name] = _Sums(
                self.modules[name],
                bias=self.biases[name],
                members=self.members,
                wanted=self.wanted,
            )
        return found

    def _fitting(self, names: Sequence[str]) -> int:
        """Samples a pass, by what one takes beside the factors."""
        some = self.inputs[self.order[:2]]
        group = int(self.groups[self.order[0]])

        def passed(inputs: Tensor) -> None:
            # errors of all columns may wait for each other
            sums = self._new_sums(names)
            self._add_batch(sums, inputs, [_Part(group, 0, len(inputs))], first=_MEASURED)

        return fitting_batch(passed, some, largest=batch_size(some.device))

    def _add(self, sums: Mapping[str, _Sums], chosen: Tensor) -> None:
        """Add the samples with these numbers."""
        groups, counts = self.groups[chosen].unique_consecutive(return_counts=True)
        parts = []
        first = 0
        for group, count in zip(groups.tolist(), counts.tolist()):
            last = first + count
            parts.append(_Part(group, first, last))
            first = last
        self._add_batch(sums, self.inputs[chosen], parts)

    def _add_batch(
        self,
        sums: Mapping[str, _Sums],
        inputs: Tensor,
        parts: Sequence[_Part],
        *,
        first: int | None = None,
    ) -> None:
        """One pass forth, and one back for every column of the loss's root, or the first ones."""
        count = len(inputs)
        layers = {name: self.modules[name] for name in sums}
        passed = layer_pass(self.outputs, inputs, layers)
        with torch.no_grad():
            for name in passed.layers:
                sums[name].see(passed.inputs(name), parts, count)

        # errors towards one column at a time; curvature is a mean over all samples
        columns = loss_columns(passed.outputs, self.wanted.loss)[:first]
        scaled = columns / len(self.inputs) ** 0.5
        for name in passed.layers:
            sums[name].totals.append([])
        for number, cotangent in enumerate(scaled):
            errors = passed.errors(cotangent, last=number == len(scaled) - 1)
            for name, uses in errors.items():
                sums[name].hear(uses, parts, count)
        for name in passed.layers:
            sums[name].finish_batch()


def loss_columns(outputs: Tensor, loss: str) -> Tensor:
    """The columns of L (k, n, C) at outputs (n, C); the loss's Hessian in the outputs is L L^T."""
    samples, classes = outputs.shape
    wide = outputs.to(accumulation_dtype(outputs.device))
    units = torch.eye(classes, device=wide.device, dtype=wide.dtype)
    spread = units[:, None].expand(-1, samples, -1)
    columns = loss_factor_times(wide, spread, loss)
    return columns.to(outputs.dtype)
