"""Samples on which a kernel is measured, and what its outputs should be there.

Alignment of a kernel with labels: CKA(K, y y^T) = y^T K y / (|K| |y|^2), all centred.

y is the vector of n C numbers that the one-hot labels of the samples make, one after another. Its
kernel has rank one, so alignments with thousands of permuted labels are one product.
"""

from typing import NamedTuple

import penchant
import torch
from penchant_numerics import Refusal
from penchant_numerics.curvature import loss_gradients, numbers_of
from penchant_numerics.data import Samples, kind_of
from penchant_numerics.training import outputs
from torch import Generator, Tensor, nn
from torch.nn import functional

_CHUNK = 8  # sequences of a pass


def sampled(samples: Samples, count: int, generator: Generator) -> Samples:
    """`count` of the samples in random order; all of them where there are fewer."""
    labels = samples.labels
    chosen = sample_numbers(len(labels), count, generator)
    return samples.select(chosen.to(labels.device))


def sample_numbers(available: int, count: int, generator: Generator) -> Tensor:
    """The numbers of the samples that `sampled` takes, in its order."""
    order = torch.randperm(available, generator=generator, device="cpu")
    return order[:count]


def targets(samples: Samples, context: penchant.Context) -> Tensor:
    """What the outputs of the context's networks should be on samples, (n, C)."""
    return targets_of(
        samples.labels, outputs=context.architecture.outputs, classes=context.data.classes
    )


class Kernelled(NamedTuple):
    """What a kernel is of: a function of inputs (n, ...), and what its outputs should be (n, C)."""

    network: nn.Module
    inputs: Tensor
    targets: Tensor


def kernelled(network: nn.Module, samples: Samples, context: penchant.Context) -> Kernelled:
    """The network and its samples; of sequences the losses, as a function of their numbers."""
    if not samples.kind.by_position:
        return Kernelled(network, samples.inputs, targets(samples, context))
    losses, numbers = loss_gradients(network, samples), numbers_of(samples.inputs)
    return Kernelled(losses, numbers, outputs(losses, numbers, chunk=_CHUNK).double())


def refuse_one_label(samples: Samples) -> None:
    """Labels that are all the same have no direction that anything could align with."""
    labels = samples.labels
    if bool((labels == labels[:1]).all()):
        raise penchant.Error(
            f"the labels of {len(labels)} samples are all the same, expected at least two: there "
            "is nothing to align with"
        )


CENTRING = {
    "outputs": "features around each output's own mean over samples",
    "all": "features around one mean over samples and outputs",
    "none": "features as they are",
}


def kernel_conventions(centring: str, samples: int, labels: Tensor) -> dict[str, str]:
    """What makes kernels incomparable."""
    conventions = {
        "kernel": f"sum over parameters on {samples} samples, not divided by their number",
        "centring": CENTRING[centring],
        "labels": "one-hot, one vector of all samples and outputs; -1 and 1 with one output",
        "batch-norm": "running statistics",
    }
    if kind_of(labels).by_position:
        conventions["outputs"] = (
            "of a sequence: its loss, the sum over positions that count, scaled so that the mean "
            "over sequences is the mean over positions; the kernel is that of loss gradients"
        )
        conventions["labels"] = "the losses of the sequences themselves"
    return conventions


def targets_of(labels: Tensor, *, outputs: int, classes: int) -> Tensor:
    """What outputs should be, (n, C), in double precision.

    Args:
        labels: Classes (n,), or numbers (n, ...).
        outputs: C.
        classes: How many classes there are; 0 where labels are numbers.

    Returns:
        One-hot rows; -1 and 1 where one output separates two classes; numbers as they are.

    >>> targets_of(torch.tensor([1, 0], device="cpu"), outputs=2, classes=2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    # numbers
    if not classes:
        return labels.double().reshape(len(labels), outputs)

    # two classes that one output separates
    if outputs == 1:
        signs = 2.0 * labels - 1.0
        return signs.double()[:, None]

    # classes
    return functional.one_hot(labels, outputs).double()


def centred_targets(targets: Tensor, centring: str) -> Tensor:
    """Targets (..., n, C) centred as the features of a kernel are."""
    if centring == "none":
        return targets
    # over samples, or over samples and outputs
    axes = (-2,) if centring == "outputs" else (-2, -1)
    mean = targets.mean(axes, keepdim=True)
    return targets - mean


def alignment(K: Tensor, targets: Tensor) -> Tensor:
    """CKA of a centred kernel (n C, n C) with centred targets (..., n, C)."""
    rows = targets.flatten(-2)
    squares = rows.square().sum(-1)
    differ = squares > 0
    if not bool(differ.all()):
        raise Refusal("the labels of these samples are all the same: nothing to align with")

    # y^T K y of every row
    products = (rows @ K) * rows
    cosines: Tensor = products.sum(-1) / (K.norm() * squares)
    return cosines


def permuted(targets: Tensor, *, generator: Generator, draws: int) -> Tensor:
    """Targets (n, C) in `draws` random orders, (draws, n, C); sampled on the CPU."""
    # sorting random keys makes orders that are all equally likely
    keys = torch.rand(draws, len(targets), generator=generator, device="cpu")
    orders = keys.argsort(1)
    return targets[orders.to(targets.device)]


def expected_alignment(K: Tensor, targets: Tensor) -> float:
    """The mean of `alignment` over all orders of the targets, exactly.

    With S = sum_i y_i y_i^T and T = (sum_i y_i) (sum_i y_i)^T, a random order has S / n in the
    blocks of E[y y^T] on the diagonal and (T - S) / (n (n - 1)) in all others.

    Args:
        K: A centred kernel (n C, n C).
        targets: Centred targets (n, C).

    Returns:
        The alignment of labels that are independent of the samples; 0 for a kernel that vanishes.
    """
    if not bool(K.any()):
        return 0.0
    count, outputs = targets.shape

    # S, and T - S
    moment = targets.T @ targets
    total = targets.sum(0)
    others = torch.outer(total, total) - moment

    # products of the blocks of K with those of E[y y^T]
    four = K.reshape(count, outputs, count, outputs)
    diagonal = torch.einsum("iaib->ab", four)
    beside = four.sum((0, 2)) - diagonal
    product = (diagonal * moment).sum() / count
    product += (beside * others).sum() / (count * (count - 1))
    return float(product / (K.norm() * moment.trace()))
