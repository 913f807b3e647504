"""Tangent kernels in a precision that centring leaves something of.

Deep networks give all samples nearly the same features. Centring subtracts what they have in
common, and what is left may be smaller than the rounding of single precision.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import penchant
import torch
from penchant_numerics.layers import layer_kernels
from torch import Tensor, nn

from penchant_tangent.shared.kernel_summary import negative_share

ROUNDING = 0.01  # of a spectrum that may be negative before it is meaningless


def precise_network(network: nn.Module, device: torch.device) -> nn.Module:
    """A copy in double precision on the CPU, where that costs little; elsewhere the network."""
    if device.type != "cpu":
        return network
    return copy.deepcopy(network).double()


def precise_values(values: Tensor) -> Tensor:
    """The same for what it is given, and for labels; classes and tokens are whole numbers."""
    if values.device.type != "cpu" or not values.is_floating_point():
        return values
    return values.double()


def precise_layer_kernels(network: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The kernels of all layers, as precise as that."""
    precise = precise_network(network, inputs.device)
    return layer_kernels(precise, precise_values(inputs))


def whole_kernel(kernels: Mapping[str, Tensor]) -> Tensor:
    """The kernel of all parameters: the sum of those of layers, in their order."""
    first, *others = kernels.values()
    total = first
    for kernel in others:
        total = total + kernel
    return total


def refuse_constant(eigenvalues: Tensor, K: Tensor) -> None:
    """Samples that have the same features make a centred kernel zero.

    Args:
        eigenvalues: Of the centred kernel.
        K: The kernel (n C, n C), not centred.
    """
    rounding = len(K) * torch.finfo(torch.float64).eps
    if float(eigenvalues.max()) <= rounding * float(K.trace()):
        raise penchant.Error(
            "the centred tangent kernel is zero to rounding, expected samples that differ: the "
            "gradient of the network's outputs by its parameters is the same at all of them"
        )


def warn_of_rounding(eigenvalues: Tensor, context: penchant.Context) -> None:
    """Say where a centred kernel is rounding: a Gram matrix has no negative eigenvalues."""
    if negative_share(eigenvalues) > ROUNDING:
        context.warn(
            f"more than {ROUNDING:.0%} of the centred kernel's spectrum is negative, which is "
            'rounding: its eigenvalues, rank and shares are meaningless; dtype = "float64" may help'
        )
