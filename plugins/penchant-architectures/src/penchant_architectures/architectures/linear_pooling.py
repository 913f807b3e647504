"""The spectral model of pooling: f(x) = theta . A (m * phi * x)."""

import math

import penchant
import torch
from penchant_numerics.data import written
from penchant_numerics.inputs import pooling_filters
from torch import nn

from penchant_architectures.architectures.layers import make_activation
from penchant_architectures.declarations import linear_models


class LinearPooling(nn.Module):
    """Multiplies by phi and the prefilter m, folds the spectrum on M entries, reads with theta."""

    def __init__(
        self, prefilter: torch.Tensor, outputs: int, options: linear_models.LinearPooling
    ) -> None:
        super().__init__()
        inputs, device = len(prefilter), prefilter.device
        self.stride = options.stride
        self.folded = math.ceil(inputs / options.stride)
        self.phi = nn.Parameter(torch.empty(inputs, device=device))
        self.theta = nn.Parameter(torch.empty(outputs, self.folded, device=device))
        self.register_buffer("prefilter", prefilter.to(torch.get_default_dtype()))
        self.activation = make_activation(options.activation)
        # In the order in which they were made.
        nn.init.normal_(self.phi, 0.0, options.phi_std)
        nn.init.normal_(self.theta, 0.0, options.theta_std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One number per output: theta . A (m * phi * x)."""
        spectrum = self.phi * x.flatten(1)
        filtered = self.prefilter * self.activation(spectrum)
        # Blocks of M entries lie on each other; the last may be short.
        missing = self.stride * self.folded - filtered.shape[1]
        padded = nn.functional.pad(filtered, (0, missing))
        blocks = padded.unflatten(1, (self.stride, self.folded))
        folded = blocks.sum(dim=1)
        read = folded @ self.theta.T
        outputs: torch.Tensor = read / math.sqrt(self.stride)
        return outputs


def build(options: linear_models.LinearPooling, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `linear-pooling`."""
    inputs = math.prod(shape)
    if inputs != max(shape):
        raise penchant.Error(
            f"linear-pooling needs inputs of one dimension, such as 128, found {written(shape)}"
        )
    if options.stride > inputs:
        raise penchant.Error(
            "linear-pooling needs at least as many inputs as its stride "
            f"{options.stride}, found {inputs}"
        )
    return LinearPooling(_prefilter(options, inputs), outputs, options)


def _prefilter(options: linear_models.LinearPooling, inputs: int) -> torch.Tensor:
    """The prefilter m in the order of the DFT, in float64."""
    if options.response is None:
        return pooling_filters.response(options.prefilter, inputs=inputs, stride=options.stride)
    response = torch.as_tensor(options.response, dtype=torch.float64, device="cpu")
    if response.shape != (inputs,):
        raise penchant.Error(
            f"response must have {inputs} numbers, one per input, "
            f"found the shape {written(response.shape)}"
        )
    return response
