"""The Hessian of the mean loss, matrix-free, and E = Hessian - Gauss-Newton.

A product is the gradient of <grad L, v>: one backward pass through the recorded gradient
(Pearlmutter, Fast exact multiplication by the Hessian, 1994). The recorded gradient of a batch is
shared by a block of vectors, and cached between products while it fits: its graph, not its values,
which are as large as all parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from penchant_numerics.curvature.gauss_newton import (
    LOSSES,
    PASS_SHARE,
    GaussNewton,
    KeptFor,
    counted_samples,
    default_cache,
)
from penchant_numerics.curvature.losses import conventions, loss_function
from penchant_numerics.data import are_sequences, positions_counted, samples_of
from penchant_numerics.device import (
    LiveBytes,
    batch_size,
    check_deterministic,
    fitting_batch,
    memory,
)
from penchant_numerics.jacobians import Outputs, trainable_names, vectors_together
from penchant_numerics.linear_algebra import Operator
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge


@dataclass(frozen=True)
class _RecordedGradient:
    """The gradient of a batch as a function of its parameters."""

    leaves: Sequence[Tensor]
    edges: Sequence[GradientEdge]  # of the gradients that are not constant
    moving: Sequence[int]  # and which parameters they are of

    def times(self, along: Sequence[Tensor], *, retain: bool) -> Sequence[Tensor] | None:
        """The gradient of <gradient, v>, by parameter; a constant gradient has none."""
        if not self.moving:
            return None
        directions = [along[number] for number in self.moving]
        return torch.autograd.grad(
            self.edges, self.leaves, directions, retain_graph=retain, materialize_grads=True
        )


class Hessian(Operator):
    """The Hessian of `network`'s loss on data (inputs, labels).

    Args:
        network: A network with outputs (samples, C), or (samples, positions, C).
        data: Inputs (n, ...) and labels, or a torch `DataLoader`, whose samples are read when they
            are needed; samples, and positions of sequences, with the label -100 are left out.
        loss: `cross-entropy`, `squared-error`, `binary-cross-entropy`, or `module:function`.
        parameters: Names or patterns of parameters (`parameters.select`); all by default.
        trainable_only: Leave frozen parameters out.
        reduction: `mean` or `sum` over samples, or over the positions of all sequences.
        batch: Samples per pass; by default as many as the device likes and the budget has room for.
        cache: Bytes that may be cached between products, a share of the budget by default;
            `cached_bytes` says how many are.
        check: Whether the network is tried for being the same function every time.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> x, y = torch.tensor([[2.0]], device="cpu"), torch.tensor([[0.0]], device="cpu")
    >>> Hessian(network, (x, y), loss="squared-error").dense().tolist()
    [[4.0]]
    """

    def __init__(
        self,
        network: nn.Module,
        data: Sequence[Tensor] | Iterable[Any],
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
        self._loss = loss_function(loss)

        # the data
        samples = samples_of(data, self.device, self.dtype)
        self.inputs, labels = counted_samples(samples, loss)
        if labels is None:
            raise ValueError("expected inputs and labels, found no labels")
        self.labels = labels
        self._positions = 1
        if loss in LOSSES and labels.is_floating_point():
            self._positions = self.outputs.sample_shape(self.inputs)[:-1].numel()
        sequences = are_sequences(self.labels)
        self.conventions = conventions(loss, reduction, sequences=sequences)
        self.scale = 1.0
        if reduction == "mean":
            self.scale = 1.0 / self.terms
        if check:
            check_deterministic(network, self.inputs)

        # what is cached between products
        self.batch = batch or self._fitting_batch()
        self._records: list[_RecordedGradient] = []
        self.cached_bytes = 0
        self._batch_bytes = 0  # that a whole batch stores
        if cache is None:
            cache = default_cache(self.device)
        if not memory.fits(lambda: self._fill_cache(cache), what="recorded gradients"):
            self._records = []
            self.cached_bytes = 0
        self._unchanged = KeptFor(self.outputs) if self._records else None

    def _fitting_batch(self) -> int:
        """Samples per pass, by what a product of one sample takes."""
        # any labels will do; samples are repeated where there is only one
        some = self.labels[:1]

        def product(inputs: Tensor) -> None:
            shape = some.shape[1:]
            labels = some.expand(len(inputs), *shape)
            along = [torch.zeros_like(value) for value in self.outputs.values]
            record = self._recorded(inputs, labels)
            record.times(along, retain=False)

        most = batch_size(self.device)
        if self.device.type == "meta":
            return most
        return fitting_batch(product, self.inputs, largest=most, share=PASS_SHARE)

    def _fill_cache(self, budget: int) -> None:
        """Keep the recorded gradients of as many batches as fit."""
        used = a_sample = 0.0
        for number, (inputs, labels) in enumerate(self._batches()):
            needed = used + a_sample * len(inputs)
            if not budget or needed > budget:
                break
            with LiveBytes() as live:
                record = self._recorded(inputs, labels)
            # all batches store as much per sample
            if number == 0:
                a_sample = live.alive() / len(inputs)
                self._batch_bytes = int(a_sample * self.batch)
            used += a_sample * len(inputs)
            # only the first can turn out to be too large
            if used > budget:
                break
            self._records.append(record)
            self.cached_bytes = round(used)

    @property
    def terms(self) -> int:
        """How many terms the loss is a mean of: samples, or positions that count."""
        return self._terms(self.labels)

    @property
    def cached(self) -> int:
        """Number of batches whose recorded gradients are cached."""
        return len(self._records)

    def _terms(self, labels: Tensor) -> int:
        """Samples, or positions of sequences that count: of labels that are numbers, all."""
        if not are_sequences(labels) or labels.is_meta:
            return len(labels) * self._positions
        return int(positions_counted(labels).sum())

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels, pass by pass."""
        inputs = self.inputs.split(self.batch)
        labels = self.labels.split(self.batch)
        return zip(inputs, labels)

    def _recorded(self, inputs: Tensor, labels: Tensor) -> _RecordedGradient:
        """The gradient of a batch's loss, which weighs what the batch holds."""
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            mean = self._loss(self.outputs(leaves, inputs), labels)
            gradient = torch.autograd.grad(
                mean * self._terms(labels), leaves, create_graph=True, materialize_grads=True
            )

        # of the gradient only its node in the graph is stored
        moving, edges = [], []
        for number, each in enumerate(gradient):
            if each.requires_grad:
                moving.append(number)
                edges.append(get_gradient_edge(each))
        return _RecordedGradient(leaves, edges, moving)

    def _rows(self, rows: Tensor) -> Tensor:
        def work(batch: int) -> Tensor:
            self.pass_at_once(batch)
            total = torch.zeros_like(rows)
            for number, (inputs, labels) in enumerate(self._batches()):
                self.add_product(total, rows, number, (inputs, labels))
            return self.scaled(total)

        return memory.halving(work, self.batch, what="samples per pass of Hessian products")

    def pass_at_once(self, batch: int) -> None:
        """Pass this many samples from now on; memory held for other batches is released."""
        if self._unchanged is not None:
            self._unchanged.check()
        if batch != self.batch:
            self.batch = batch
            self._records = []
            self._unchanged = None
            self.cached_bytes = 0

    def scaled(self, total: Tensor) -> Tensor:
        """Products, from the sum over all batches."""
        return total.mul_(self.scale)

    def add_product(
        self, total: Tensor, rows: Tensor, number: int, samples: tuple[Tensor, Tensor]
    ) -> None:
        """Add the product of rows with the contribution of one batch, not scaled.

        Args:
            total: Where to, rows (k, size).
            rows: The vectors (k, size).
            number: Which batch it is.
            samples: Its inputs and labels.
        """
        # what was cached, or what is recorded anew
        if number < len(self._records):
            self._add_products(total, rows, self._records[number], retain=True)
        else:
            record = self._recorded(*samples)
            self._add_products(total, rows, record, retain=False)

    def _add_products(
        self, total: Tensor, rows: Tensor, record: _RecordedGradient, *, retain: bool
    ) -> None:
        """Add a batch's products with all rows; the last one frees its graph unless cached."""
        together = self._vectors_together() if retain and record.moving else 1
        if together > 1 and len(rows) > 1:
            self._add_blocks(total, rows, record, together)
            return
        last = len(rows) - 1
        for position, (sum_, row) in enumerate(zip(total, rows)):
            along = self.layout.split(row)
            goes_on = retain or position < last
            product = record.times(along, retain=goes_on)
            if product is not None:
                self.layout.add_(sum_, product)

    def _vectors_together(self) -> int:
        """How many vectors are one product with a cached batch; one by one on a CPU."""
        if self.device.type == "cpu":
            return 1
        return vectors_together(self.layout, self._batch_bytes)

    def _add_blocks(
        self, total: Tensor, rows: Tensor, record: _RecordedGradient, together: int
    ) -> None:
        """Add a batch's products with some rows at a time."""

        def product(row: Tensor) -> Sequence[Tensor]:
            made = record.times(self.layout.split(row), retain=True)
            assert made is not None  # some parameters move
            return made

        if not record.moving:
            return
        for some, block in zip(total.split(together), rows.split(together)):
            self.layout.add_(some, torch.vmap(product)(block))


def residual(
    network: nn.Module,
    data: Sequence[Tensor],
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    trainable_only: bool = False,
    reduction: str = "mean",
    batch: int | None = None,
    cache: int | None = None,
) -> Operator:
    """E = Hessian - G: the term of the Hessian that comes from the curvature of the network.

    It is Ave_i sum_c (dL/df_c) Hess f_c.

    Args:
        network: A network with outputs (samples, C).
        data: Inputs (n, ...) and labels.
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters; all by default.
        trainable_only: Leave frozen parameters out.
        reduction: `mean` or `sum` over samples.
        batch: Samples per pass.
        cache: Bytes that both together may cache between products; by default each its share.

    Returns:
        The difference as an operator.
    """
    # each may cache half
    if cache is not None:
        cache = cache // 2
    hessian = Hessian(
        network,
        data,
        loss=loss,
        parameters=parameters,
        trainable_only=trainable_only,
        reduction=reduction,
        batch=batch,
        cache=cache,
    )
    gauss_newton = GaussNewton(
        network,
        data,
        loss=loss,
        parameters=parameters,
        trainable_only=trainable_only,
        reduction=reduction,
        batch=batch,
        cache=cache,
        check=False,
    )
    return hessian - gauss_newton
