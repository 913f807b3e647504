"""Lemma 4.1: a gradient step changes outputs by -rate lambda_j (u_j . grad_f L) along u_j."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from penchant_numerics.jacobians import Outputs
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]


class Speeds(NamedTuple):
    """Change of outputs along eigenvectors of the kernel, over the rate of the step."""

    expected: Tensor  # (n C,)
    measured: Tensor  # (n C,)

    @property
    def error(self) -> float:
        """Length of the difference over that of what is expected."""
        difference = self.measured - self.expected
        relative = difference.norm() / self.expected.norm()
        return float(relative)


def learning_speeds(
    outputs: Outputs, inputs: Tensor, labels: Tensor, K: Tensor, *, loss: Loss, rate: float
) -> Speeds:
    """Take one step of gradient descent and compare.

    Args:
        outputs: The network; it is not changed.
        inputs: Samples (n, ...).
        labels: Their labels.
        K: The tangent kernel (n C, n C) on them, not centred.
        loss: Mean loss of outputs and labels.
        rate: Learning rate of the step.

    Returns:
        Speeds along the kernel's eigenvectors, the largest eigenvalue first, in double precision.
    """
    # the gradient in parameters, and in outputs
    leaves = outputs.leaves()
    with torch.enable_grad():
        before = outputs(leaves, inputs)
        value = loss(before, labels)
        gradients = torch.autograd.grad(value, [before, *leaves], materialize_grads=True)
    by_outputs, *by_parameters = gradients

    # a real step
    moved = []
    for leaf, gradient in zip(leaves, by_parameters):
        moved.append(leaf.detach() - rate * gradient)
    with torch.no_grad():
        after = outputs(moved, inputs)
    change = (after - before.detach()).double()
    measured = change.flatten() / rate

    # both in the eigenvectors of the kernel
    values, vectors = torch.linalg.eigh(K.double())
    values, vectors = values.flip(0), vectors.flip(1)
    slopes = vectors.T @ by_outputs.double().flatten()
    return Speeds(expected=-values * slopes, measured=vectors.T @ measured)
