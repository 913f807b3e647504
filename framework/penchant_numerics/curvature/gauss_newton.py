r"""The Gauss-Newton matrix $G = \operatorname{Ave}_i J_i^\top H_i J_i$, matrix-free.

$H_i$ is the Hessian of the loss in the outputs: $\operatorname{diag} p - p p^\top$ for
cross-entropy ($s (1 - s)$ with a single output, the difference of two logits), the identity for
half the squared error. For softmax cross-entropy $G$ is the true Fisher information. $H = L L^\top$
with $L = \operatorname{diag}(\sqrt p) - p \sqrt{p}^\top$ gives $G = V V^\top$, whose columns are
the extended gradients $\sqrt{p_c / N}\, J^\top (e_c - p)$. In a sequence, every
position has its own $H$, and $N$ counts the positions (`sequences`). Products with $H$ take a few
sums over classes, never one pass per class.

References: Papyan, JMLR 2020; Martens, JMLR 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from penchant_numerics.curvature import losses
from penchant_numerics.data import IGNORED, are_sequences, samples_of
from penchant_numerics.device import (
    LiveBytes,
    batch_size,
    check_deterministic,
    fitting_batch,
    memory,
)
from penchant_numerics.jacobians import (
    Linearisation,
    NoForwardDerivativeError,
    NotRecordableError,
    Outputs,
    Unchanged,
    any_direction,
    dual_pass,
    linearise,
    trainable_names,
)
from penchant_numerics.linear_algebra import Factor, Operator
from torch import Tensor, nn

LOSSES = ("cross-entropy", "squared-error")
CACHE_SHARE = 0.25  # of the budget, for what batches cache between products
PASS_SHARE = 0.25  # of the budget, for one pass


def default_cache(device: torch.device) -> int:
    """Bytes that an operator may cache between products."""
    there = memory.available(device)
    return int(CACHE_SHARE * there)


# ---- the loss


def loss_hessian_times(outputs: Tensor, tangents: Tensor, loss: str) -> Tensor:
    """H u, the Hessian of the loss in the outputs times vectors.

    Args:
        outputs: Where the loss is taken, (n, C), or (n, positions, C).
        tangents: The vectors u (..., n, C), or (..., n, positions, C).
        loss: `cross-entropy` or `squared-error`.

    Returns:
        The products, as the vectors.
    """
    if loss == "squared-error":
        return tangents
    # one output is the difference of two logits
    if outputs.shape[-1] == 1:
        return outputs.sigmoid() * (-outputs).sigmoid() * tangents
    # (diag p - p p^T) u
    share = outputs.softmax(-1)
    return share * _around_mean(share, tangents)


def loss_factor_times(
    outputs: Tensor, vectors: Tensor, loss: str, *, transposed: bool = False
) -> Tensor:
    """L u, or L^T u, where the Hessian of the loss is H = L L^T.

    Args:
        outputs: Where the loss is taken, (n, C), or (n, positions, C).
        vectors: The vectors u (..., n, C), or (..., n, positions, C).
        loss: `cross-entropy` or `squared-error`.
        transposed: Whether it is L^T.

    Returns:
        The products, as the vectors.
    """
    if loss == "squared-error":
        return vectors
    # one output is the difference of two logits
    if outputs.shape[-1] == 1:
        root = (outputs.sigmoid() * (-outputs).sigmoid()).sqrt()
        return root * vectors
    share = outputs.softmax(-1)
    if transposed:
        return share.sqrt() * _around_mean(share, vectors)
    roots = share.sqrt() * vectors
    made = roots - share * roots.sum(-1, keepdim=True)
    # of the likeliest class, 1 - p is the sum of all others
    top = share.argmax(-1, keepdim=True)
    rest = share.scatter(-1, top, 0.0).sum(-1, keepdim=True)
    position = top.expand_as(roots[..., :1])
    own = roots.gather(-1, position)
    others = roots.scatter(-1, position, 0.0).sum(-1, keepdim=True)
    return made.scatter(-1, position, rest * own - share.gather(-1, top) * others)


def _around_mean(share: Tensor, vectors: Tensor) -> Tensor:
    """Vectors (..., C) without their mean under probabilities (..., C).

    Counted from the likeliest class: where its probability rounds to one, the mean of the vectors
    is its entry, and the difference of the two would be their rounding.
    """
    top = share.argmax(-1, keepdim=True).expand_as(vectors[..., :1])
    from_top = vectors - vectors.gather(-1, top)
    return from_top - (share * from_top).sum(-1, keepdim=True)


def conventions(loss: str, reduction: str, *, sequences: bool = False) -> dict[str, str]:
    """What makes curvatures incomparable; refuses what is not known.

    Args:
        loss: `cross-entropy` or `squared-error`.
        reduction: `mean` or `sum`.
        sequences: Whether samples are sequences, with a loss at every position.

    Returns:
        Text by name, for a result.
    """
    if loss not in LOSSES or reduction not in ("mean", "sum"):
        known = ", ".join(LOSSES)
        raise ValueError(
            f"loss must be one of {known} and reduction mean or sum, "
            f"found {loss!r} and {reduction!r}"
        )
    return losses.conventions(loss, reduction, sequences=sequences)


def counted_samples(data: tuple[Tensor, Tensor | None], loss: str) -> tuple[Tensor, Tensor | None]:
    """Inputs and labels without the samples that the loss leaves out.

    Cross-entropy ignores the label -100. Its mean is over the others, so that batches would have to
    be weighted by how many they have; without these samples all batches weigh what they hold. A
    sequence is left out where none of its positions counts.
    """
    inputs, labels = data
    if labels is None or (loss != "cross-entropy" and not are_sequences(labels)):
        return inputs, labels
    # labels that are numbers ignore nothing, and those on meta have no values
    if labels.is_floating_point() or labels.is_meta:
        return inputs, labels

    # whole inputs are not copied
    known = labels != IGNORED
    if are_sequences(labels):
        known = known.any(1)
    if bool(known.all()):
        return inputs, labels
    if not bool(known.any()):
        raise ValueError(
            f"all {len(labels)} labels are {IGNORED} (ignored): expected at least one that is not"
        )
    return inputs[known], labels[known]


# ---- the operator


class GaussNewton(Operator):
    """G of `network` on data (inputs, labels).

    Activations of as many batches as fit in `cache` bytes are stored between products, which cost
    4/3 of a gradient instead of 5/3; the others are computed anew on dual numbers. What is stored
    depends on the options only, never on free memory; `cached_bytes` is its size. `route`
    says how J v is computed, `reason` which operation made it double backward. Samples of a batch
    must not mix: batch-norm in evaluation mode.

    Args:
        network: A network with outputs (samples, C), or (samples, positions, C).
        data: Inputs (n, ...) and labels, or a torch `DataLoader`, whose samples are read when they
            are needed. Of labels only -100 matters, which leaves a sample, or a position of a
            sequence, out; they may be None.
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters (`parameters.select`); all by default.
        trainable_only: Leave frozen parameters out.
        reduction: `mean` or `sum` over samples, or over the positions of all sequences.
        batch: Samples per pass; by default as many as the device likes and the budget has room for.
        cache: Bytes that may be cached between products; a share of the budget by default.
        check: Whether the network is tried for being the same function every time.

    >>> network = nn.Linear(1, 2, bias=False)
    >>> G = GaussNewton(network, (torch.tensor([[2.0]], device="cpu"), None), loss="squared-error")
    >>> G.dense().tolist()                                            # x^2 times the identity
    [[4.0, 0.0], [0.0, 4.0]]
    """

    def __init__(
        self,
        network: nn.Module,
        data: Sequence[Tensor | None] | Iterable[Any],
        *,
        loss: str = "cross-entropy",
        parameters: str | Sequence[str] | None = None,
        trainable_only: bool = False,
        reduction: str = "mean",
        batch: int | None = None,
        cache: int | None = None,
        check: bool = True,
    ) -> None:
        if trainable_only:
            parameters = trainable_names(network, parameters)
        self.outputs = Outputs(network, parameters)
        self.layout = self.outputs.layout
        super().__init__(self.layout.size, device=self.layout.device, dtype=self.layout.dtype)
        self.loss = loss
        if cache is None:
            cache = default_cache(self.device)
        self.cache = cache

        # the data
        samples = samples_of(data, self.device, self.dtype)
        self.inputs, labels = counted_samples(samples, loss)
        if check:
            check_deterministic(network, self.inputs)
        self.output_shape = self.outputs.sample_shape(self.inputs)
        sequences = len(self.output_shape) == 2
        self.conventions = conventions(loss, reduction, sequences=sequences)
        self._counted = _counted_of(labels, self.output_shape)
        self.scale = 1.0
        if reduction == "mean":
            self.scale = 1.0 / self.terms

        # how J v is computed, and what is cached for it
        self.route = "dual"
        self.reason = ""
        self._recordable = True
        self._lines: list[Linearisation] = []
        self._tangents: list[Tensor] | None = None
        self._unchanged: KeptFor | None = None
        self.batch = batch or self._fitting_batch()
        self._prepare(check=check)

    def _fitting_batch(self) -> int:
        """Samples per pass, by what a product of one sample takes."""

        def product(inputs: Tensor) -> None:
            rows = torch.zeros(1, self.size, device=self.device, dtype=self.dtype)
            line = self._linearised(inputs)
            if line is None:
                self._add_dual(rows, rows.clone(), inputs)
            else:
                line.add_vjp(rows, line.jvp(rows))

        most = batch_size(self.device)
        if self.device.type == "meta":
            return most
        return fitting_batch(product, self.inputs, largest=most, share=PASS_SHARE)

    def _prepare(self, *, check: bool) -> None:
        """Find the route with the first batch, and cache linearisations while they fit."""
        self._tangents = any_direction(self.outputs)
        # streamed batches are read as they are needed
        others = iter(self._batches())
        first = next(others)

        # the first tells what a sample takes
        with LiveBytes() as live:
            line = self._linearised(first, check=check)
        self.cached_bytes = 0
        if line is not None:
            a_sample = live.alive() / len(first)
            self._fill_cache(line, first, others, a_sample=a_sample)
        # only recorded lines share their tangents
        if not self._lines or self.route != "dual":
            self._tangents = None
        self._unchanged = KeptFor(self.outputs) if self._lines else None

    def _fill_cache(
        self, line: Linearisation, first: Tensor, others: Iterable[Tensor], *, a_sample: float
    ) -> None:
        """Keep the first linearisation, and make those of other batches, while they fit."""
        # tangents, as large as all parameters, are one set for all batches
        number = torch.finfo(self.dtype).bits // 8
        used: float = self.size * number if self.route == "dual" else 0
        used += a_sample * len(first)
        if used > self.cache:
            return
        self._lines.append(line)

        for inputs in others:
            if used + a_sample * len(inputs) > self.cache:
                break
            another = self._linearised(inputs)
            # another batch may take another way through the network
            if another is None:
                break
            self._lines.append(another)
            used += a_sample * len(inputs)
        self.cached_bytes = round(used)

    def _linearised(self, inputs: Tensor, *, check: bool = False) -> Linearisation | None:
        """A linearisation by the route at hand; one that fails is left, with its reason."""
        if self.route == "dual" and self._recordable:
            try:
                return linearise(self.outputs, inputs, tangents=self._tangents, check=check)
            except NoForwardDerivativeError as error:
                self.route = "double-backward"
                self.reason = error.operation
            except NotRecordableError as error:
                self._recordable = False
                self.reason = str(error)
        if self.route == "double-backward":
            return linearise(self.outputs, inputs, route=self.route)
        return None

    @property
    def samples(self) -> int:
        """How many samples G is over."""
        return len(self.inputs)

    @property
    def terms(self) -> int:
        """How many terms the loss is a mean of: samples, or positions that count."""
        if self._counted is not None:
            return int(self._counted.sum())
        positions = self.output_shape[:-1].numel()
        return len(self.inputs) * positions

    @property
    def cached(self) -> int:
        """Number of batches whose activations are cached."""
        return len(self._lines)

    @property
    def sample_outputs(self) -> int:
        """Outputs of a sample, at all its positions."""
        return self.output_shape.numel()

    def _weights(self, number: int) -> Tensor | float:
        """What a batch's outputs are multiplied with: 0 at positions that do not count."""
        if self._counted is None:
            return 1.0
        start = number * self.batch
        end = start + self.batch
        return self._counted[start:end, :, None].to(self.dtype)

    def _batches(self) -> Iterable[Tensor]:
        """The inputs, pass by pass."""
        batches: Iterable[Tensor] = self.inputs.split(self.batch)
        return batches

    def _check_unchanged(self) -> None:
        """Refuse to use what was cached for other parameters."""
        if self._unchanged is not None:
            self._unchanged.check()

    # ---- products

    def _rows(self, rows: Tensor) -> Tensor:
        def work() -> Tensor:
            total = torch.zeros_like(rows)
            for number, inputs in enumerate(self._batches()):
                self.add_product(total, rows, number, inputs)
            return self.scaled(total)

        return self._in_passes(work)

    def _in_passes(self, work: Callable[[], Tensor]) -> Tensor:
        """Work pass by pass, with smaller ones as often as the device runs out of memory."""

        def passed(batch: int) -> Tensor:
            self.pass_at_once(batch)
            return work()

        return memory.halving(passed, self.batch, what="samples per pass of Gauss-Newton products")

    def pass_at_once(self, batch: int) -> None:
        """Pass this many samples from now on; memory held for other batches is released."""
        self._check_unchanged()
        if batch != self.batch:
            self.batch = batch
            self._lines = []
            self._tangents = None
            self._unchanged = None
            self.cached_bytes = 0

    def scaled(self, total: Tensor) -> Tensor:
        """Products, from the sum over all batches: each of them is scaled already."""
        return total

    def add_product(self, total: Tensor, rows: Tensor, number: int, inputs: Tensor) -> None:
        """Add the product of rows with the contribution of one batch.

        Args:
            total: Where to, rows (k, size).
            rows: The vectors (k, size).
            number: Which batch it is.
            inputs: Its inputs.
        """
        several = len(rows) > 1
        line = self._line(number, inputs, several=several)
        weights = self._weights(number)
        if line is None:
            self._add_dual(total, rows, inputs, weights)
            return
        # J^T H J v
        tangents = line.jvp(rows)
        curved = loss_hessian_times(line.outputs, tangents, self.loss)
        line.add_vjp(total, curved * (weights * self.scale))

    def _line(self, number: int, inputs: Tensor, *, several: bool) -> Linearisation | None:
        """A batch's linearisation: the cached one, or a new one where it pays.

        It pays where several products use it, or where the route needs it.
        """
        if number < len(self._lines):
            return self._lines[number]
        if several or self.route == "double-backward":
            return self._linearised(inputs)
        return None

    def _add_dual(
        self, total: Tensor, rows: Tensor, inputs: Tensor, weights: Tensor | float = 1.0
    ) -> None:
        """One pass on dual numbers a vector; its tangent's own graph is J^T."""
        for sum_, row in zip(total, rows):
            # J v
            tensors = self.layout.split(row)
            tangents = [each.detach().requires_grad_() for each in tensors]
            with torch.enable_grad():
                values, tangent, _ = dual_pass(self.outputs, inputs, tangents)
            # J^T H J v
            curved = loss_hessian_times(values, tangent.detach(), self.loss)
            pulled = torch.autograd.grad(
                tangent, tangents, curved * (weights * self.scale), materialize_grads=True
            )
            self.layout.add_(sum_, pulled)

    def factor(self) -> Factor:
        """V, from R^(samples x outputs), sample after sample, to parameters: G = V V^T.

        A sequence has as many outputs as positions times classes.
        """
        return Factor(
            size=self.size,
            samples=self.samples * self.sample_outputs,
            apply=self._apply,
            adjoint=self._adjoint,
            device=self.device,
            dtype=self.dtype,
        )

    def _apply(self, coefficients: Tensor) -> Tensor:
        """V u for rows u (k, samples x outputs)."""
        count = len(coefficients)

        def work() -> Tensor:
            by_sample = coefficients.reshape(count, self.samples, *self.output_shape)
            total = torch.zeros(count, self.size, device=self.device, dtype=self.dtype)
            # every batch has coefficients of its own
            coefficients_of = by_sample.split(self.batch, dim=1)
            batches = zip(self._batches(), coefficients_of)
            for number, (inputs, u) in enumerate(batches):
                self.add_applied(total, u, number, inputs)
            return total

        return self._in_passes(work)

    def add_applied(self, total: Tensor, u: Tensor, number: int, inputs: Tensor) -> None:
        """Add what one batch contributes to V u.

        Args:
            total: Where to, rows (k, size).
            u: Its coefficients (k, n, *output_shape).
            number: Which batch it is.
            inputs: Its inputs.
        """
        weighted = u * (self._weights(number) * self.scale**0.5)
        if number >= len(self._lines):
            self._add_backward(total, weighted, inputs)
            return
        # J^T L u
        line = self._lines[number]
        cotangents = loss_factor_times(line.outputs, weighted, self.loss)
        line.add_vjp(total, cotangents)

    def _add_backward(self, total: Tensor, coefficients: Tensor, inputs: Tensor) -> None:
        """One forward pass, and a backward pass a vector."""
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            outputs = self.outputs(leaves, inputs)
        for row, u in zip(total, coefficients):
            cotangent = loss_factor_times(outputs.detach(), u, self.loss)
            pulled = torch.autograd.grad(
                outputs, leaves, cotangent, retain_graph=True, materialize_grads=True
            )
            self.layout.add_(row, pulled)

    def _adjoint(self, rows: Tensor) -> Tensor:
        """V^T v for rows v (k, size)."""

        def work() -> Tensor:
            products = []
            for number, inputs in enumerate(self._batches()):
                products.append(self.adjoint_batch(rows, number, inputs))
            return torch.cat(products, dim=1).flatten(1)

        return self._in_passes(work)

    @torch.no_grad()
    def adjoint_batch(self, rows: Tensor, number: int, inputs: Tensor) -> Tensor:
        """The entries (k, n, *output_shape) of V^T v that belong to one batch.

        Args:
            rows: The vectors v (k, size).
            number: Which batch it is.
            inputs: Its inputs.

        Returns:
            The entries, in the order of the batch.
        """
        several = len(rows) > 1
        line = self._line(number, inputs, several=several)
        if line is None:
            values, tangents = self._dual_tangents(rows, inputs)
        else:
            values = line.outputs
            tangents = line.jvp(rows)
        # L^T J v
        made = loss_factor_times(values, tangents, self.loss, transposed=True)
        root: float = self.scale**0.5
        return made * (self._weights(number) * root)

    def _dual_tangents(self, rows: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (n, C), and J v (k, n, C) by a pass a vector."""
        tangents = []
        for row in rows:
            along = self.layout.split(row)
            values, tangent, _ = dual_pass(self.outputs, inputs, along)
            tangents.append(tangent)
        return values, torch.stack(tangents)


def _counted_of(labels: Tensor | None, shape: torch.Size) -> Tensor | None:
    """Which positions (n, positions) count; None where all do, or where there are none.

    Args:
        labels: Of the samples.
        shape: Of one sample's outputs.
    """
    if len(shape) == 1 or not are_sequences(labels) or labels.is_meta:
        return None
    if labels.shape[1] != shape[0]:
        raise ValueError(
            f"outputs have {shape[0]} positions, found labels of {labels.shape[1]} positions"
        )
    return labels != IGNORED


class KeptFor:
    """The parameters that a cache belongs to; refuses to go on when they have changed.

    Args:
        outputs: The network as a function of these parameters.
    """

    def __init__(self, outputs: Outputs) -> None:
        # parameters on meta have no values that could change
        self._same = None
        if outputs.layout.device.type != "meta":
            self._same = Unchanged(outputs.parameters)

    def check(self) -> None:
        """Refuse parameters that are not what they were."""
        changed = None
        if self._same is not None:
            changed = self._same.first_changed()
        if changed is not None:
            raise ValueError(
                f"parameter {changed!r} has changed since this operator cached its activations; "
                "make a new operator, or switch the cache off (cache=0)"
            )
