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

import math
from typing import NamedTuple

import torch
from penchant_numerics.device import HOST
from penchant_numerics.inputs.fourier import cosine
from torch import Generator, Tensor


class Classes(NamedTuple):
    """Two classes: their distance from the plane between them, and the noise."""

    epsilon: float
    sigma: float


def frequencies(inputs: int, stride: int) -> list[int]:
    """Frequencies for which the theorem holds: 2 l is not 0 mod M.

    Where it is, the signal would meet its own mirror image.
    """
    folded = inputs // stride
    highest = inputs // 2
    frequencies = []
    for frequency in range(1, highest + 1):
        if 2 * frequency % folded:
            frequencies.append(frequency)
    return frequencies


class Accuracies(NamedTuple):
    """Bayes accuracy by the corrected theorem and by the paper's two versions."""

    corrected: Tensor
    text: Tensor
    supplement: Tensor


def bayes_accuracies(taps: Tensor, stride: int, chosen: list[int], ratio: float) -> Accuracies:
    """The theorem at these frequencies; `ratio` is eps / sigma."""
    # Zeros of the filter are zeros up to rounding.
    power = torch.fft.fft(taps).abs().square()
    power = power * (power > 1e-20 * power.max())

    # What subsampling folds onto a frequency.
    size = len(taps)
    folded = size // stride
    index = torch.tensor(chosen, device="cpu")
    aliases = torch.zeros(len(chosen), **HOST)
    for k in range(1, stride):
        aliases = aliases + power[(index + k * folded) % size]

    # Where the filter lets nothing through, nothing can be learnt, whatever is folded onto it.
    signal = power[index]
    ratios = (signal / aliases).sqrt()
    g = torch.where(signal > 0, ratios, torch.zeros_like(ratios))
    factors = (1.0, math.sqrt(stride / 2), math.sqrt(stride) / 2)
    accuracies = [torch.special.ndtr(ratio * g * factor) for factor in factors]
    return Accuracies(*accuracies)


def pooling_matrix(taps: Tensor, stride: int) -> Tensor:
    """Circular convolution and subsampling as a matrix (M, D)."""
    size = len(taps)
    row = torch.arange(0, size, stride, device="cpu")[:, None]
    column = torch.arange(size, device="cpu")
    # Convolution is circular: what lies before the first tap is at the end.
    index = (row - column) % size
    return taps[index]


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
        simulations: Number of samples.
        generator: A generator on the CPU.
    """
    size = len(taps)
    v = cosine((frequency,), (size,), **HOST)
    pooling = pooling_matrix(taps, stride)

    # Noise has no component along the signal.
    noise = classes.sigma * _normal((simulations, size), generator)
    noise = noise - torch.outer(noise @ v, v)
    labels = _signs((simulations,), generator)
    signal = classes.epsilon * labels[:, None] * v

    # The discriminant sees pooled samples only.
    pooled = (noise + signal) @ pooling.T
    scores = pooled @ discriminant(pooling, v, classes)
    right = (scores > 0) == (labels > 0)
    return float(right.double().mean())


def _signs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Labels -1 and 1."""
    coins = torch.randint(2, shape, generator=generator, device="cpu")
    return 2.0 * coins - 1


def _normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randn(*shape, generator=generator, **HOST)


def discriminant(pooling: Tensor, v: Tensor, classes: Classes) -> Tensor:
    """Sigma^-1 mu of the pooled classes.

    A trace of isotropic noise decides where the pooled noise has none.
    """
    mean = classes.epsilon * pooling @ v

    # The noise behind pooling, which had no component along v.
    across = pooling - torch.outer(pooling @ v, v)
    covariance = classes.sigma**2 * across @ across.T
    count = len(covariance)
    floor = 1e-10 * covariance.trace() / count
    trace_of_noise = floor * torch.eye(count, **HOST)
    weights: Tensor = torch.linalg.solve(covariance + trace_of_noise, mean)
    return weights


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
    signal, noise = classes.epsilon**2, classes.sigma**2
    own = power[index]
    phi = 2 / stride * own * (signal + noise)

    # A weight of the readout sees all frequencies that are folded onto its own.
    together = power.unflatten(0, (stride, folded)).sum(0)
    theirs = together[index % folded]
    theta = 2 / stride * (noise * theirs + signal * own)
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
        simulations: Number of networks, each with a sample of its own.
        generator: A generator on the CPU.
    """
    size = len(response)
    folded = size // stride
    theta = _normal((simulations, folded), generator)
    phi = _normal((simulations, size), generator)
    noise = _normal((simulations, size), generator)
    y = _signs((simulations,), generator)
    x = classes.sigma * noise
    x[:, frequency] += classes.epsilon * y

    def loss(theta: Tensor, phi: Tensor) -> Tensor:
        output = pooled_output(theta, phi, response, x, stride)
        return (y - output).square()

    # One weight of the filter is moved, then one of the readout.
    step = torch.zeros(size, **HOST)
    step[frequency] = 1
    along_phi = [loss(theta, phi + sign * step) for sign in (-1, 0, 1)]
    step = torch.zeros(folded, **HOST)
    step[frequency % folded] = 1
    along_theta = [loss(theta + sign * step, phi) for sign in (-1, 0, 1)]
    return Curvature(*_second_difference(along_phi), *_second_difference(along_theta))


def _second_difference(losses: list[Tensor]) -> tuple[float, float]:
    """Mean and standard error of loss(-1) - 2 loss(0) + loss(1)."""
    before, here, behind = losses
    second = before - 2 * here + behind
    mean = second.mean()
    stderr = second.std() / math.sqrt(len(second))
    return float(mean), float(stderr)


def pooled_output(theta: Tensor, phi: Tensor, response: Tensor, x: Tensor, stride: int) -> Tensor:
    """f(x) = theta.A (m * phi * x), row by row; theta (..., M), phi and x (..., D)."""
    filtered = response * phi * x
    outputs = theta.shape[-1]
    folded = filtered.unflatten(-1, (stride, outputs)).sum(-2)
    read: Tensor = (theta * folded).sum(-1)
    return read / math.sqrt(stride)


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
    size = len(response)
    folded = size // stride
    trainings, batch = descent.trainings, descent.batch
    theta = descent.std * _normal((trainings, 1, folded), generator)
    phi = descent.std * _normal((trainings, 1, size), generator)
    losses = []
    for _ in range(descent.steps):
        x = classes.sigma * _normal((trainings, batch, size), generator)
        y = _signs((trainings, batch), generator)
        x[..., frequency] += classes.epsilon * y

        # One step of SGD; the gradient of the sum of losses is that of each training.
        theta, phi = theta.requires_grad_(), phi.requires_grad_()
        output = pooled_output(theta, phi, response, x, stride)
        loss = (y - output).square().mean(1)
        along_theta, along_phi = torch.autograd.grad(loss.sum(), (theta, phi))
        theta = (theta - descent.rate * along_theta).detach()
        phi = (phi - descent.rate * along_phi).detach()
        losses.append(loss.detach())
    return torch.stack(losses, dim=1)
