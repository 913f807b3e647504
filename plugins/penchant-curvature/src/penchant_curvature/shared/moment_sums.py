"""Kronecker factors of one layer, summed batch after batch.

Inputs come on the way forth, errors on the way back, one column of the loss's root at a time.
Products of a batch are made in the network's precision and summed in double precision.

Positions of a convolution, or tokens, are samples of their own (`expand`), or inputs are averaged
and errors summed over them first (`reduce`): Eschenhagen et al., Kronecker-factored approximate
curvature for modern neural network architectures, NeurIPS 2023.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from penchant_numerics import Refusal
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.layers import input_positions, is_transposed, weight_matrix
from torch import Tensor, nn

from penchant_curvature.shared.linear_layers import Layer

POSITIONS = ("expand", "reduce")
_TOGETHER = 2048  # errors that are multiplied at once, or more where a sample has more


class UnreachedError(Refusal):
    """A layer that runs, and whose outputs the network's do not depend on differentiably."""


class IndefiniteError(Refusal):
    """Blocks between layers that no positive matrix has."""


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

    def joined(self) -> tuple[Tensor, Tensor]:
        """Inputs and errors of every sample, where they were stored."""
        assert self.inputs is not None and self.errors is not None
        return self.inputs, self.errors


@dataclass(frozen=True)
class Measured:
    """What is measured of all layers.

    Args:
        loss: `cross-entropy` or `squared-error`.
        positions: `expand` or `reduce`.
        joined: Whether what joins layers to each other is stored, too.
    """

    loss: str
    positions: str = "expand"
    joined: bool = False

    def __post_init__(self) -> None:
        if self.positions not in POSITIONS:
            choices = " or ".join(POSITIONS)
            raise Refusal(f"positions must be {choices}, found {self.positions!r}")


class Rows:
    """Samples of one group, side by side in a batch."""

    def __init__(self, group: int, first: int, last: int) -> None:
        self.group = group
        self.first = first
        self.last = last

    def of(self, columns: Tensor, samples: int) -> Tensor:
        """These samples' columns, of columns (d, samples x positions)."""
        positions = columns.shape[1] // samples
        first = self.first * positions
        last = self.last * positions
        return columns[:, first:last]


class LayerSums:
    """H, Delta and the other moments of one layer, batch after batch.

    Args:
        module: The layer.
        bias: Whether a bias is there, as a last input that is 1.
        members: Samples of each group.
        measured: What is measured.
    """

    def __init__(
        self, module: nn.Module, *, bias: bool, members: Sequence[int], measured: Measured
    ) -> None:
        self.module = module
        self.bias = bias
        self.members = members
        self.measured = measured
        self.positions = 0  # of a sample, over all uses
        weight = module.weight
        assert isinstance(weight, Tensor)
        self.wide = accumulation_dtype(weight.device)

        # sums by group, in double precision
        self.H: dict[int, Tensor] = {}
        self.Delta: dict[int, Tensor] = {}
        self.stored: dict[int, list[Tensor]] = {}
        self.waiting: list[Tensor] = []  # errors (o, m), towards one column of L after another
        self.means: list[Tensor] = []  # batch by batch
        self.totals: list[list[Tensor]] = []  # batch by batch, column by column

    # ---- on the way forth

    def see(self, uses: Sequence[Tensor], groups: Sequence[Rows], samples: int) -> None:
        """Add the inputs of all uses of the layer in a batch."""
        columns = [_input_columns(self.module, given) for given in uses]
        every = sum(each.shape[1] for each in columns)
        self.positions = every // samples
        if self.measured.joined and self.measured.positions == "expand" and self.positions > 1:
            raise IndefiniteError(
                f"one curvature over all layers needs positions = 'reduce', found 'expand' with "
                f"{self.positions} positions in a layer: positions of two layers have no common "
                "order, and the matrix would have negative eigenvalues"
            )
        if self._needs_sums:
            means = self._means(columns, samples)
        if self.measured.positions == "reduce":
            columns = [means]
        if self.measured.joined:
            joining = self._with_bias(means.to(self.wide))
            self.means.append(joining.T)
        for each in columns:
            for rows in groups:
                self._add_inputs(rows.group, rows.of(each, samples))

    @property
    def _needs_sums(self) -> bool:
        """Whether sums over positions are requested."""
        reduced = self.measured.positions == "reduce"
        return reduced or self.measured.joined

    def _means(self, columns: Sequence[Tensor], samples: int) -> Tensor:
        """Inputs (d, samples), averaged over positions of all uses."""
        by_sample = []
        for each in columns:
            positions = each.unflatten(1, (samples, -1))
            by_sample.append(positions)
        every = torch.cat(by_sample, dim=2)
        return every.mean(2)

    def _add_inputs(self, group: int, columns: Tensor) -> None:
        """Add h h^T of columns h (d, m), with a 1 below h for a bias, which needs no copy of h."""
        width = len(columns)
        size = width + self.bias
        if group not in self.H:
            self.H[group] = columns.new_zeros(size, size, dtype=self.wide)
        H = self.H[group]
        H[:width, :width] += columns @ columns.T
        if self.bias:
            total = columns.sum(1)
            H[width, :width] += total
            H[:width, width] += total
            H[width, width] += columns.shape[1]
        # few samples are a root of H that is smaller than H
        if 2 * self._count(group) <= size:
            stored = self.stored.setdefault(group, [])
            stored.append(self._with_bias(columns.to(self.wide)))

    def _with_bias(self, columns: Tensor) -> Tensor:
        """Columns (d, m), with a last row of ones for the bias."""
        if not self.bias:
            return columns
        ones = torch.ones_like(columns[:1])
        return torch.cat([columns, ones])

    def _count(self, group: int) -> int:
        """Inputs that a group has, all positions counted that are samples of their own."""
        samples = self.members[group]
        if self.measured.positions == "reduce":
            return samples
        return samples * self.positions

    # ---- on the way back

    def hear(self, uses: Sequence[Tensor | None], groups: Sequence[Rows], samples: int) -> None:
        """Add the errors of all uses towards one column of L."""
        columns_of_uses = [_error_columns(self.module, each) for each in uses if each is not None]
        if self._needs_sums:
            weight = weight_matrix(self.module)
            total = weight.new_zeros(len(weight), samples)
            for each in columns_of_uses:
                total += each.unflatten(1, (samples, -1)).sum(2)
            self.totals[-1].append(total.T)
        if self.measured.positions == "reduce":
            columns_of_uses = [total]
        for each in columns_of_uses:
            if self.waiting and self.waiting[0].shape != each.shape:
                self.add_errors(groups, samples)
            # few large products are faster than many
            self.waiting.append(each)
            if len(self.waiting) * each.shape[1] >= _TOGETHER:
                self.add_errors(groups, samples)

    def add_errors(self, groups: Sequence[Rows], samples: int) -> None:
        """Add what has waited to Delta: nothing waits for another batch."""
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        columns = _interleaved(waiting)
        for rows in groups:
            errors = rows.of(columns, samples)
            product = errors @ errors.T
            if rows.group in self.Delta:
                self.Delta[rows.group] += product
            else:
                self.Delta[rows.group] = product.to(self.wide)

    def result(self, name: str, order: Tensor) -> tuple[Layer, Moments]:
        """Factors of all samples; `order` is the one in which they came."""
        groups = range(len(self.members))
        roots = tuple(self._root(group) for group in groups)
        inputs = errors = None
        if self.measured.joined:
            inputs, errors = self._joining(order)
        H = [self.H[group].div_(self._count(group)) for group in groups]
        if len(self.Delta) < len(groups):
            hint = "let forward compute without detach and no_grad, from this layer to the outputs"
            raise UnreachedError(f"no gradient reaches the layer {name!r}; {hint}")
        Delta = [self.Delta[group] for group in groups]

        # a bias is one more input
        weight = weight_matrix(self.module)
        width = weight.shape[1] + self.bias
        layer = Layer(
            name, len(weight), width, bias=self.bias, transposed=is_transposed(self.module)
        )
        return layer, Moments(H, Delta, roots, inputs, errors)

    def _root(self, group: int) -> Tensor | None:
        """R (d, r) of H = R R^T, of a group with few samples."""
        stored = self.stored.get(group)
        if stored is None:
            return None
        root = torch.cat(stored, dim=1)
        return root.div_(self._count(group) ** 0.5)

    def _joining(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Means of inputs and sums of errors, samples in the order in which they were given."""
        back = order.argsort()
        inputs = torch.cat(self.means)[back]
        totals = [torch.stack(each, dim=1) for each in self.totals]
        errors = torch.cat(totals).to(self.wide)
        return inputs, errors[back]


def _interleaved(columns: Sequence[Tensor]) -> Tensor:
    """Columns (d, m) of k matrices as (d, m k): what belongs to one sample stays side by side."""
    if len(columns) == 1:
        return columns[0]
    rows = [each.T for each in columns]
    return torch.stack(rows, dim=1).flatten(0, 1).T


def _input_columns(module: nn.Module, inputs: Tensor) -> Tensor:
    """What a layer sees, (d, samples x positions), sample after sample."""
    if not isinstance(module, nn.Conv1d | nn.Conv2d):
        rows = inputs.reshape(-1, inputs.shape[-1])
        return rows.T
    patches = input_positions(module, inputs).transpose(1, 2)  # (n, d, t)
    by_input = patches.transpose(0, 1)
    return by_input.flatten(1)


def _error_columns(module: nn.Module, errors: Tensor) -> Tensor:
    """Errors (o, samples x positions), sample after sample."""
    if not isinstance(module, nn.Conv1d | nn.Conv2d):
        rows = errors.reshape(-1, errors.shape[-1])
        return rows.T
    positions = errors.flatten(2)  # (n, o, t)
    by_channel = positions.transpose(0, 1)
    return by_channel.flatten(1)
