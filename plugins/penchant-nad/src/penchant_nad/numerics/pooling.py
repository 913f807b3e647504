"""Linear pooling in one dimension: filter m, then keep every S-th value; D inputs, M = D/S outputs.

Theorem 1, corrected. Classes x = +-eps v + w, v the cosine of frequency l,
w ~ N(0, sigma^2 (I - v v^T)). Behind pooling the best accuracy is

    Phi((eps / sigma) g),    g^2 = |m_l|^2 / sum_{k=1}^{S-1} |m_{l + k M}|^2,    2 l not 0 mod M.

The paper has a factor sqrt(S/2) in its text and sqrt(S)/2 in its supplement, which are 1 at S = 2
and at S = 4 only.

Lemma 1, corrected by 1/S. For f(x) = theta.A (m * phi * x), x = eps y e_l + N(0, sigma^2 I) and the
loss (y - f)^2, with theta and phi of variances s_t^2 and s_p^2, the mean Hessians are
(2 s_t^2 / S)(eps^2 m_l^2 e_l e_l^T + sigma^2 diag(m^2)) in phi and
(2 s_p^2 / S) diag_t(sum_k m_{t+kM}^2 (sigma^2 + eps^2 [t + k M = l])) in theta.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from penchant_numerics.fourier import cosine
from torch import Generator, Tensor

HOST = {"device": "cpu", "dtype": torch.float64}


class Classes(NamedTuple):
    """Two classes: their distance from the plane between them, and the noise."""

    epsilon: float
    sigma: float


def frequencies(inputs: int, stride: int) -> list[int]:
    """Frequencies for which the theorem holds: 2 l is not 0 mod M.

    Where it is, the signal would meet its own mirror image.
    """
    folded = inputs // stride
    return [each for each in range(1, inputs // 2 + 1) if 2 * each % folded]


class Accuracies(NamedTuple):
    """Bayes accuracy by the corrected theorem and by the paper's two versions."""

    corrected: Tensor
    text: Tensor
    supplement: Tensor


def bayes_accuracies(taps: Tensor, stride: int, chosen: list[int], ratio: float) -> Accuracies:
    """The theorem at these frequencies; `ratio` is eps / sigma."""
    power = torch.fft.fft(taps).abs().square()
    power = power * (power > 1e-20 * power.max())  # zeros of the filter, up to rounding
    size, folded = len(taps), len(taps) // stride
    index = torch.tensor(chosen, device="cpu")
    aliases = sum(power[(index + k * folded) % size] for k in range(1, stride))
    g = torch.where(power[index] > 0, (power[index] / aliases).sqrt(), torch.zeros_like(aliases))
    found = []
    for factor in (1.0, math.sqrt(stride / 2), math.sqrt(stride) / 2):
        found.append(torch.special.ndtr(ratio * g * factor))
    return Accuracies(*found)


def pooling_matrix(taps: Tensor, stride: int) -> Tensor:
    """Circular convolution and subsampling as a matrix (M, D)."""
    size = len(taps)
    row = torch.arange(0, size, stride, device="cpu")[:, None]
    column = torch.arange(size, device="cpu")
    return taps[(row - column) % size]


def simulated_accuracy(
    taps: Tensor,
    stride: int,
    frequency: int,
    classes: Classes,
    *,
    simulations: int,
    generator: Generator,
) -> float:
    """Share of pooled samples that the exact Gaussian discriminant of the classes gets right.

    Args:
        taps: The prefilter (D,).
        stride: S.
        frequency: l of the signal.
        classes: Their distance and noise.
        simulations: Samples that are drawn.
        generator: A generator on the CPU.
    """
    size = len(taps)
    v = cosine((frequency,), (size,), **HOST)
    pooling = pooling_matrix(taps, stride)
    noise = classes.sigma * torch.randn(simulations, size, generator=generator, **HOST)
    noise = noise - torch.outer(noise @ v, v)
    labels = _signs((simulations,), generator)
    pooled = (noise + classes.epsilon * labels[:, None] * v) @ pooling.T
    scores = pooled @ discriminant(pooling, v, classes)
    right = (scores > 0) == (labels > 0)
    return float(right.double().mean())


def _signs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Labels -1 and 1."""
    return 2.0 * torch.randint(2, shape, generator=generator, device="cpu") - 1


def discriminant(pooling: Tensor, v: Tensor, classes: Classes) -> Tensor:
    """Sigma^-1 mu of the pooled classes.

    A trace of isotropic noise decides where the pooled noise has none.
    """
    mean = classes.epsilon * pooling @ v
    across = pooling - torch.outer(pooling @ v, v)
    covariance = classes.sigma**2 * across @ across.T
    floor = 1e-10 * covariance.trace() / len(covariance)
    return torch.linalg.solve(covariance + floor * torch.eye(len(covariance), **HOST), mean)


class Curvature(NamedTuple):
    """Mean second derivatives along phi_l and theta_(l mod M), and their standard errors."""

    phi: float
    phi_stderr: float
    theta: float
    theta_stderr: float


def curvature_law(
    response: Tensor, stride: int, chosen: list[int], classes: Classes
) -> tuple[Tensor, Tensor]:
    """Lemma 1 along phi_l and along theta_(l mod M), for unit variances of theta and phi."""
    power = response.square()
    index = torch.tensor(chosen, device="cpu")
    folded = len(response) // stride
    together = power.unflatten(0, (stride, folded)).sum(0)
    signal, noise = classes.epsilon**2, classes.sigma**2
    phi = 2 / stride * power[index] * (signal + noise)
    theta = 2 / stride * (noise * together[index % folded] + signal * power[index])
    return phi, theta


def measured_curvature(
    response: Tensor,
    stride: int,
    frequency: int,
    classes: Classes,
    *,
    simulations: int,
    generator: Generator,
) -> Curvature:
    """Second differences of the loss over fresh networks and samples.

    The loss is quadratic in phi and in theta, so the differences are exact.

    Args:
        response: The prefilter m (D,), by frequency.
        stride: S.
        frequency: l of the signal.
        classes: Their distance and noise.
        simulations: Networks that are drawn, each with a sample of its own.
        generator: A generator on the CPU.
    """
    size, folded = len(response), len(response) // stride
    theta = torch.randn(simulations, folded, generator=generator, **HOST)
    phi = torch.randn(simulations, size, generator=generator, **HOST)
    x = torch.randn(simulations, size, generator=generator, **HOST)
    y = _signs((simulations,), generator)
    x = classes.sigma * x
    x[:, frequency] += classes.epsilon * y

    def loss(theta: Tensor, phi: Tensor) -> Tensor:
        return (y - pooled_output(theta, phi, response, x, stride)).square()

    step = torch.zeros(size, **HOST)
    step[frequency] = 1
    along_phi = [loss(theta, phi + sign * step) for sign in (-1, 0, 1)]
    step = torch.zeros(folded, **HOST)
    step[frequency % folded] = 1
    along_theta = [loss(theta + sign * step, phi) for sign in (-1, 0, 1)]
    return Curvature(*_second_difference(along_phi), *_second_difference(along_theta))


def _second_difference(losses: list[Tensor]) -> tuple[float, float]:
    """Mean and standard error of loss(-1) - 2 loss(0) + loss(1)."""
    second = losses[0] - 2 * losses[1] + losses[2]
    return float(second.mean()), float(second.std() / math.sqrt(len(second)))


def pooled_output(theta: Tensor, phi: Tensor, response: Tensor, x: Tensor, stride: int) -> Tensor:
    """f(x) = theta.A (m * phi * x), row by row; theta (..., M), phi and x (..., D)."""
    folded = (response * phi * x).unflatten(-1, (stride, theta.shape[-1])).sum(-2)
    return (theta * folded).sum(-1) / math.sqrt(stride)


class Descent(NamedTuple):
    """How the linear model of pooling is trained."""

    steps: int
    batch: int
    rate: float
    std: float
    trainings: int


def loss_curves(
    response: Tensor,
    stride: int,
    frequency: int,
    classes: Classes,
    descent: Descent,
    *,
    generator: Generator,
) -> Tensor:
    """Training losses (trainings, steps) of the squared error, every step on fresh samples.

    Args:
        response: The prefilter m (D,), by frequency.
        stride: S.
        frequency: l of the signal.
        classes: Their distance and noise.
        descent: How it is trained.
        generator: A generator on the CPU.
    """
    size, folded = len(response), len(response) // stride
    trainings, batch = descent.trainings, descent.batch
    theta = descent.std * torch.randn(trainings, 1, folded, generator=generator, **HOST)
    phi = descent.std * torch.randn(trainings, 1, size, generator=generator, **HOST)
    losses = []
    for _ in range(descent.steps):
        x = classes.sigma * torch.randn(trainings, batch, size, generator=generator, **HOST)
        y = _signs((trainings, batch), generator)
        x[..., frequency] += classes.epsilon * y

        # One step of SGD; the trainings are independent, so the sum of losses keeps them apart.
        theta, phi = theta.requires_grad_(), phi.requires_grad_()
        loss = (y - pooled_output(theta, phi, response, x, stride)).square().mean(1)
        along_theta, along_phi = torch.autograd.grad(loss.sum(), (theta, phi))
        theta = (theta - descent.rate * along_theta).detach()
        phi = (phi - descent.rate * along_phi).detach()
        losses.append(loss.detach())
    return torch.stack(losses, dim=1)
