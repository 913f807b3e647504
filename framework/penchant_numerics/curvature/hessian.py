"""The Hessian of the mean loss, matrix-free, and E = Hessian - Gauss-Newton.

A product is the gradient of <grad L, v>: one backward pass through the recorded gradient
(Pearlmutter, Fast exact multiplication by the Hessian, 1994). The recorded gradient of a batch is
shared by a block of vectors, and cached between products while it fits: its graph, not its values,
which are as large as all parameters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.curvature.loss_curvature import LossCurvature
from penchant_numerics.curvature.losses import has_closed_form, loss_function
from penchant_numerics.data import are_sequences, positions_counted
from penchant_numerics.device import LiveBytes, memory
from penchant_numerics.jacobians import vectors_together
from penchant_numerics.refusal import Refusal
from torch import Tensor
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


class Hessian(LossCurvature[tuple[Tensor, Tensor], _RecordedGradient]):
    r"""The Hessian of a network's loss on data (inputs, labels).

    .. math:: \frac{1}{N} \sum_i \nabla_\theta^2 \, \ell(f_\theta(x_i), y_i)

    Arguments are those of `LossCurvature`, with any loss of `LOSSES` or `module:function`.

    Reference: Pearlmutter, Fast exact multiplication by the Hessian, 1994.

    >>> import torch
    >>> network = torch.nn.Linear(1, 1, bias=False)
    >>> x, y = torch.tensor([[2.0]]), torch.tensor([[0.0]])
    >>> Hessian(network, (x, y), loss="squared-error").dense()
    tensor([[4.]])
    """

    labels: Tensor
    products = "Hessian products"

    def _use_loss(self, loss: str) -> bool:
        if self.labels is None:
            raise Refusal("expected inputs and labels, found no labels")
        self._loss = loss_function(loss)
        self._positions = 1
        if has_closed_form(loss) and self.labels.is_floating_point():
            self._positions = self.outputs.sample_shape(self.inputs)[:-1].numel()
        self._batch_bytes = 0  # that a whole batch stores
        return are_sequences(self.labels)

    def _try(self, inputs: Tensor) -> None:
        # any labels will do
        some = self.labels[:1]
        labels = some.expand(len(inputs), *some.shape[1:])
        along = [torch.zeros_like(value) for value in self.outputs.values]
        self._recorded(inputs, labels).times(along, retain=False)

    def _fill_cache(self, *, check: bool) -> None:
        if not memory.fits(lambda: self._record(self.cache), what="recorded gradients"):
            self._release()

    def _record(self, budget: int) -> None:
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
            self._stored.append(record)
            self.cached_bytes = round(used)

    @property
    def terms(self) -> int:
        """How many terms the loss is a mean of: samples, or positions that count."""
        return self._terms(self.labels)

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

    def scaled(self, total: Tensor) -> Tensor:
        """Products, from the sum over all batches."""
        return total.mul_(self.scale)

    def add_product(
        self, total: Tensor, rows: Tensor, number: int, batch: tuple[Tensor, Tensor]
    ) -> None:
        """Add the product of rows with the contribution of one batch, not scaled.

        Args:
            total: Where to, rows (k, size).
            rows: The vectors (k, size).
            number: Which batch it is.
            batch: Its inputs and labels.
        """
        # what was cached, or what is recorded anew
        if number < len(self._stored):
            self._add_products(total, rows, self._stored[number], retain=True)
        else:
            record = self._recorded(*batch)
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
