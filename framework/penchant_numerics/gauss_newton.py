"""The Gauss-Newton matrix G = Ave_i J_i^T H_i J_i, matrix-free; for softmax cross-entropy the true Fisher information.

H_i is the Hessian of the loss in the outputs: diag p - p p^T for cross-entropy (s (1 - s) with a single output, the difference of
two logits), the identity for half the squared error. H = L L^T with L = diag(sqrt p) - p sqrt(p)^T makes G = V V^T, whose columns
are the extended gradients sqrt(p_c / N) J^T (e_c - p). Reference: Papyan, JMLR 2020; Martens, JMLR 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from penchant_numerics.determinism import check_deterministic
from penchant_numerics.linearisation import (
    Linearisation,
    NoForwardDerivativeError,
    Outputs,
    dual_pass,
    linearise,
)
from penchant_numerics.operators import Factor, Operator
from penchant_numerics.tape import NotRecordableError
from torch import Tensor, nn

LOSSES = ("cross-entropy", "squared-error")
KEPT_BYTES = 2**30  # activations of all batches together that are kept between products


def batch_size(device: torch.device) -> int:
    """Samples a pass, by device type: a CPU's caches like 128, a GPU wants more (`make bench`)."""
    return 128 if device.type == "cpu" else 1024


def curve(outputs: Tensor, tangents: Tensor, loss: str) -> Tensor:
    """H u for tangents u (..., n, C) at outputs (n, C)."""
    if loss == "squared-error":
        return tangents
    if outputs.shape[-1] == 1:
        share = outputs.sigmoid()
        return share * (1 - share) * tangents
    share = outputs.softmax(-1)
    return share * (tangents - (share * tangents).sum(-1, keepdim=True))


def root(outputs: Tensor, vectors: Tensor, loss: str, *, transposed: bool = False) -> Tensor:
    """L u, or L^T u, for vectors u (..., n, C) at outputs (n, C), where H = L L^T."""
    if loss == "squared-error":
        return vectors
    if outputs.shape[-1] == 1:
        share = outputs.sigmoid()
        return (share * (1 - share)).sqrt() * vectors
    share = outputs.softmax(-1)
    if transposed:
        return share.sqrt() * (vectors - (share * vectors).sum(-1, keepdim=True))
    return share.sqrt() * vectors - share * (share.sqrt() * vectors).sum(-1, keepdim=True)


class GaussNewton(Operator):
    """G of `network` on data (inputs, labels); labels are not used, they may be None.

    Activations of as many batches as `keep` bytes allow are kept between products, which then cost 4/3 of a gradient instead
    of 5/3; the others are computed anew on dual numbers. What is kept depends on the options only, never on free memory.
    `route` says how J v is computed, `reason` which operation made it double backward. Samples of a batch must not mix:
    batch-norm in evaluation mode.

    >>> network = nn.Linear(1, 2, bias=False)
    >>> G = GaussNewton(network, (torch.tensor([[2.0]], device="cpu"), None), loss="squared-error")
    >>> G.dense().tolist()                                            # x^2 times the identity
    [[4.0, 0.0], [0.0, 4.0]]
    """

    def __init__(
        self,
        network: nn.Module,
        data: Sequence[Tensor | None],
        *,
        loss: str = "cross-entropy",
        parameters: str | Sequence[str] | None = None,
        reduction: str = "mean",
        batch: int | None = None,
        keep: int = KEPT_BYTES,
        check: bool = True,
    ) -> None:
        self.outputs = Outputs(network, parameters)
        self.layout = self.outputs.layout
        super().__init__(self.layout.size, device=self.layout.device, dtype=self.layout.dtype)
        self.inputs, self.loss, self.keep = data[0], loss, keep
        self.batch = batch or batch_size(self.device)
        self.conventions = conventions(loss, reduction)
        self.scale = 1.0 / len(self.inputs) if reduction == "mean" else 1.0
        if check:
            check_deterministic(network, self.inputs)
        self.route, self.reason = "dual", ""
        self._recordable = True
        self._lines: list[Linearisation] = []
        self._prepare(check=check)

    def _prepare(self, *, check: bool) -> None:
        """Find the route with the first batch, and keep linearisations while they fit."""
        used = 0
        for number, inputs in enumerate(self._batches()):
            if number and (not self.keep or used + self._lines[0].bytes > self.keep):
                break
            line = self._linearised(inputs, check=check and number == 0)
            if line is None or used + line.bytes > self.keep:
                break
            self._lines.append(line)
            used += line.bytes
        self.kept_bytes = used

    def _linearised(self, inputs: Tensor, *, check: bool = False) -> Linearisation | None:
        """A linearisation by the route at hand; a route that fails is left for good, with its reason."""
        if self.route == "dual" and self._recordable:
            try:
                return linearise(self.outputs, inputs, check=check)
            except NoForwardDerivativeError as error:
                self.route, self.reason = "double-backward", error.operation
            except NotRecordableError as error:
                self._recordable, self.reason = False, str(error)
        return (
            linearise(self.outputs, inputs, route=self.route)
            if self.route == "double-backward"
            else None
        )

    @property
    def samples(self) -> int:
        return len(self.inputs)

    @property
    def kept(self) -> int:
        """Batches whose activations are kept."""
        return len(self._lines)

    def _batches(self) -> Iterator[Tensor]:
        return iter(self.inputs.split(self.batch))

    def _rows(self, rows: Tensor) -> Tensor:
        total = torch.zeros_like(rows)
        for number, inputs in enumerate(self._batches()):
            line = self._line(number, inputs, several=len(rows) > 1)
            if line is None:
                self._add_dual(total, rows, inputs)
            else:
                line.add_vjp(total, curve(line.outputs, line.jvp(rows), self.loss) * self.scale)
        return total

    def _line(self, number: int, inputs: Tensor, *, several: bool) -> Linearisation | None:
        """A batch's linearisation: the kept one, or a new one where several products, or the route, pay for it."""
        if number < len(self._lines):
            return self._lines[number]
        return self._linearised(inputs) if several or self.route == "double-backward" else None

    def _add_dual(self, total: Tensor, rows: Tensor, inputs: Tensor) -> None:
        """One pass on dual numbers a vector; its tangent's own graph is J^T."""
        for sum_, row in zip(total, rows):
            tangents = [each.detach().requires_grad_() for each in self.layout.split(row)]
            with torch.enable_grad():
                values, tangent, _ = dual_pass(self.outputs, inputs, tangents)
            cotangent = curve(values, tangent.detach(), self.loss) * self.scale
            self.layout.add_(
                sum_, torch.autograd.grad(tangent, tangents, cotangent, materialize_grads=True)
            )

    def factor(self) -> Factor:
        """V, from R^(samples x outputs), sample after sample, to parameters: G = V V^T."""
        return Factor(
            self.size,
            self.samples * self.classes,
            self._apply,
            self._adjoint,
            self.device,
            self.dtype,
        )

    @property
    def classes(self) -> int:
        """Outputs of the network."""
        if self._lines:
            return self._lines[0].outputs.shape[1]
        with torch.no_grad():
            return self.outputs(self.outputs.values, self.inputs[:1]).shape[1]

    def _apply(self, coefficients: Tensor) -> Tensor:
        total = torch.zeros(len(coefficients), self.size, device=self.device, dtype=self.dtype)
        columns = coefficients.reshape(len(coefficients), self.samples, -1).split(self.batch, dim=1)
        for number, (inputs, u) in enumerate(zip(self._batches(), columns)):
            if number < len(self._lines):
                line = self._lines[number]
                line.add_vjp(total, root(line.outputs, u, self.loss) * self.scale**0.5)
            else:
                self._add_backward(total, u * self.scale**0.5, inputs)
        return total

    def _add_backward(self, total: Tensor, coefficients: Tensor, inputs: Tensor) -> None:
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            outputs = self.outputs(leaves, inputs)
        for row, u in zip(total, coefficients):
            cotangent = root(outputs.detach(), u, self.loss)
            self.layout.add_(
                row,
                torch.autograd.grad(
                    outputs, leaves, cotangent, retain_graph=True, materialize_grads=True
                ),
            )

    @torch.no_grad()
    def _adjoint(self, rows: Tensor) -> Tensor:
        found = []
        for number, inputs in enumerate(self._batches()):
            line = self._line(number, inputs, several=len(rows) > 1)
            if line is None:
                passes = [dual_pass(self.outputs, inputs, self.layout.split(row)) for row in rows]
                values, tangents = passes[0][0], torch.stack([tangent for _, tangent, _ in passes])
            else:
                values, tangents = line.outputs, line.jvp(rows)
            found.append(root(values, tangents, self.loss, transposed=True))
        return torch.cat(found, dim=1).flatten(1).mul_(self.scale**0.5)


def conventions(loss: str, reduction: str) -> dict[str, str]:
    """What makes curvatures incomparable; refuses what is not known."""
    if loss not in LOSSES or reduction not in ("mean", "sum"):
        raise ValueError(
            f"loss must be one of {', '.join(LOSSES)} and reduction mean or sum, found {loss!r} and {reduction!r}"
        )
    half = {
        "cross-entropy": "softmax cross-entropy, true Fisher",
        "squared-error": "half the squared error, summed over outputs",
    }
    return {"loss": half[loss], "reduction": f"{reduction} over samples"}
