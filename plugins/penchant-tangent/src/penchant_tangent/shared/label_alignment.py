"""Alignment of a kernel with labels: CKA(K, y y^T) = y^T K y / (|K| |y|^2), all centred.

y is the vector of n C numbers that the one-hot labels of the samples make, one after another. Its
kernel has rank one, so alignments with thousands of permuted labels are one product.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional


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
        raise ValueError("the labels of these samples are all the same: nothing to align with")

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
