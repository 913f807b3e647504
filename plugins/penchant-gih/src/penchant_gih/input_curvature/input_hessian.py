"""The input Hessian of a loss, in its two terms: mean l'' g g^T and mean l' Hess_x f.

A shift z shared by all samples turns the mean of Hessians into one Hessian,
Hess_z mean_mu l'_mu f(x_mu + z) at z = 0, whose rows are backward passes of one gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from penchant_numerics.inputs import first_output
from torch import Tensor
from torch.func import grad, vjp

Network = Callable[[Tensor], Tensor]


def loss_derivatives(outputs: Tensor, targets: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """L' and l'' at outputs f for targets +-1: the logistic loss, or half the squared error."""
    if loss == "squared-error":
        error = outputs - targets
        return error, torch.ones_like(outputs)
    share = torch.sigmoid(outputs)
    classes = (targets + 1) / 2
    bend = share * (1 - share)
    return share - classes, bend


def curvature_terms(
    network: Network, inputs: Tensor, targets: Tensor, *, loss: str, chunk: int = 64
) -> dict[str, Tensor]:
    """The mean input Hessian of a loss, term by term.

    Args:
        network: One output, or two logits.
        inputs: Samples (m, *shape).
        targets: +-1, (m,).
        loss: `cross-entropy` or `squared-error`.
        chunk: Rows that are differentiated together.

    Returns:
        Mean l'' g g^T (`first`), mean l' Hess_x f (`second`), mean g g^T (`geometry`), all (D, D),
        and mean l'' (`weight`).
    """
    # Gradients of all samples in one pass, then l' and l'' at their outputs.
    gradients = grad(lambda x: first_output(network(x)).sum())(inputs).flatten(1)
    outputs = first_output(network(inputs)).detach()
    slope, bend = loss_derivatives(outputs, targets, loss)
    count, size = gradients.shape

    def weighted(shift: Tensor) -> Tensor:
        moved = inputs + shift.reshape(inputs.shape[1:])
        outputs = first_output(network(moved))
        return (slope * outputs).mean()

    basis = torch.eye(size, device=inputs.device, dtype=inputs.dtype)
    # Rows of the Hessian, some at a time: backward passes of one gradient.
    zero = torch.zeros(size, device=inputs.device, dtype=inputs.dtype)
    pull = vjp(grad(weighted), zero)[1]
    second = torch.cat([torch.vmap(pull)(rows)[0] for rows in basis.split(chunk)])
    first = (gradients * bend[:, None]).T @ gradients / count
    return {
        "first": first,
        "second": (second + second.T) / 2,
        "geometry": gradients.T @ gradients / count,
        "weight": bend.mean(),
    }
