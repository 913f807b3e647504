"""The Hessian of the mean loss, matrix-free, and E = Hessian - Gauss-Newton.

A product is the gradient of <grad L, v>: one backward pass through the recorded gradient (Pearlmutter, Fast exact multiplication
by the Hessian, 1994). The recorded gradient of a batch is shared by a block of vectors, and kept between products while it fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from penchant_numerics.determinism import check_deterministic
from penchant_numerics.gauss_newton import KEPT_BYTES, GaussNewton, batch_size, conventions
from penchant_numerics.linearisation import Outputs, saved_bytes
from penchant_numerics.operators import Operator
from penchant_numerics.trainer import loss_function
from torch import Tensor, nn

Recorded = tuple[
    Sequence[Tensor], Sequence[Tensor]
]  # parameters, and the gradient as a function of them


class Hessian(Operator):
    """The Hessian of `network`'s loss on data (inputs, labels), averaged (or summed) over samples.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> x, y = torch.tensor([[2.0]], device="cpu"), torch.tensor([[0.0]], device="cpu")
    >>> Hessian(network, (x, y), loss="squared-error").dense().tolist()
    [[4.0]]
    """

    def __init__(
        self,
        network: nn.Module,
        data: Sequence[Tensor],
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
        self.inputs, self.labels = data
        self.batch = batch or batch_size(self.device)
        self.conventions = conventions(loss, reduction)
        self.scale = 1.0 / len(self.inputs) if reduction == "mean" else 1.0
        self._loss = loss_function(loss)
        if check:
            check_deterministic(network, self.inputs)
        self._records: list[Recorded] = []
        self._keep(keep)

    def _keep(self, budget: int) -> None:
        """Keep the recorded gradients of as many batches as fit."""
        first = next(iter(self._batches()))
        known = [*self.outputs.values, self.inputs, self.labels]
        size = saved_bytes(lambda: self._recorded(*first), known=known) if budget else 0
        wanted = budget // max(size, 1)
        self._records = [self._recorded(*batch) for _, batch in zip(range(wanted), self._batches())]
        self.kept_bytes = size * len(self._records)

    @property
    def kept(self) -> int:
        """Batches whose recorded gradients are kept."""
        return len(self._records)

    def _batches(self) -> zip[tuple[Tensor, Tensor]]:
        return zip(self.inputs.split(self.batch), self.labels.split(self.batch))

    def _recorded(self, inputs: Tensor, labels: Tensor) -> Recorded:
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            loss = self._loss(self.outputs(leaves, inputs), labels) * len(
                inputs
            )  # batches weigh what they hold
            return leaves, torch.autograd.grad(
                loss, leaves, create_graph=True, materialize_grads=True
            )

    def _rows(self, rows: Tensor) -> Tensor:
        total = torch.zeros_like(rows)
        for number, batch in enumerate(self._batches()):
            leaves, gradient = (
                self._records[number] if number < len(self._records) else self._recorded(*batch)
            )
            moving = [
                number for number, each in enumerate(gradient) if each.requires_grad
            ]  # a constant gradient adds nothing
            for position, (sum_, row) in enumerate(zip(total, rows)):
                if not moving:
                    continue
                along = self.layout.split(row)
                found = torch.autograd.grad(
                    [gradient[each] for each in moving],
                    leaves,
                    [along[each] for each in moving],
                    retain_graph=number < len(self._records) or position + 1 < len(rows),
                    materialize_grads=True,
                )
                self.layout.add_(sum_, found)
        return total.mul_(self.scale)


def residual(
    network: nn.Module,
    data: Sequence[Tensor],
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    reduction: str = "mean",
    batch: int | None = None,
    keep: int = KEPT_BYTES,
) -> Operator:
    """E = Hessian - G: the part of the Hessian that the curvature of the network makes, Ave_i sum_c (dL/df_c) Hess f_c."""
    options = {
        "loss": loss,
        "parameters": parameters,
        "reduction": reduction,
        "batch": batch,
        "keep": keep // 2,
    }
    return Hessian(network, data, **options) - GaussNewton(network, data, check=False, **options)
