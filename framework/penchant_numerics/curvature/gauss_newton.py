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

from collections.abc import Iterable

import torch
from penchant_numerics.curvature.loss_curvature import LossCurvature
from penchant_numerics.curvature.losses import closed_form
from penchant_numerics.data import IGNORED, are_sequences
from penchant_numerics.device import LiveBytes
from penchant_numerics.jacobians import (
    Linearisation,
    NoForwardDerivativeError,
    NotRecordableError,
    any_direction,
    dual_pass,
    linearise,
)
from penchant_numerics.linear_algebra import Factor
from penchant_numerics.refusal import Refusal
from torch import Tensor


class GaussNewton(LossCurvature[Tensor, Linearisation]):
    r"""The Gauss-Newton matrix of a network's loss on data (inputs, labels).

    .. math:: G = \frac{1}{N} \sum_i J_i^\top H_i J_i, \quad
        J_i = \partial f(x_i) / \partial \theta, \quad H_i = \nabla_f^2 \, \ell(f(x_i))

    Arguments are those of `LossCurvature`, with a loss whose H is known (`closed_form`). Of labels
    only -100 matters; they may be None. A product costs 4/3 of a gradient where the activations of
    a batch are cached, else 5/3, on dual numbers. `route` says how J v is computed, `reason` which
    operation made it double backward.

    Reference: Martens, JMLR 2020; Papyan, JMLR 2020.

    >>> import torch
    >>> network = torch.nn.Linear(1, 2, bias=False)
    >>> G = GaussNewton(network, (torch.tensor([[2.0]]), None), loss="squared-error")
    >>> G.dense()  # x^2 times the identity
    tensor([[4., 0.],
            [0., 4.]])
    """

    products = "Gauss-Newton products"

    def _use_loss(self, loss: str) -> bool:
        self._loss = closed_form(loss)
        self.output_shape = self.outputs.sample_shape(self.inputs)
        self._counted = _counted_of(self.labels, self.output_shape)
        # how J v is computed, and why
        self.route = "dual"
        self.reason = ""
        self._recordable = True
        self._tangents: list[Tensor] | None = None
        return len(self.output_shape) == 2

    def _try(self, inputs: Tensor) -> None:
        rows = torch.zeros(1, self.size, device=self.device, dtype=self.dtype)
        line = self._linearised(inputs)
        if line is None:
            self._add_dual(rows, rows.clone(), inputs)
        else:
            line.add_vjp(rows, line.jvp(rows))

    def _fill_cache(self, *, check: bool) -> None:
        """Find the route with the first batch, and cache linearisations while they fit."""
        self._tangents = any_direction(self.outputs)
        # streamed batches are read as they are needed
        others = iter(self._batches())
        first = next(others)

        # the first tells what a sample takes
        with LiveBytes() as live:
            line = self._linearised(first, check=check)
        if line is not None:
            self._store(line, first, others, a_sample=live.alive() / len(first))
        # only recorded lines share their tangents
        if not self._stored or self.route != "dual":
            self._tangents = None

    def _store(
        self, line: Linearisation, first: Tensor, others: Iterable[Tensor], *, a_sample: float
    ) -> None:
        """Keep the first linearisation, and make those of other batches, while they fit."""
        # tangents, as large as all parameters, are one set for all batches
        number = torch.finfo(self.dtype).bits // 8
        used: float = self.size * number if self.route == "dual" else 0
        used += a_sample * len(first)
        if used > self.cache:
            return
        self._stored.append(line)

        for inputs in others:
            if used + a_sample * len(inputs) > self.cache:
                break
            another = self._linearised(inputs)
            # another batch may take another way through the network
            if another is None:
                break
            self._stored.append(another)
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
    def terms(self) -> int:
        """How many terms the loss is a mean of: samples, or positions that count."""
        if self._counted is not None:
            return int(self._counted.sum())
        positions = self.output_shape[:-1].numel()
        return len(self.inputs) * positions

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

    def _release(self) -> None:
        super()._release()
        self._tangents = None

    # ---- products

    def add_product(self, total: Tensor, rows: Tensor, number: int, batch: Tensor) -> None:
        """Add the product of rows with the contribution of one batch, scaled already.

        Args:
            total: Where to, rows (k, size).
            rows: The vectors (k, size).
            number: Which batch it is.
            batch: Its inputs.
        """
        several = len(rows) > 1
        line = self._line(number, batch, several=several)
        weights = self._weights(number)
        if line is None:
            self._add_dual(total, rows, batch, weights)
            return
        # J^T H J v
        tangents = line.jvp(rows)
        curved = self._loss.hessian_times(line.outputs, tangents)
        line.add_vjp(total, curved * (weights * self.scale))

    def _line(self, number: int, inputs: Tensor, *, several: bool) -> Linearisation | None:
        """A batch's linearisation: the cached one, or a new one where it pays.

        It pays where several products use it, or where the route needs it.
        """
        if number < len(self._stored):
            return self._stored[number]
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
            curved = self._loss.hessian_times(values, tangent.detach())
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
        if number >= len(self._stored):
            self._add_backward(total, weighted, inputs)
            return
        # J^T L u
        line = self._stored[number]
        cotangents = self._loss.factor_times(line.outputs, weighted)
        line.add_vjp(total, cotangents)

    def _add_backward(self, total: Tensor, coefficients: Tensor, inputs: Tensor) -> None:
        """One forward pass, and a backward pass a vector."""
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            outputs = self.outputs(leaves, inputs)
        for row, u in zip(total, coefficients):
            cotangent = self._loss.factor_times(outputs.detach(), u)
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
        made = self._loss.factor_times(values, tangents, transposed=True)
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
        raise Refusal(
            f"outputs have {shape[0]} positions, found labels of {labels.shape[1]} positions"
        )
    return labels != IGNORED
