"""Exact Fourier analysis of piecewise linear functions of one variable: ReLU networks on a line.

A chain of linear layers and ReLUs is piecewise linear along a line; the zeros of the
pre-activations give its knots, layer by layer. With slopes w_e on pieces P_e and
f(a) = f(b) = 0, the transform on [a, b] is

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
        rises = self.values.diff()
        return rises / self.knots.diff()

    def pieces(self, *, tolerance: float = 1e-9) -> int:
        """Number of linear pieces: neighbours with the same slope are one."""
        slopes = self.slopes().detach()
        largest = float(slopes.abs().max())
        scale = largest or 1.0
        # rounding makes tiny changes where there is no bend
        changes = slopes.diff().abs()
        bends = changes > tolerance * scale
        return 1 + int(bends.sum())

    def without_line(self) -> PiecewiseLinear:
        """The function minus the straight line through its ends.

        It is zero at both ends, so that its spectrum is that of its bends.
        """
        first = self.knots[0]
        last = self.knots[-1]
        share = (self.knots - first) / (last - first)

        # what the line has of each end
        of_first = self.values[0] * (1 - share)
        of_last = self.values[-1] * share
        rest = self.values - of_first - of_last
        return PiecewiseLinear(self.knots, rest)

    def half_square(self) -> Tensor:
        """The integral of f^2 / 2, exact: f^2 is quadratic on every piece."""
        left = self.values[:-1]
        right = self.values[1:]
        # int of a square on a piece: its width times (a^2 + ab + b^2) / 3
        squares = left.square() + left * right + right.square()
        widths = self.knots.diff()
        return (widths * squares).sum() / 6


def chain_of(network: nn.Module) -> Chain | None:
    """Weights and biases of a chain Linear, ReLU, Linear, ...; None for any other network."""
    layers = []
    for module in network.modules():
        if not list(module.children()):
            layers.append(module)
        elif type(module) is not nn.Sequential:
            # its forward pass may use its layers in any way
            return None
    # layers that change nothing but the shape are no links of the chain
    relevant = [layer for layer in layers if not isinstance(layer, (nn.Flatten, nn.Identity))]
    if not _alternates(relevant):
        return None
    return _linear_layers(relevant)


def _alternates(layers: list[nn.Module]) -> bool:
    """Are these a linear layer, a ReLU, a linear layer, ..., none of them used twice?"""
    linear = layers[::2]
    between = layers[1::2]
    if len(layers) % 2 == 0:
        return False
    if not all(isinstance(layer, nn.Linear) for layer in linear):
        return False
    if not all(isinstance(layer, nn.ReLU) for layer in between):
        return False
    # a layer that is used twice has one set of parameters for two links
    different = {id(layer) for layer in linear}
    return len(different) == len(linear)


def _linear_layers(layers: list[nn.Module]) -> Chain:
    chain = []
    for layer in layers[::2]:
        assert isinstance(layer, nn.Linear)  # `_is_chain` saw to it
        weight: Tensor = layer.weight
        bias: Tensor | None = layer.bias
        chain.append((weight, weight.new_zeros(len(weight)) if bias is None else bias))
    return chain


def on_segment(chain: Chain, start: Tensor, end: Tensor, *, output: int = 0) -> PiecewiseLinear:
    """The exact knots and values of one output of a chain from `start` to `end`.

    The variable is the length along the segment. The precision is double, whatever the network's:
    knots of deep layers are differences of large numbers.
    """
    chain = [(weight.double(), bias.double()) for weight, bias in chain]
    start, end = start.double(), end.double()
    length = (end - start).norm()
    # the input is linear: two knots say all of it
    beginning = torch.zeros_like(length)
    knots = torch.stack([beginning, length])
    hidden = torch.stack([start, end])  # (knots, width)
    for weight, bias in chain[:-1]:
        # a ReLU bends where its pre-activation is zero
        before = hidden @ weight.T + bias
        knots, before = _with_zeros(knots, before)
        hidden = before.clamp(min=0)

    # the last layer bends nothing
    weight, bias = chain[-1]
    values = hidden @ weight[output] + bias[output]
    return PiecewiseLinear(knots, values)


def _with_zeros(knots: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Knots with the zeros of every column of values (knots, width) added, and the values there."""
    left, right = values[:-1], values[1:]
    # pieces on which a unit changes its sign, and where on the piece
    changes = (left * right) < 0
    piece, unit = torch.nonzero(changes, as_tuple=True)
    from_left = left[piece, unit]
    from_right = right[piece, unit]
    share = from_left / (from_left - from_right)

    # the new knots, and the values of all units there
    widths = knots[piece + 1] - knots[piece]
    zeros = knots[piece] + share * widths
    rises = right[piece] - left[piece]
    at_zeros = left[piece] + share[:, None] * rises
    # exactly zero: rounding must not open a gap in the ReLU
    at_zeros = at_zeros.scatter(1, unit[:, None], 0.0)

    # in order along the line, and each only once
    merged, order = torch.cat([knots, zeros]).sort(stable=True)
    both = torch.cat([values, at_zeros])[order]
    inner = merged[1:-1]
    is_new = inner > merged[:-2]
    before_end = inner < merged[-1]
    distinct = torch.ones(len(merged), device=knots.device, dtype=torch.bool)
    distinct[1:-1] = is_new & before_end
    return merged[distinct], both[distinct]


def on_grid(values: Tensor, length: float) -> PiecewiseLinear:
    """The function that is linear between values at equally spaced points of [0, length]."""
    count = len(values)
    # both ends of the interval are knots
    knots = torch.linspace(0, length, count, device=values.device, dtype=torch.float64)
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
    real, imaginary = transform_parts(function, k)
    return torch.complex(real, imaginary)


def transform_parts(function: PiecewiseLinear, k: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of the transform, in real arithmetic, to be differentiated."""
    knots, values = function.knots, function.values
    # of every piece: midpoint, half width, mean, and slope times half width
    middle = (knots[1:] + knots[:-1]) / 2
    half = knots.diff() / 2
    mean = (values[1:] + values[:-1]) / 2
    rise = values.diff() / 2

    # what the even and the odd part of a piece give around its midpoint
    x = k[:, None] * half
    even = 2 * half * mean * torch.sinc(x / math.pi)
    odd = 2 * half * rise * spherical_bessel(x)

    # turned by the phase of the midpoint
    turn = k[:, None] * middle
    cosine, sine = turn.cos(), turn.sin()
    real = even * cosine - odd * sine
    imaginary = -even * sine - odd * cosine
    return real.sum(1), imaginary.sum(1)


def lemma_sum(function: PiecewiseLinear, k: Tensor) -> Tensor:
    """-i sum_e (w_e / k) 1~_{P_e}(k): the transform of a function that is zero at both ends."""
    rows = k[:, None]
    edges = torch.exp(-1j * rows * function.knots)
    # 1~_P of every piece
    differences = edges[:, :-1] - edges[:, 1:]
    indicators = differences / (1j * rows)
    weights = function.slopes() / rows
    total = (weights * indicators).sum(1)
    return -1j * total


def spherical_bessel(x: Tensor) -> Tensor:
    """j_1(x) = sin x / x^2 - cos x / x, by its series where that cancels."""
    small = x.abs() < 0.05
    series = x / 3 - x**3 / 30 + x**5 / 840
    # both are computed everywhere, so the formula must be finite where it is not used
    safe = torch.where(small, 1.0, x)
    first = torch.sin(safe) / safe**2
    second = torch.cos(safe) / safe
    formula = first - second
    return torch.where(small, series, formula)


def bend(function: PiecewiseLinear) -> Tensor:
    """Total change of slope over the circle that the interval makes when its ends are joined.

    |f~(k)| <= bend / k^2 for functions with equal values at both ends, at the frequencies of the
    interval, k = 2 pi n / length.
    """
    slopes = function.slopes()
    changes = slopes.diff().abs()
    inside = changes.sum()
    where_ends_meet = (slopes[0] - slopes[-1]).abs()
    return inside + where_ends_meet


def lipschitz(function: PiecewiseLinear) -> Tensor:
    """The exact Lipschitz constant: the largest slope."""
    return function.slopes().abs().max()
