"""Linear pooling in one dimension: filter m, then keep every S-th value; D inputs, M = D/S outputs.

Theorem 1, corrected. Classes x = +-eps v + w, v the cosine of frequency l, w ~ N(0, sigma^2 (I - v v^T)). Behind pooling the best
accuracy is

    Phi((eps / sigma) g),    g^2 = |m_l|^2 / sum_{k=1}^{S-1} |m_{l + k M}|^2,    2 l not 0 mod M.

The paper has a factor sqrt(S/2) in its text and sqrt(S)/2 in its supplement, which are 1 at S = 2 and at S = 4 only.

Lemma 1, corrected by 1/S. For f(x) = theta.A (m * phi * x), x = eps y e_l + N(0, sigma^2 I) and the loss (y - f)^2, with theta and
phi of variances s_t^2 and s_p^2, the mean Hessians are (2 s_t^2 / S)(eps^2 m_l^2 e_l e_l^T + sigma^2 diag(m^2)) in phi and
(2 s_p^2 / S) diag_t(sum_k m_{t+kM}^2 (sigma^2 + eps^2 [t + k M = l])) in theta.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from penchant_numerics.fourier import cosine
from torch import Generator, Tensor

HOST = {"device": "cpu", "dtype": torch.float64}


def window(size: int, stride: int, prefilter: str) -> Tensor:
    """The prefilter in space, (D,): `none`, `average` of S neighbours, or an ideal `low-pass` below 1/(2S)."""
    taps = torch.zeros(size, **HOST)
    if prefilter == "average":
        taps[:stride] = 1 / stride
    elif prefilter == "none":
        taps[0] = 1
    else:
        index = torch.arange(size, device="cpu")
        kept = (2 * stride * torch.minimum(index, size - index) < size).to(**HOST)
        taps = torch.fft.ifft(kept).real
    return taps


def frequencies(size: int, stride: int) -> list[int]:
    """Frequencies for which the theorem holds: 2 l is not 0 mod M, where the signal would meet its own mirror image."""
    return [each for each in range(1, size // 2 + 1) if 2 * each % (size // stride)]


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
    scaled = (ratio * g * factor for factor in (1.0, math.sqrt(stride / 2), math.sqrt(stride) / 2))
    return Accuracies(*(torch.special.ndtr(each) for each in scaled))


def pooling_matrix(taps: Tensor, stride: int) -> Tensor:
    """Circular convolution and subsampling as a matrix (M, D)."""
    size = len(taps)
    row, column = (
        torch.arange(0, size, stride, device="cpu")[:, None],
        torch.arange(size, device="cpu"),
    )
    return taps[(row - column) % size]


def simulated_accuracy(
    taps: Tensor,
    stride: int,
    frequency: int,
    *,
    epsilon: float,
    sigma: float,
    draws: int,
    generator: Generator,
) -> float:
    """Share of pooled samples that the exact Gaussian discriminant of their two classes gets right."""
    size = len(taps)
    v = cosine((frequency,), (size,), **HOST)
    pooling = pooling_matrix(taps, stride)
    noise = sigma * torch.randn(draws, size, generator=generator, **HOST)
    noise = noise - torch.outer(noise @ v, v)
    labels = 2.0 * torch.randint(2, (draws,), generator=generator, device="cpu") - 1
    pooled = (noise + epsilon * labels[:, None] * v) @ pooling.T
    scores = pooled @ discriminant(pooling, v, epsilon, sigma)
    return float(((scores > 0) == (labels > 0)).double().mean())


def discriminant(pooling: Tensor, v: Tensor, epsilon: float, sigma: float) -> Tensor:
    """Sigma^-1 mu of the pooled classes; a trace of isotropic noise decides where the pooled noise has none."""
    mean = epsilon * pooling @ v
    across = pooling - torch.outer(pooling @ v, v)
    covariance = sigma**2 * across @ across.T
    floor = 1e-10 * covariance.trace() / len(covariance)
    return torch.linalg.solve(covariance + floor * torch.eye(len(covariance), **HOST), mean)


class Curvature(NamedTuple):
    """Mean second derivatives along phi_l and theta_(l mod M), and their standard errors."""

    phi: float
    phi_stderr: float
    theta: float
    theta_stderr: float


def curvature_law(
    response: Tensor, stride: int, chosen: list[int], *, epsilon: float, sigma: float
) -> tuple[Tensor, Tensor]:
    """Lemma 1 along phi_l and along theta_(l mod M), for unit variances of theta and phi."""
    power = response.square()
    index = torch.tensor(chosen, device="cpu")
    folded = len(response) // stride
    together = power.unflatten(0, (stride, folded)).sum(0)
    phi = 2 / stride * power[index] * (epsilon**2 + sigma**2)
    theta = 2 / stride * (sigma**2 * together[index % folded] + epsilon**2 * power[index])
    return phi, theta


def measured_curvature(
    response: Tensor,
    stride: int,
    frequency: int,
    *,
    epsilon: float,
    sigma: float,
    draws: int,
    generator: Generator,
) -> Curvature:
    """Second differences of the loss over fresh networks and samples; the loss is quadratic in each, so they are exact."""
    size, folded = len(response), len(response) // stride
    theta, phi, x = (
        torch.randn(draws, count, generator=generator, **HOST) for count in (folded, size, size)
    )
    y = 2.0 * torch.randint(2, (draws,), generator=generator, device="cpu") - 1
    x = sigma * x
    x[:, frequency] += epsilon * y

    def loss(theta: Tensor, phi: Tensor) -> Tensor:
        return (y - pooled_output(theta, phi, response, x, stride)).square()

    found: list[float] = []
    for along in ("phi", "theta"):
        step = torch.zeros(size if along == "phi" else folded, **HOST)
        step[frequency % len(step)] = 1
        sides = [
            loss(theta, phi + sign * step) if along == "phi" else loss(theta + sign * step, phi)
            for sign in (-1, 0, 1)
        ]
        second = sides[0] - 2 * sides[1] + sides[2]
        found += [float(second.mean()), float(second.std() / math.sqrt(draws))]
    return Curvature(*found)


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
    networks: int


def loss_curves(
    response: Tensor,
    stride: int,
    frequency: int,
    descent: Descent,
    *,
    epsilon: float,
    sigma: float,
    generator: Generator,
) -> Tensor:
    """Training losses (networks, steps) of the squared error under SGD, every step on fresh samples."""
    size, folded = len(response), len(response) // stride
    theta, phi = (
        descent.std * torch.randn(descent.networks, 1, count, generator=generator, **HOST)
        for count in (folded, size)
    )
    losses = []
    for _ in range(descent.steps):
        x = sigma * torch.randn(descent.networks, descent.batch, size, generator=generator, **HOST)
        y = (
            2.0
            * torch.randint(2, (descent.networks, descent.batch), generator=generator, device="cpu")
            - 1
        )
        x[..., frequency] += epsilon * y
        theta, phi = theta.requires_grad_(), phi.requires_grad_()
        loss = (y - pooled_output(theta, phi, response, x, stride)).square().mean(1)
        slopes = torch.autograd.grad(loss.sum(), (theta, phi))
        theta, phi = (
            (value - descent.rate * slope).detach() for value, slope in zip((theta, phi), slopes)
        )
        losses.append(loss.detach())
    return torch.stack(losses, dim=1)
