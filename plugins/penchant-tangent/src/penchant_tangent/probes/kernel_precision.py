"""Tangent kernels in a precision that centring leaves something of.

Deep networks give all samples nearly the same features. Centring takes the common part away, and
what is left may be smaller than the rounding of single precision.
"""

from __future__ import annotations

import copy

import penchant
from penchant_numerics.tangent_kernels import layer_kernels
from torch import Tensor, nn

from penchant_tangent.numerics.kernel_summary import negative_share

ROUNDING = 0.01  # of a spectrum that may be negative before it says nothing


def precise_layer_kernels(network: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    """The kernels of all layers, in double precision on the CPU, where that costs little."""
    if inputs.device.type != "cpu":
        return layer_kernels(network, inputs)
    precise = copy.deepcopy(network).double()
    # tokens are whole numbers
    given = inputs.double() if inputs.is_floating_point() else inputs
    return layer_kernels(precise, given)


def warn_of_rounding(eigenvalues: Tensor, context: penchant.Context) -> None:
    """Say where a centred kernel is rounding: a Gram matrix has no negative eigenvalues."""
    if negative_share(eigenvalues) > ROUNDING:
        context.warn(
            f"more than {ROUNDING:.0%} of the centred kernel's spectrum is negative, which is "
            'rounding: its eigenvalues, rank and shares mean nothing; dtype = "float64" may help'
        )
