"""Losses of one's own that are convex in the outputs, and their Gauss-Newton matrix.

J^T H J, with H the Hessian in the outputs, is a curvature only where H has no negative eigenvalue,
which is computed on the data.
"""

from collections.abc import Sequence
from typing import Any

import torch
from penchant_numerics.curvature.losses import MeanLoss, conventions, loss_function
from penchant_numerics.device import lacks_batching, warn_not_vectorised
from penchant_numerics.jacobians import Outputs
from penchant_numerics.linear_algebra import Operator
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn

ROUNDING = 1e-6  # of the largest eigenvalue in size: what is more negative is not convex


def output_hessians(loss: MeanLoss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Hessians of each sample's loss in its outputs, by automatic differentiation.

    Args:
        loss: The mean loss of outputs and labels.
        outputs: Where it is taken, (n, C).
        labels: Labels (n, ...).

    Returns:
        One matrix per sample, (n, C, C).
    """

    def of_sample(row: Tensor, label: Tensor) -> Tensor:
        return loss(row[None], label[None])

    rows = outputs.detach()
    hessian = torch.func.hessian(of_sample)
    try:
        hessians: Tensor = torch.func.vmap(hessian)(rows, labels)
    except RuntimeError as error:  # such as one_hot of labels, which looks at their values
        if not lacks_batching(error):
            raise
        warn_not_vectorised(error, "Hessians of the loss in the outputs")
        hessians = torch.stack([hessian(row, label) for row, label in zip(rows, labels)])
    return hessians.detach()


def check_convex(hessians: Tensor, name: str) -> None:
    """Refuse a loss that is not convex in the outputs.

    Args:
        hessians: As of `output_hessians`.
        name: The loss, for the message.

    Raises:
        Refusal: An eigenvalue is negative; the message has the smallest.
    """
    eigenvalues = torch.linalg.eigvalsh(hessians.double())
    smallest = float(eigenvalues.min())
    if smallest < -ROUNDING * float(eigenvalues.abs().max()):
        where = int(eigenvalues.min(1)[0].argmin())
        raise Refusal(
            f"the loss {name!r} is not convex in the outputs, so that it has no Gauss-Newton "
            f"matrix: its Hessian there has the eigenvalue {smallest:.3g} at sample {where}; "
            'hessian-spectrum with matrices = ["hessian"] takes any loss'
        )


def convex_hessians(
    network: nn.Module, inputs: Tensor, labels: Tensor, loss: str, *, batch: int = 128
) -> Tensor:
    """Hessians of the loss of each sample in the outputs of a network.

    Args:
        network: A network with outputs (samples, C).
        inputs: Samples.
        labels: Their labels.
        loss: A name of `LOSSES`, or `module:function`.
        batch: Samples per pass.

    Returns:
        One matrix per sample, (n, C, C).

    Raises:
        Refusal: The loss is not convex at the outputs.

    >>> inputs, labels = torch.zeros(1, 1, device="cpu"), torch.ones(1, 1, device="cpu")
    >>> network = nn.Linear(1, 1, bias=False)
    >>> convex_hessians(network, inputs, labels, "binary-cross-entropy")  # p (1 - p) at f = 0
    tensor([[[0.2500]]])
    """
    outputs = Outputs(network, None)
    with torch.no_grad():
        chunks = [outputs(outputs.values, each) for each in inputs.split(batch)]
    hessians = output_hessians(loss_function(loss), torch.cat(chunks), labels)
    check_convex(hessians, loss)
    return hessians


class OwnGaussNewton(Operator):
    """The Gauss-Newton matrix of the mean of a loss that is convex in the outputs, on these data.

    Args:
        network: A network with outputs (samples, C).
        data: Inputs and labels.
        loss: A name of `LOSSES`, or `module:function`.
        batch: Samples per pass.

    Raises:
        Refusal: The loss is not convex at the outputs.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> samples = (torch.tensor([[2.0]], device="cpu"), torch.ones(1, 1, device="cpu"))
    >>> torch.nn.init.zeros_(network.weight).shape
    torch.Size([1, 1])
    >>> OwnGaussNewton(network, samples, loss="binary-cross-entropy").dense()  # x^2 p (1 - p)
    tensor([[1.]])
    """

    def __init__(
        self, network: nn.Module, data: Sequence[Tensor], *, loss: str, batch: int = 128
    ) -> None:
        self.outputs = Outputs(network, None)
        layout = self.outputs.layout
        super().__init__(layout.size, device=layout.device, dtype=layout.dtype)
        self.conventions = conventions(loss, "mean")
        self.inputs, labels = data
        self.batch = batch
        self.hessians = convex_hessians(network, self.inputs, labels, loss, batch=batch)

    def _rows(self, rows: Tensor) -> Tensor:
        products = [self._product(row) for row in rows]
        return torch.stack(products)

    def _product(self, row: Tensor) -> Tensor:
        """G v, one batch after another: J v, then H J v, then J^T of that."""
        values = tuple(self.outputs.values)
        along = tuple(self.outputs.layout.split(row))
        total = torch.zeros_like(row)
        for inputs, hessians in zip(
            self.inputs.split(self.batch), self.hessians.split(self.batch), strict=True
        ):

            def outputs(*given: Any, inputs: Tensor = inputs) -> Tensor:
                return self.outputs(given, inputs)

            tangents: Tensor = torch.func.jvp(outputs, values, along)[1]
            curved = torch.einsum("nab,nb->na", hessians.to(tangents), tangents)
            pull = torch.func.vjp(outputs, *values)[1]
            gradients = pull(curved)
            total += torch.cat([each.reshape(-1) for each in gradients])
        return total / len(self.inputs)
