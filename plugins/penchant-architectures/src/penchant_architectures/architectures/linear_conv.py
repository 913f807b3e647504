"""Linear convolution, average over positions, linear readout."""

import penchant
import torch
from penchant_numerics.data import written
from torch import nn

from penchant_architectures.declarations import linear_models

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d}  # by the dimensions of an input


class LinearConvolution(nn.Module):
    """f(x) = sum_c p_c (1/k) sum_j w_c . patch_j(x); without pooling, one p per c and j."""

    def __init__(
        self,
        channels: int,
        sides: tuple[int, ...],
        outputs: int,
        options: linear_models.LinearConvolution,
    ) -> None:
        super().__init__()
        self.sides, self.channels = sides, channels
        self.wrap = options.kernel - 1 if options.padding == "circular" else 0
        self.average = options.pooling == "average"
        # One patch per position, with the same weights.
        convolution = CONVOLUTIONS[len(sides)]
        self.convolution = convolution(
            channels, options.channels, options.kernel, stride=options.stride, bias=False
        )
        # The readout sees the average of each channel, or every position of it.
        features = options.channels
        if not self.average:
            features *= _positions(sides, options)
        self.readout = nn.Linear(features, outputs, bias=False)
        # Sampled once more, with the requested deviations.
        nn.init.normal_(self.convolution.weight, 0.0, options.weight_std)
        nn.init.normal_(self.readout.weight, 0.0, options.readout_std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The readout of patches, averaged over positions or each by itself."""
        x = x.reshape(len(x), self.channels, *self.sides)
        # Circular: the beginning of every axis stands again behind its end.
        for axis in range(2, x.ndim):
            beginning = x.narrow(axis, 0, self.wrap)
            x = torch.cat([x, beginning], dim=axis)
        maps = self.convolution(x).flatten(2)  # (batch, channels, positions)
        # One number a channel, or one a channel and position.
        if self.average:
            features = maps.mean(dim=2)
        else:
            features = maps.flatten(1)
        outputs: torch.Tensor = self.readout(features)
        return outputs


def build(
    options: linear_models.LinearConvolution, shape: tuple[int, ...], outputs: int
) -> nn.Module:
    """Target of the architecture `linear-conv`."""
    # Only three dimensions have channels of their own.
    channels, sides = 1, shape
    if len(shape) == 3:
        channels, sides = shape[0], shape[1:]
    if min(sides) < options.kernel:
        raise penchant.Error(
            f"linear-conv needs inputs with no side shorter than its kernel {options.kernel}, "
            f"found {written(shape)}"
        )
    return LinearConvolution(channels, tuple(sides), outputs, options)


def _positions(sides: tuple[int, ...], options: linear_models.LinearConvolution) -> int:
    """How many patches there are."""
    count = 1
    for side in sides:
        starts = side
        # Without padding the last patch ends where the input does.
        if options.padding == "none":
            starts -= options.kernel - 1
        count *= -(-starts // options.stride)
    return count
