"""Exact Fourier analysis of piecewise linear functions of one variable: ReLU networks on a line.

A chain of linear layers and ReLUs is piecewise linear along a line; its knots follow layer by layer
from the zeros of the pre-activations. With slopes w_e on pieces P_e and f(a) = f(b) = 0, the
transform on [a, b] is

    f~(k) = int f(x) e^{-ikx} dx = -i sum_e (w_e / k) 1~_{P_e}(k),

lemma 3.1 of Rahaman et al. with the right sign (theirs is the opposite). Everything is
differentiable in the parameters.
"""

from __future__ import annotations

import math
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
        changes = slopes.diff().abs() > tolerance * scale
        return 1 + int(changes.sum())

    def without_line(self) -> PiecewiseLinear:
        """The function minus the straight line through its ends.

        It is zero at both ends, so that its spectrum is that of its bends.
        """
        first, last = self.knots[0], self.knots[-1]
        share = (self.knots - first) / (last - first)
        rest = self.values - self.values[0] * (1 - share) - self.values[-1] * share
        return PiecewiseLinear(self.knots, rest)

    def half_square(self) -> Tensor:
        """The integral of f^2 / 2, exact: f^2 is quadratic on every piece."""
        left, right = self.values[:-1], self.values[1:]
        squares = left.square() + left * right + right.square()
        return (self.knots.diff() * squares).sum() / 6


def chain_of(network: nn.Module) -> Chain | None:
    """Weights and biases of a chain Linear, ReLU, Linear, ...; None for any other network."""
    layers = []
    for module in network.modules():
        if not list(module.children()):
            layers.append(module)
        elif type(module) is not nn.Sequential:
            # its forward pass may do anything with its parts
            return None
    kept = [layer for layer in layers if not isinstance(layer, (nn.Flatten, nn.Identity))]
    return _linear_layers(kept) if _alternates(kept) else None


def _alternates(layers: list[nn.Module]) -> bool:
    """Are these a linear layer, a ReLU, a linear layer, ..., none of them used twice?"""
    linear, between = layers[::2], layers[1::2]
    if len(layers) % 2 == 0:
        return False
    if not all(isinstance(layer, nn.Linear) for layer in linear):
        return False
    different = len({id(layer) for layer in linear}) == len(linear)
    return different and all(isinstance(layer, nn.ReLU) for layer in between)


def _linear_layers(layers: list[nn.Module]) -> Chain:
    chain = []
    for layer in layers[::2]:
        bias = layer.bias
        if bias is None:
            bias = layer.weight.new_zeros(len(layer.weight))
        chain.append((layer.weight, bias))
    return chain


def on_segment(chain: Chain, start: Tensor, end: Tensor, *, output: int = 0) -> PiecewiseLinear:
    """The exact knots and values of one output of a chain from `start` to `end`.

    The variable is the length along the segment. The precision is double, whatever the network's:
    knots of deep layers are differences of large numbers.
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
    """Knots with the zeros of every column of values (knots, width) added, and the values there."""
    left, right = values[:-1], values[1:]
    piece, unit = torch.nonzero((left * right) < 0, as_tuple=True)
    share = left[piece, unit] / (left[piece, unit] - right[piece, unit])
    zeros = knots[piece] + share * (knots[piece + 1] - knots[piece])
    at_zeros = left[piece] + share[:, None] * (right[piece] - left[piece])
    # exactly zero: rounding must not open a gap in the ReLU
    at_zeros = at_zeros.scatter(1, unit[:, None], 0.0)

    merged, order = torch.cat([knots, zeros]).sort(stable=True)
    kept = torch.ones(len(merged), device=knots.device, dtype=torch.bool)
    kept[1:-1] = (merged[1:-1] > merged[:-2]) & (merged[1:-1] < merged[-1])
    both = torch.cat([values, at_zeros])[order]
    return merged[kept], both[kept]


def on_grid(values: Tensor, length: float) -> PiecewiseLinear:
    """The function that is linear between values at equally spaced points of [0, length]."""
    knots = torch.linspace(0, length, len(values), device=values.device, dtype=torch.float64)
    return PiecewiseLinear(knots, values.double())


def transform(function: PiecewiseLinear, k: Tensor) -> Tensor:
    """The exact int f(x) e^{-ikx} dx over the knots' interval, complex, (frequencies,).

    On a piece with midpoint m, half width h, mean v and slope s it is
    2h e^{-ikm} (v sinc(kh) - i s h j_1(kh)), with the spherical Bessel function j_1, which stays
    accurate where kh is small.

    Args:
        function: The function.
        k: Angular frequencies (frequencies,).

    >>> knots = torch.tensor([-1.0, 0.0, 1.0], device="cpu", dtype=torch.float64)
    >>> tent = PiecewiseLinear(knots, 1 - knots.abs())
    >>> k = torch.tensor([3.0], device="cpu", dtype=torch.float64)
    >>> abs(float(transform(tent, k).real) - (2 - 2 * math.cos(3)) / 9) < 1e-15
    True
    """
    return torch.complex(*transform_parts(function, k))


def transform_parts(function: PiecewiseLinear, k: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of the transform, in real arithmetic, to be differentiated."""
    middle = (function.knots[1:] + function.knots[:-1]) / 2
    half = function.knots.diff() / 2
    mean = (function.values[1:] + function.values[:-1]) / 2
    rise = function.values.diff() / 2  # slope times half width
    turn = k[:, None] * middle
    x = k[:, None] * half
    even = 2 * half * mean * torch.sinc(x / math.pi)
    odd = 2 * half * rise * spherical_bessel(x)
    real = even * turn.cos() - odd * turn.sin()
    imaginary = -even * turn.sin() - odd * turn.cos()
    return real.sum(1), imaginary.sum(1)


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
    """Total change of slope over the circle that the interval makes when its ends are joined.

    |f~(k)| <= bend / k^2 for functions with equal values at both ends, at the frequencies of the
    interval, k = 2 pi n / length.
    """
    slopes = function.slopes()
    return slopes.diff().abs().sum() + (slopes[0] - slopes[-1]).abs()


def aliasing_bound(function: PiecewiseLinear, samples: int) -> float:
    """How far the DFT of so many samples may be from the transform, |n| <= samples / 2.

    DFT_n / samples times the length adds the transforms at n + m samples; with equal ends and
    |f~(k)| <= bend / k^2 their sum is at most this.
    """
    length = float(function.knots[-1] - function.knots[0])
    scale = (length / (2 * math.pi * samples)) ** 2
    return float(bend(function)) * scale * (math.pi**2 - 4)


def lipschitz(function: PiecewiseLinear) -> Tensor:
    """The exact Lipschitz constant: the largest slope."""
    return function.slopes().abs().max()
