"""Linear convolution, average over positions, linear readout."""

from __future__ import annotations

from typing import Any

import penchant
import torch
from torch import nn

from penchant_architectures.shapes import written

_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d}


class LinearConvolution(nn.Module):
    """f(x) = sum_c p_c (1/k) sum_j w_c . patch_j(x); without pooling, p has an entry for each c and j."""

    def __init__(self, channels: int, sides: tuple[int, ...], outputs: int, options: Any) -> None:
        super().__init__()
        self.sides, self.channels = sides, channels
        self.wrap = options.kernel - 1 if options.padding == "circular" else 0
        self.average = options.pooling == "average"
        convolution = _CONVOLUTIONS[len(sides)]
        self.convolution = convolution(
            channels, options.channels, options.kernel, stride=options.stride, bias=False
        )
        features = (
            options.channels if self.average else options.channels * _positions(sides, options)
        )
        self.readout = nn.Linear(features, outputs, bias=False)
        nn.init.normal_(self.convolution.weight, 0.0, options.weight_std)
        nn.init.normal_(self.readout.weight, 0.0, options.readout_std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(len(x), self.channels, *self.sides)
        for axis in range(2, x.ndim):
            x = torch.cat([x, x.narrow(axis, 0, self.wrap)], dim=axis)
        maps = self.convolution(x).flatten(2)  # (batch, channels, positions)
        return self.readout(maps.mean(dim=2) if self.average else maps.flatten(1))


def build(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `linear-conv`."""
    channels, sides = (shape[0], shape[1:]) if len(shape) == 3 else (1, shape)
    if min(sides) < options.kernel:
        raise penchant.Error(
            f"linear-conv needs inputs with no side shorter than its kernel {options.kernel}, found {written(shape)}"
        )
    return LinearConvolution(channels, tuple(sides), outputs, options)


def _positions(sides: tuple[int, ...], options: Any) -> int:
    """How many patches there are."""
    count = 1
    for side in sides:
        reach = side if options.padding == "circular" else side - options.kernel + 1
        count *= -(-reach // options.stride)
    return count
