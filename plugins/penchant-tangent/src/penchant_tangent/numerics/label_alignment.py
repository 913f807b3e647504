"""Alignment of a kernel with labels: CKA(K, y y^T) = y^T K y / (|K| |y|^2), all centred.

y is the vector of n C numbers that the one-hot labels of the samples make, one after another. Its
kernel has rank one, so alignments with thousands of permuted labels are one product.
"""

from __future__ import annotations

import torch
from penchant_numerics.kernel_alignment import centre
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
    """The mean of `alignment` over all orders of targets (n, C) that are centred by output.

    A random order has E[y y^T] = C_n x (Y^T Y) / (n - 1), C_n the centring of n samples.
    """
    count, outputs = targets.shape
    moment = targets.T @ targets
    four = centre(K, outputs=outputs).reshape(count, outputs, count, outputs)
    by_outputs = torch.einsum("iaib->ab", four)
    product = (by_outputs * moment).sum() / (count - 1)
    return float(product / (K.norm() * moment.trace()))
