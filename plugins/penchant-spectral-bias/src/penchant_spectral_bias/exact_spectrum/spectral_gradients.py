"""How the transform of a ReLU network depends on its parameters, and how fast it is learnt.

Differentiating the exact transform f~(k) of `piecewise_linear` gives |d f~(k) / d theta|, one power
of k larger than f~ itself (proposition A.2 of Rahaman et al.). Gradient descent on
L = int (f - lambda)^2 / 2 with the target lambda = sin(kx) moves f~(k) at the rate

    d f~(k) / dt = - (d f~(k) / d theta) . (d L / d theta),

which is O(1/k) (proposition A.3). Both factors are exact: L is int f^2 / 2 + Im f~(k) up to a
constant. f is taken without the straight line through its ends.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from penchant_spectral_bias.shared.piecewise_linear import (
    Chain,
    PiecewiseLinear,
    on_segment,
    transform_parts,
)


class SpectralGradients(NamedTuple):
    """How the transform depends on the parameters, and how fast it would be learnt."""

    norms: Tensor  # (frequencies,): |d f~(k) / d theta| over all parameters
    rates: Tensor  # (frequencies,): |d f~(k) / dt| where descent on the target sin(kx) begins


def spectral_gradients(chain: Chain, start: Tensor, end: Tensor, k: Tensor) -> SpectralGradients:
    """Gradients of the transform of a chain along a segment.

    Args:
        chain: Weights and biases.
        start: One end of the segment.
        end: The other.
        k: Angular frequencies (frequencies,).
    """
    leaves = _leaves(chain)
    function = _function(leaves, start, end)
    of_square = _flat(function.half_square(), leaves)
    norms, rates = [], []
    for real_part, imaginary_part in zip(*transform_parts(function, k)):
        real = _flat(real_part, leaves)
        imaginary = _flat(imaginary_part, leaves)
        square = real.square().sum() + imaginary.square().sum()
        norms.append(square.sqrt())

        # the target adds minus int f sin(kx), which is the imaginary part
        of_loss = of_square + imaginary
        rate = torch.hypot(real @ of_loss, imaginary @ of_loss)
        rates.append(rate)
    return SpectralGradients(torch.stack(norms), torch.stack(rates))


def _leaves(chain: Chain) -> list[Tensor]:
    """Weights and biases in turn, as leaves in double precision."""
    leaves = []
    for weight, bias in chain:
        for tensor in (weight, bias):
            leaf = tensor.detach().double()
            leaves.append(leaf.requires_grad_())
    return leaves


def _function(leaves: list[Tensor], start: Tensor, end: Tensor) -> PiecewiseLinear:
    weights = leaves[::2]
    biases = leaves[1::2]
    chain = list(zip(weights, biases))
    return on_segment(chain, start, end).without_line()


def _flat(value: Tensor, leaves: list[Tensor]) -> Tensor:
    """The gradient as one vector, zero where the number does not depend on a leaf."""
    gradients = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
    flat = []
    for gradient, leaf in zip(gradients, leaves):
        if gradient is None:
            gradient = torch.zeros_like(leaf)
        flat.append(gradient.flatten())
    return torch.cat(flat)
