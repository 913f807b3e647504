"""Losses by name: those that are built in, and a function of the user's own.

A loss of one's own is `module:function` of outputs (n, C) and labels (n, ...); it gives one number
per sample, (n,), or their mean. Its Hessian in the parameters needs nothing else. The Gauss-Newton
matrix J^T H J, with H the Hessian in the outputs, is a curvature only where H has no negative
eigenvalue, which is computed on the data.
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from penchant_numerics.data import IGNORED, as_rows
from penchant_numerics.device import lacks_batching, warn_not_vectorised
from penchant_numerics.jacobians import Outputs
from penchant_numerics.linear_algebra import Operator
from torch import Tensor, nn
from torch.nn import functional

BUILT_IN = {
    "cross-entropy": "softmax cross-entropy, true Fisher",
    "squared-error": "half the squared error, summed over outputs",
    "binary-cross-entropy": "cross-entropy of a yes or no for each output, summed over outputs",
}
ROUNDING = 1e-6  # of the largest eigenvalue in size: what is more negative is not convex
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

Loss = Callable[[Tensor, Tensor], Tensor]  # outputs, labels -> mean loss


def is_own(name: str) -> bool:
    """Is it a function of the user's?"""
    return _TARGET.fullmatch(name) is not None


def own_loss(name: str) -> Loss:
    """The user's function, as a mean over samples.

    Raises:
        ValueError: There is no such function.
    """
    module, _, attribute = name.partition(":")
    try:
        function = operator.attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the loss {name!r} cannot be loaded: {error}") from error

    def mean(outputs: Tensor, labels: Tensor) -> Tensor:
        value = function(outputs, labels)
        if not isinstance(value, Tensor) or value.shape not in ((), (len(outputs),)):
            shape = tuple(getattr(value, "shape", ()))
            expected = f"expected a tensor of one number, or one per sample ({len(outputs)},)"
            raise ValueError(f"the loss {name!r} gives {type(value).__name__} {shape}, {expected}")
        return value.mean()

    return mean


def fits_labels(loss: str, labels: Tensor) -> bool:
    """Whether a loss is defined for labels: cross-entropy takes classes and probabilities only.

    >>> fits_labels("cross-entropy", torch.tensor([0.5, 7.0], device="cpu"))
    False
    """
    if loss != "cross-entropy" or not labels.is_floating_point() or labels.is_meta:
        return True
    return bool(((labels >= 0) & (labels <= 1)).all())


def check_labels(loss: str, labels: Tensor) -> None:
    """Refuse to train with a loss that is not defined for the labels.

    Args:
        loss: A loss by name.
        labels: Labels (n, ...).

    Raises:
        ValueError: Cross-entropy, and numbers that are no probabilities.
    """
    if fits_labels(loss, labels):
        return
    low, high = float(labels.min()), float(labels.max())
    raise ValueError(
        "cross-entropy needs labels that are classes or probabilities, found numbers from "
        f'{low:.4g} to {high:.4g}; loss = "squared-error" takes them'
    )


def binary_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean over samples of the sum over outputs; labels 0 or 1, or chances between them.

    >>> zeros = torch.zeros(1, 2, device="cpu")
    >>> float(binary_cross_entropy(zeros, torch.ones(1, 2, device="cpu")))  # 2 log 2
    1.3862943649291992
    """
    targets = labels.to(outputs.dtype).reshape(outputs.shape)
    each = functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")
    return each.flatten(1).sum(1).mean()


def conventions(loss: str, reduction: str, *, sequences: bool = False) -> dict[str, str]:
    """What makes curvatures incomparable; refuses what is not known.

    Args:
        loss: A loss by name, or `module:function`.
        reduction: `mean` or `sum`.
        sequences: Whether samples are sequences, with a loss at every position.

    Returns:
        Text by name, for a result.
    """
    known = loss in BUILT_IN or is_own(loss)
    if not known or reduction not in ("mean", "sum"):
        listed = ", ".join(BUILT_IN)
        raise ValueError(
            f"loss must be one of {listed} or module:function and reduction mean or sum, "
            f"found {loss!r} and {reduction!r}"
        )
    meaning = BUILT_IN.get(loss, f"the user's own, {loss}")
    terms = "samples"
    if sequences:
        terms = f"positions whose label is not {IGNORED}, of all sequences together"
    return {"loss": meaning, "reduction": f"{reduction} over {terms}"}


def output_hessians(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
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
        ValueError: An eigenvalue is negative; the message has the smallest.
    """
    eigenvalues = torch.linalg.eigvalsh(hessians.double())
    smallest = float(eigenvalues.min())
    if smallest < -ROUNDING * float(eigenvalues.abs().max()):
        where = int(eigenvalues.min(1)[0].argmin())
        raise ValueError(
            f"the loss {name!r} is not convex in the outputs, so that it has no Gauss-Newton "
            f"matrix: its Hessian there has the eigenvalue {smallest:.3g} at sample {where}"
        )


def convex_hessians(
    network: nn.Module, inputs: Tensor, labels: Tensor, loss: str, *, batch: int = 128
) -> Tensor:
    """Hessians of the loss of each sample in the outputs of a network.

    Args:
        network: A network with outputs (samples, C).
        inputs: Samples.
        labels: Their labels.
        loss: A name of `BUILT_IN`, or `module:function`.
        batch: Samples per pass.

    Returns:
        One matrix per sample, (n, C, C).

    Raises:
        ValueError: The loss is not convex at the outputs.
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
        loss: A name of `BUILT_IN`, or `module:function`.
        batch: Samples per pass.

    Raises:
        ValueError: The loss is not convex at the outputs.
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


def loss_function(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Mean loss of outputs (samples, outputs) against labels.

    Of outputs (samples, positions, C) it is the mean over all positions that count (`sequences`).

    Args:
        name: `cross-entropy`; `squared-error`, half the sum over outputs; `binary-cross-entropy`,
            the sum over outputs; or `module:function` of one's own.
    """
    if is_own(name):
        return own_loss(name)
    built_in = {
        "cross-entropy": _cross_entropy,
        "squared-error": _squared_error,
        "binary-cross-entropy": binary_cross_entropy,
    }
    return built_in[name]


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean over samples; one output is the difference of two logits."""
    outputs, labels = as_rows(outputs, labels)
    if outputs.shape[1] > 1:
        return functional.cross_entropy(outputs, labels)
    # wrong where it is positive
    signs = 1 - 2 * labels.to(outputs.dtype)
    margins = signs * outputs[:, 0]
    losses = functional.softplus(margins)
    return losses.mean()


def _squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean over samples of half the sum of squares; classes are unit vectors, or -1 and 1."""
    if outputs.dim() == 3 and not labels.is_floating_point():
        return _squared_error_of_positions(outputs, labels)
    outputs, labels = as_rows(outputs, labels)
    width = outputs.shape[1]
    classes = not labels.is_floating_point()
    if classes and width > 1:
        labels = functional.one_hot(labels, width)
    elif classes:
        labels = 2 * labels - 1
    targets = labels.to(outputs.dtype).reshape(outputs.shape)
    squares = (outputs - targets).square()
    errors = squares.sum(1)
    return 0.5 * errors.mean()


def _squared_error_of_positions(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean over positions that count of half the squared distance from the label's unit vector."""
    outputs, labels = as_rows(outputs, labels)
    counted = (labels != IGNORED).to(outputs.dtype)
    targets = functional.one_hot(labels.clamp(min=0), outputs.shape[1])
    errors = (outputs - targets.to(outputs.dtype)).square().sum(1)
    return 0.5 * (errors * counted).sum() / counted.sum()
