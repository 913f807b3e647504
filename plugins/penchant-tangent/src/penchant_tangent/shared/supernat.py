"""Gradient descent of linear models, and SuperNat: features that stretch while they are learnt.

With the kernel K = sum_j lambda_j u_j u_j^T of the training samples, a gradient step on
L = |f - y|^2 / (2 n) changes f by -rate lambda_j (u_j . grad L) along u_j. SuperNat then rescales
lambda_j by |u_j . grad L| / kappa (Baratin et al. 2021, proposition 4.3), here with the largest
|u_j . grad L| as kappa. Directions stay, so all of it happens in the coordinates u_j . f, and the
weights along v_j are these over sqrt(lambda_j) as it was in the beginning.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor


class Descent(NamedTuple):
    """A fit, step by step, the first of them zero."""

    coefficients: Tensor  # (steps + 1, k): what K's eigenvectors over lambda are multiplied with
    train_errors: Tensor  # (steps + 1,): mean squared error on training samples
    eigenvalues: Tensor  # (k,): after the last step


def descend(
    values: Tensor, vectors: Tensor, y: Tensor, *, steps: int, rate: float, stretch: bool
) -> Descent:
    """Fit y by gradient descent, or by SuperNat.

    Args:
        values: Eigenvalues (k,) of the kernel, positive.
        vectors: Its eigenvectors (n, k), as columns.
        y: Labels (n,).
        steps: How many.
        rate: Learning rate times the largest eigenvalue over n.
        stretch: Whether eigenvalues are rescaled after every step, as SuperNat does.

    Returns:
        The fit. Outputs on points x are K(x, X) vectors coefficients / values, with the first
        eigenvalues.
    """
    # everything along eigenvectors
    expected = vectors.T @ y
    beyond = y.square().sum() - expected.square().sum()  # what no feature reaches

    # step by step
    step_size = rate / values.max()
    scale = values.clone()
    along = torch.zeros_like(expected)
    path = [along]
    for _ in range(steps):
        gradient = along - expected  # n times u_j . grad L
        along = along - step_size * scale * gradient
        path.append(along)
        sizes = gradient.abs()
        if stretch and bool(sizes.any()):
            scale = scale * sizes / sizes.max()

    # how far it is from the labels
    coefficients = torch.stack(path)
    errors = (coefficients - expected).square().sum(1) + beyond
    return Descent(coefficients, errors / len(y), scale)


class NoisyProblem(NamedTuple):
    """One signal feature and d noise features of n samples; noise in the span of the latter."""

    Phi: Tensor  # (n, d + 1)
    y: Tensor  # (n,)


def noisy_problem(*, train: int, inputs: int, noise: float, generator: Generator) -> NoisyProblem:
    """Draw y = phi + P eps, P the projection on the noise features.

    Args:
        train: n.
        inputs: d.
        noise: Variance of eps.
        generator: A generator on the CPU.
    """

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device="cpu", dtype=torch.float64)

    # features
    signal = normal(train)
    others = normal(train, inputs) / inputs**0.5

    # labels: the signal, and noise that the other features can fit
    eps = normal(train) * noise**0.5
    basis = torch.linalg.qr(others).Q
    y = signal + basis @ (basis.T @ eps)
    Phi = torch.cat([signal[:, None], others], 1)
    return NoisyProblem(Phi, y)


def population_errors(weights: Tensor) -> Tensor:
    """E (f - phi)^2 of weights (..., d + 1) on new samples: (w_0 - 1)^2 + |w_noise|^2 / d."""
    signal = weights[..., 0]
    others = weights[..., 1:]
    of_signal = (signal - 1).square()
    of_noise = others.square().mean(-1)  # each has the variance 1 / d
    return of_signal + of_noise


def positive_part(
    values: Tensor, vectors: Tensor, *, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Eigenpairs whose eigenvalues are not zero to rounding, descending.

    Args:
        values: Eigenvalues (n,), ascending.
        vectors: Eigenvectors (n, n), as columns.
        dtype: What their matrix was computed in; None is the type of the eigenvalues.
    """
    rounding = torch.finfo(dtype or values.dtype).eps * len(vectors)
    nonzero = values > rounding * values.max()
    positive = values[nonzero]
    theirs = vectors[:, nonzero]

    # torch gives the smallest first
    return positive.flip(0), theirs.flip(1)
