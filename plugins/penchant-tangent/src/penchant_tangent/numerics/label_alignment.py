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
        One-hot rows; -1 and 1 where one output tells two classes apart; numbers as they are.

    >>> targets_of(torch.tensor([1, 0], device="cpu"), outputs=2, classes=2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if not classes:
        return labels.double().reshape(len(labels), outputs)
    if outputs == 1:
        return (2.0 * labels - 1.0).double()[:, None]
    return functional.one_hot(labels, outputs).double()


def centred_targets(targets: Tensor, centring: str) -> Tensor:
    """Targets (..., n, C) centred as the features of a kernel are."""
    if centring == "outputs":
        return targets - targets.mean(-2, keepdim=True)
    if centring == "all":
        return targets - targets.mean((-2, -1), keepdim=True)
    return targets


def alignment(K: Tensor, targets: Tensor) -> Tensor:
    """CKA of a centred kernel (n C, n C) with centred targets (..., n, C)."""
    rows = targets.flatten(-2)
    squares = rows.square().sum(-1)
    if not bool((squares > 0).all()):
        raise ValueError("the labels of these samples are all the same: nothing to align with")
    products = ((rows @ K) * rows).sum(-1)
    return products / (K.norm() * squares)


def permuted(targets: Tensor, *, generator: Generator, draws: int) -> Tensor:
    """Targets (n, C) in `draws` random orders, (draws, n, C); drawn on the CPU."""
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
        What labels that know nothing of the samples align by; 0 for a kernel that vanishes.
    """
    if not bool(K.any()):
        return 0.0
    count, outputs = targets.shape
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
