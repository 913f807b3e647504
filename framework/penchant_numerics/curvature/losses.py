"""Losses by name: those that are built in, and a function of the user's own.

A loss that is built in is one entry of `LOSSES`: its mean, what it is called in a result, and what
is known in closed form of its Hessian H = L L^T in the outputs, where something is. With it,
Gauss-Newton matrices need no automatic differentiation of the loss.

A loss of one's own is `module:function` of outputs (n, C) and labels (n, ...); it gives one number
per sample, (n,), or their mean. Its Hessian in the parameters needs nothing else.

In a network with one output, cross-entropy takes the output for the difference of two logits.
"""

import importlib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from penchant_numerics.data import IGNORED, as_rows
from penchant_numerics.refusal import Refusal
from torch import Tensor
from torch.nn import functional

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

MeanLoss = Callable[[Tensor, Tensor], Tensor]  # outputs, labels -> mean loss


class FactorTimes(Protocol):
    """L u, or L^T u, at outputs (n, C), or (n, positions, C), for vectors u (..., n, C)."""

    def __call__(self, outputs: Tensor, vectors: Tensor, *, transposed: bool = False) -> Tensor:
        """The products, as the vectors."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A loss by name.

    Args:
        mean: The mean loss of outputs and labels.
        meaning: What a result calls it.
        best_constant: The loss of the best outputs that do not depend on the input, of labels and
            the number of outputs; None where it is not known.

    >>> loss_named("squared-error").best_constant(torch.tensor([[0.0], [2.0]], device="cpu"), 1)
    0.5
    """

    mean: MeanLoss
    meaning: str
    best_constant: Callable[[Tensor, int], float] | None = None


@dataclass(frozen=True, kw_only=True)
class ClosedForm(Loss):
    """A loss whose Hessian H = L L^T in the outputs is known.

    Args:
        hessian_times: H u, of outputs (n, C), or (n, positions, C), and vectors u (..., n, C).
        factor_times: L u, or L^T u.

    >>> outputs, u = torch.zeros(1, 2, device="cpu"), torch.tensor([[1.0, -1.0]], device="cpu")
    >>> closed_form("cross-entropy").hessian_times(outputs, u)  # diag(p) - p p^T with p = 1/2
    tensor([[ 0.5000, -0.5000]])
    """

    hessian_times: Callable[[Tensor, Tensor], Tensor]
    factor_times: FactorTimes


def own_loss(name: str) -> MeanLoss:
    """The user's function, as a mean over samples.

    Raises:
        Refusal: There is no such function.
    """
    module, _, attribute = name.partition(":")
    try:
        function = operator.attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise Refusal(f"the loss {name!r} cannot be loaded: {error}") from error

    def mean(outputs: Tensor, labels: Tensor) -> Tensor:
        value = function(outputs, labels)
        if not isinstance(value, Tensor) or value.shape not in ((), (len(outputs),)):
            shape = tuple(getattr(value, "shape", ()))
            expected = f"expected a tensor of one number, or one per sample ({len(outputs)},)"
            raise Refusal(f"the loss {name!r} gives {type(value).__name__} {shape}, {expected}")
        return value.mean()

    return mean


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


def _binary_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean over samples of the sum over outputs; labels 0 or 1, or chances between them.

    >>> zeros = torch.zeros(1, 2, device="cpu")
    >>> float(_binary_cross_entropy(zeros, torch.ones(1, 2, device="cpu")))  # 2 log 2
    1.3862943649291992
    """
    targets = labels.to(outputs.dtype).reshape(outputs.shape)
    each = functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")
    return each.flatten(1).sum(1).mean()


def _softmax_hessian_times(outputs: Tensor, vectors: Tensor) -> Tensor:
    """(diag p - p p^T) u, or s (1 - s) u for one output."""
    if outputs.shape[-1] == 1:
        return outputs.sigmoid() * (-outputs).sigmoid() * vectors
    share = outputs.softmax(-1)
    return share * _around_mean(share, vectors)


def _softmax_factor_times(outputs: Tensor, vectors: Tensor, *, transposed: bool = False) -> Tensor:
    """L u with L = diag(sqrt p) - p sqrt(p)^T, or L^T u."""
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


def _identity_times(outputs: Tensor, vectors: Tensor) -> Tensor:
    return vectors


def _identity_factor_times(outputs: Tensor, vectors: Tensor, *, transposed: bool = False) -> Tensor:
    return vectors


def _entropy(labels: Tensor, outputs: int) -> float:
    """Of the shares of classes; a class without samples costs nothing."""
    shares = labels.cpu().bincount().double() / len(labels)
    return float(torch.special.entr(shares).sum())


def _half_variance(labels: Tensor, outputs: int) -> float:
    """Half the mean squared distance of labels from their mean."""
    if labels.is_floating_point():
        numbers = labels.double().reshape(len(labels), -1)
        return float((numbers - numbers.mean(0)).square().sum(1).mean()) / 2
    shares = labels.cpu().bincount().double() / len(labels)
    # unit vectors are half as far apart as -1 and 1, squared
    away = 1 - float(shares.square().sum())
    return away if outputs == 1 else away / 2


def _binary_entropy(labels: Tensor, outputs: int) -> float:
    """Of the share of yes of each output, summed over outputs."""
    chances = labels.double().reshape(len(labels), -1).mean(0)
    return float((torch.special.entr(chances) + torch.special.entr(1 - chances)).sum())


LOSSES: dict[str, Loss] = {
    "cross-entropy": ClosedForm(
        mean=_cross_entropy,
        meaning="softmax cross-entropy, true Fisher",
        best_constant=_entropy,
        hessian_times=_softmax_hessian_times,
        factor_times=_softmax_factor_times,
    ),
    "squared-error": ClosedForm(
        mean=_squared_error,
        meaning="half the squared error, summed over outputs",
        best_constant=_half_variance,
        hessian_times=_identity_times,
        factor_times=_identity_factor_times,
    ),
    "binary-cross-entropy": Loss(
        mean=_binary_cross_entropy,
        meaning="cross-entropy of a yes or no for each output, summed over outputs",
        best_constant=_binary_entropy,
    ),
}


def loss_named(name: str) -> Loss:
    """A loss that is built in, or the user's own.

    Args:
        name: A name of `LOSSES`, or `module:function`.

    Raises:
        Refusal: There is no such loss.

    >>> loss_named("cross-entropy").meaning
    'softmax cross-entropy, true Fisher'
    """
    if _TARGET.fullmatch(name):
        return Loss(mean=own_loss(name), meaning=f"the user's own, {name}")
    if name not in LOSSES:
        raise Refusal(f"loss must be {' or '.join(['module:function', *LOSSES])}, found {name!r}")
    return LOSSES[name]


def loss_function(name: str) -> MeanLoss:
    """Mean loss of outputs (samples, outputs) against labels.

    Of outputs (samples, positions, C) it is the mean over all positions that count (`sequences`).

    Args:
        name: `cross-entropy`; `squared-error`, half the sum over outputs; `binary-cross-entropy`,
            the sum over outputs; or `module:function` of one's own.

    >>> zeros = torch.zeros(1, 2, device="cpu")
    >>> float(loss_function("squared-error")(zeros, torch.ones(1, 2, device="cpu")))
    1.0
    """
    return loss_named(name).mean


def has_closed_form(name: str) -> bool:
    """Whether the Hessian of a loss in the outputs is known.

    >>> [name for name in LOSSES if has_closed_form(name)]
    ['cross-entropy', 'squared-error']
    """
    return isinstance(LOSSES.get(name), ClosedForm)


def closed_form(name: str) -> ClosedForm:
    """A loss whose Hessian in the outputs is known; another is refused.

    >>> zeros = torch.zeros(1, 2, device="cpu")
    >>> closed_form("cross-entropy").hessian_times(zeros, torch.eye(2, device="cpu")[:, None])
    tensor([[[ 0.2500, -0.2500]],
    <BLANKLINE>
            [[-0.2500,  0.2500]]])
    """
    loss = LOSSES.get(name)
    if not isinstance(loss, ClosedForm):
        known = ", ".join(filter(has_closed_form, LOSSES))
        raise Refusal(f"loss must be one of {known}, found {name!r}")
    return loss


def conventions(loss: str, reduction: str, *, sequences: bool = False) -> dict[str, str]:
    """What makes curvatures incomparable; refuses what is not known.

    Args:
        loss: A loss by name, or `module:function`.
        reduction: `mean` or `sum`.
        sequences: Whether samples are sequences, with a loss at every position.

    Returns:
        Text by name, for a result.

    >>> conventions("squared-error", "sum")
    {'loss': 'half the squared error, summed over outputs', 'reduction': 'sum over samples'}
    """
    if reduction not in ("mean", "sum"):
        raise Refusal(f"reduction must be mean or sum, found {reduction!r}")
    terms = "samples"
    if sequences:
        terms = f"positions whose label is not {IGNORED}, of all sequences together"
    return {"loss": loss_named(loss).meaning, "reduction": f"{reduction} over {terms}"}


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
        Refusal: Cross-entropy, and numbers that are no probabilities.

    >>> check_labels("cross-entropy", torch.tensor([0, 3], device="cpu"))
    """
    if fits_labels(loss, labels):
        return
    low, high = float(labels.min()), float(labels.max())
    raise Refusal(
        "cross-entropy needs labels that are classes or probabilities, found numbers from "
        f'{low:.4g} to {high:.4g}; loss = "squared-error" takes them'
    )
