"""Exact Fourier analysis of piecewise linear functions of one variable, such as ReLU networks along a line.

A chain of linear layers and ReLUs is piecewise linear along a line; its knots follow layer by layer from the zeros of the
pre-activations. With slopes w_e on pieces P_e and f(a) = f(b) = 0, the transform on [a, b] is

    f~(k) = int f(x) e^{-ikx} dx = -i sum_e (w_e / k) 1~_{P_e}(k),

lemma 3.1 of Rahaman et al. with the right sign (theirs is the opposite). Everything is differentiable in the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Chain = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class PiecewiseLinear:
    """A continuous function on [a, b]: values at increasing knots, linear between them."""

    knots: Tensor  # (n,)
    values: Tensor  # (n,)

    def slopes(self) -> Tensor:
        """Slope of every piece, (n - 1,)."""
        return self.values.diff() / self.knots.diff()

    def pieces(self, *, tolerance: float = 1e-9) -> int:
        """Number of linear pieces: neighbours with the same slope are one."""
        slopes = self.slopes().detach()
        scale = float(slopes.abs().max()) or 1.0
        return 1 + int((slopes.diff().abs() > tolerance * scale).sum())

    def without_line(self) -> PiecewiseLinear:
        """The function minus the straight line through its ends: zero at both, so that its spectrum is that of its bends."""
        first, last = self.knots[0], self.knots[-1]
        share = (self.knots - first) / (last - first)
        return PiecewiseLinear(
            self.knots, self.values - self.values[0] * (1 - share) - self.values[-1] * share
        )


def chain_of(network: nn.Module) -> Chain | None:
    """Weights and biases of a chain Flatten, Linear, ReLU, Linear, ...; None where the network is anything else."""
    layers = [module for module in network.modules() if not list(module.children())]
    nested = [module for module in network.modules() if list(module.children())]
    if any(type(module) is not nn.Sequential for module in nested):
        return None
    kept = [layer for layer in layers if not isinstance(layer, (nn.Flatten, nn.Identity))]
    linear, between = kept[::2], kept[1::2]
    if not all(isinstance(layer, nn.Linear) for layer in linear) or not all(
        isinstance(layer, nn.ReLU) for layer in between
    ):
        return None
    if len(kept) % 2 == 0 or len({id(layer) for layer in linear}) != len(linear):
        return None
    return [
        (
            layer.weight,
            layer.bias if layer.bias is not None else layer.weight.new_zeros(len(layer.weight)),
        )
        for layer in linear
    ]


def on_segment(chain: Chain, start: Tensor, end: Tensor, *, output: int = 0) -> PiecewiseLinear:
    """The exact knots and values of one output of a chain along start + t (end - start) / |end - start|, t in [0, length].

    The precision is double, whatever the network's: knots of deep layers are differences of large numbers.
    """
    chain = [(weight.double(), bias.double()) for weight, bias in chain]
    start, end = start.double(), end.double()
    length = (end - start).norm()
    knots = torch.stack([torch.zeros_like(length), length])
    hidden = torch.stack([start, end])  # (knots, width)
    for weight, bias in chain[:-1]:
        knots, before = _with_zeros(knots, hidden @ weight.T + bias)
        hidden = before.clamp(min=0)
    weight, bias = chain[-1]
    return PiecewiseLinear(knots, hidden @ weight[output] + bias[output])


def _with_zeros(knots: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Knots with the zeros of every column of values (knots, width) between them added, and the values there."""
    left, right = values[:-1], values[1:]
    piece, unit = torch.nonzero((left * right) < 0, as_tuple=True)
    share = left[piece, unit] / (left[piece, unit] - right[piece, unit])
    zeros = knots[piece] + share * (knots[piece + 1] - knots[piece])
    at_zeros = left[piece] + share[:, None] * (right[piece] - left[piece])
    at_zeros = at_zeros.scatter(
        1, unit[:, None], 0.0
    )  # exactly zero: rounding must not open a gap in the ReLU
    merged, order = torch.cat([knots, zeros]).sort(stable=True)
    kept = torch.ones(len(merged), device=knots.device, dtype=torch.bool)
    kept[1:-1] = (merged[1:-1] > merged[:-2]) & (merged[1:-1] < merged[-1])
    return merged[kept], torch.cat([values, at_zeros])[order][kept]


def on_grid(values: Tensor, length: float) -> PiecewiseLinear:
    """The function that is linear between values at equally spaced points of [0, length], both ends included."""
    knots = torch.linspace(0, length, len(values), device=values.device, dtype=torch.float64)
    return PiecewiseLinear(knots, values.double())


def transform(function: PiecewiseLinear, k: Tensor) -> Tensor:
    """The exact int f(x) e^{-ikx} dx over the knots' interval, for angular frequencies k (frequencies,), complex.

    On a piece with midpoint m, half width h, mean v and slope s it is 2h e^{-ikm} (v sinc(kh) - i s h j_1(kh)), with the
    spherical Bessel function j_1, which stays accurate where kh is small.

    >>> tent = PiecewiseLinear(*torch.tensor([[-1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], device="cpu", dtype=torch.float64))
    >>> float(transform(tent, torch.tensor([3.0], device="cpu", dtype=torch.float64)).real) - (2 - 2 * math.cos(3)) / 9 < 1e-15
    True
    """
    middle = (function.knots[1:] + function.knots[:-1]) / 2
    half = function.knots.diff() / 2
    mean = (function.values[1:] + function.values[:-1]) / 2
    rise = function.values.diff() / 2  # slope times half width
    phase = torch.exp(-1j * k[:, None] * middle)
    x = k[:, None] * half
    return (
        2 * half * phase * (mean * torch.sinc(x / math.pi) - 1j * rise * spherical_bessel(x))
    ).sum(1)


def lemma_sum(function: PiecewiseLinear, k: Tensor) -> Tensor:
    """-i sum_e (w_e / k) 1~_{P_e}(k): the transform of a function that is zero at both ends."""
    edges = torch.exp(-1j * k[:, None] * function.knots)
    indicators = (edges[:, :-1] - edges[:, 1:]) / (1j * k[:, None])
    return -1j * (function.slopes() / k[:, None] * indicators).sum(1)


def spherical_bessel(x: Tensor) -> Tensor:
    """j_1(x) = sin x / x^2 - cos x / x, by its series where that cancels."""
    small = x.abs() < 0.05
    safe = torch.where(small, 1.0, x)
    series = x / 3 - x**3 / 30 + x**5 / 840
    return torch.where(small, series, torch.sin(safe) / safe**2 - torch.cos(safe) / safe)


def bend(function: PiecewiseLinear) -> Tensor:
    """Total change of slope over the circle that the interval makes when its ends are joined: |f~(k)| <= bend / k^2.

    For functions with equal values at both ends, at the frequencies of the interval, k = 2 pi n / length.
    """
    slopes = function.slopes()
    return slopes.diff().abs().sum() + (slopes[0] - slopes[-1]).abs()


def aliasing_bound(function: PiecewiseLinear, samples: int) -> float:
    """How far DFT_n / samples times the length may be from f~(2 pi n / length), |n| <= samples / 2, ends equal.

    The DFT adds the transforms at n + m samples; with |f~(k)| <= bend / k^2 their sum is at most this.
    """
    length = float(function.knots[-1] - function.knots[0])
    return float(bend(function)) * (length / (2 * math.pi * samples)) ** 2 * (math.pi**2 - 4)


def lipschitz(function: PiecewiseLinear) -> Tensor:
    """The exact Lipschitz constant: the largest slope."""
    return function.slopes().abs().max()


def gradient_norms(
    chain: Chain, start: Tensor, end: Tensor, k: Tensor, *, straight: bool = True
) -> Tensor:
    """|d f~(k) / d theta| over all parameters of a chain, (frequencies,), by differentiating the exact transform.

    With `straight`, f is taken without the line through its ends, as its spectrum is for bends.
    """
    leaves = [tensor.detach().double().requires_grad_() for pair in chain for tensor in pair]
    function = on_segment(list(zip(leaves[::2], leaves[1::2])), start, end)
    values = transform(function.without_line() if straight else function, k)
    norms = []
    for number in range(len(k)):
        parts = [
            torch.autograd.grad(each, leaves, retain_graph=True, allow_unused=True)
            for each in _both(values[number])
        ]
        norms.append(
            torch.stack(
                [part.square().sum() for both in parts for part in both if part is not None]
            )
            .sum()
            .sqrt()
        )
    return torch.stack(norms).detach()


def _both(value: Tensor) -> tuple[Tensor, Tensor]:
    return value.real, value.imag


def decay_exponent(k: Tensor, magnitude: Tensor, *, windows: int = 12) -> float:
    """Slope of log magnitude against log k, from root mean squares in windows of log k: oscillations average out."""
    edges = torch.logspace(
        math.log10(float(k.min())),
        math.log10(float(k.max())),
        windows + 1,
        device=k.device,
        dtype=k.dtype,
    )
    place = torch.bucketize(k, edges[1:-1])
    used: Sequence[int] = [number for number in range(windows) if (place == number).any()]
    x = torch.stack([k[place == number].log().mean() for number in used])
    y = torch.stack(
        [
            magnitude[place == number].square().mean().sqrt().clamp(min=1e-300).log()
            for number in used
        ]
    )
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / (x @ x))
