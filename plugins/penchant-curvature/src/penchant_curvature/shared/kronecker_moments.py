"""Kronecker factors of many layers in one pass over the samples.

A batch passes forth once, and every layer's inputs are added to its H as they come. It passes
back once for each column of the loss's root L (the Hessian of the loss in the outputs is L L^T):
the errors that arrive at all layers are added to their Delta. So all layers together cost one
forward pass and C - 1 backward passes, and only one column of errors is there at a time.

Samples are passed in the order of their groups, so that those of a group lie side by side in a
batch. What is summed of a layer is in `moment_sums`.
"""

from collections.abc import Mapping, Sequence

import torch
from penchant_numerics.curvature import closed_form
from penchant_numerics.device import accumulation_dtype, batch_size, fitting_batch, memory
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import layer_pass, weight_matrix
from torch import Tensor, nn

from penchant_curvature.shared.column_bytes import refuse_too_large
from penchant_curvature.shared.linear_layers import Layer
from penchant_curvature.shared.moment_sums import LayerSums, Measured, Moments, Rows

_MEASURED = 8  # columns that tell the bytes of a pass


class MomentPasses:
    """Factors of some layers over samples in groups.

    Args:
        network: A network in evaluation mode.
        inputs: Samples (n, ...).
        groups: The group (n,) of each sample, counted from 0 without gaps.
        layers: Linear layers by name, and whether their bias is there.
        measured: What is measured of them.
        batch: Samples per pass; None: by device and budget.
    """

    def __init__(
        self,
        network: nn.Module,
        inputs: Tensor,
        groups: Tensor,
        layers: Mapping[str, bool],
        *,
        measured: Measured,
        batch: int | None = None,
    ) -> None:
        self.outputs = Outputs(network)
        self.modules = {name: network.get_submodule(name) for name in layers}
        self.biases = dict(layers)
        self.measured = measured

        # groups one after another: those of a batch lie side by side
        self.order = groups.argsort(stable=True)
        self.inputs = inputs
        self.groups = groups
        self.members = groups.bincount().tolist()
        self._batch = batch

    def factor_bytes(self) -> dict[str, int]:
        """Bytes of every layer's factors."""
        sizes = {}
        for name, module in self.modules.items():
            weight = weight_matrix(module)
            width = weight.shape[1] + self.biases[name]
            of_a_group = width**2 + len(weight) ** 2
            numbers = len(self.members) * of_a_group

            # sums are wider than the network
            wide = accumulation_dtype(weight.device)
            a_number = torch.finfo(wide).bits // 8
            sizes[name] = numbers * a_number
        return sizes

    def run(self, names: Sequence[str]) -> dict[str, tuple[Layer, Moments]]:
        """Factors of some of the layers, by one pass over all samples, where they fit."""
        sizes = self.factor_bytes()
        needed = sum(sizes[name] for name in names)
        # requested operators may exceed the budget, but must fit into memory
        there = memory.capacity(self.inputs.device)
        those = ", ".join(names)
        refuse_too_large(needed, there, f"factors of {those}")
        size = self._batch or self._fitting(names)

        def work(samples: int) -> dict[str, tuple[Layer, Moments]]:
            sums = self._new_sums(names)
            for chosen in self.order.split(samples):
                self._add(sums, chosen)
            factors = {}
            for name, each in sums.items():
                factors[name] = each.result(name, self.order)
            return factors

        return memory.halving(work, size, what="samples per pass of curvature")

    def check_positions(self) -> None:
        """Refuse what the first sample shows to be refused: by one pass forth."""
        sums = self._new_sums(list(self.modules))
        first = self.order[:1]
        group = int(self.groups[first])
        with torch.no_grad():
            passed = layer_pass(self.outputs, self.inputs[first], self.modules)
            for name in passed.layers:
                sums[name].see(passed.inputs(name), [Rows(group, 0, 1)], 1)

    def _new_sums(self, names: Sequence[str]) -> dict[str, LayerSums]:
        """Empty sums."""
        sums = {}
        for name in names:
            sums[name] = LayerSums(
                self.modules[name],
                bias=self.biases[name],
                members=self.members,
                measured=self.measured,
            )
        return sums

    def _fitting(self, names: Sequence[str]) -> int:
        """Samples per pass, by what one takes beside the factors."""
        some = self.inputs[self.order[:2]]
        first = self.order[0]
        group = int(self.groups[first])

        def passed(inputs: Tensor) -> None:
            # errors of all columns may wait for each other
            sums = self._new_sums(names)
            rows = Rows(group, 0, len(inputs))
            self._add_batch(sums, inputs, [rows], first=_MEASURED)

        most = batch_size(some.device)
        return fitting_batch(passed, some, largest=most)

    def _add(self, sums: Mapping[str, LayerSums], chosen: Tensor) -> None:
        """Add the samples with these numbers."""
        theirs = self.groups[chosen]
        numbers, counts = theirs.unique_consecutive(return_counts=True)
        groups = []
        first = 0
        for group, count in zip(numbers.tolist(), counts.tolist()):
            last = first + count
            groups.append(Rows(group, first, last))
            first = last
        self._add_batch(sums, self.inputs[chosen], groups)

    def _add_batch(
        self,
        sums: Mapping[str, LayerSums],
        inputs: Tensor,
        groups: Sequence[Rows],
        *,
        first: int | None = None,
    ) -> None:
        """One pass forth, and one back for every column of the loss's root, or the first ones."""
        count = len(inputs)
        layers = {name: self.modules[name] for name in sums}
        passed = layer_pass(self.outputs, inputs, layers)
        with torch.no_grad():
            for name in passed.layers:
                sums[name].see(passed.inputs(name), groups, count)

        # errors towards one column at a time; curvature is a mean over all samples
        columns = loss_columns(passed.outputs, self.measured.loss)[:first]
        scaled = columns / len(self.inputs) ** 0.5
        for name in passed.layers:
            sums[name].totals.append([])
        for number, cotangent in enumerate(scaled):
            errors = passed.errors(cotangent, last=number == len(scaled) - 1)
            for name, uses in errors.items():
                sums[name].hear(uses, groups, count)
        for name in passed.layers:
            sums[name].add_errors(groups, count)


def loss_columns(outputs: Tensor, loss: str) -> Tensor:
    """The columns of L (k, n, C) at outputs (n, C); the loss's Hessian in the outputs is L L^T."""
    samples, classes = outputs.shape
    wide = outputs.to(accumulation_dtype(outputs.device))
    if loss == "cross-entropy" and classes > 1:
        columns = cross_entropy_root(wide.softmax(-1))
        return columns.to(outputs.dtype)

    # L times unit vectors
    units = torch.eye(classes, device=wide.device, dtype=wide.dtype)
    spread = units[:, None].expand(-1, samples, -1)
    columns = closed_form(loss).factor_times(wide, spread)
    return columns.to(outputs.dtype)


def cross_entropy_root(shares: Tensor) -> Tensor:
    """Cholesky's root of diag(p) - p p^T at probabilities p (n, C), in columns (C - 1, n, C).

    The last column would be 0: with p_j in [0, 1] and t_j = p_j + ... + p_C,
    L_jj^2 = p_j t_(j+1) / t_j and L_ij = -p_i (p_j / (t_j t_(j+1)))^(1/2) for i > j.
    """
    classes = shares.shape[-1]
    ones = shares.new_ones(classes, classes)
    after = shares @ ones.tril(-1)  # sums, not differences from 1: small ones are exact

    # where nothing follows, everything is 0
    least = torch.finfo(shares.dtype).tiny
    share_of_rest = shares / (shares + after).clamp_min(least)
    below = (share_of_rest / after.clamp_min(least)).sqrt()
    diagonal = (share_of_rest * after).sqrt()
    columns = -below.T[..., None] * shares * ones.triu(1)[:, None]
    columns += diagonal.diag_embed().transpose(0, 1)
    return columns[:-1]
