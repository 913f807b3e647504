"""The spectral model of pooling: f(x) = theta . A (m * phi * x)."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from torch import nn

from penchant_architectures.layers import make_activation
from penchant_architectures.shapes import written


class LinearPooling(nn.Module):
    """Multiplies by phi and by the prefilter m, folds the spectrum on M entries, and reads them out with theta."""

    def __init__(self, prefilter: torch.Tensor, outputs: int, options: Any) -> None:
        super().__init__()
        inputs = len(prefilter)
        self.stride, self.folded = options.stride, math.ceil(inputs / options.stride)
        self.phi = nn.Parameter(torch.empty(inputs, device=prefilter.device))
        self.theta = nn.Parameter(torch.empty(outputs, self.folded, device=prefilter.device))
        self.register_buffer("prefilter", prefilter.to(torch.get_default_dtype()))
        self.activation = make_activation(options.activation)
        nn.init.normal_(self.phi, 0.0, options.phi_std)
        nn.init.normal_(self.theta, 0.0, options.theta_std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filtered = self.prefilter * self.activation(self.phi * x.flatten(1))
        missing = self.stride * self.folded - filtered.shape[1]
        blocks = nn.functional.pad(filtered, (0, missing)).unflatten(1, (self.stride, self.folded))
        return blocks.sum(dim=1) @ self.theta.T / math.sqrt(self.stride)


def build(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `linear-pooling`."""
    inputs = math.prod(shape)
    if inputs != max(shape):
        raise penchant.Error(
            f"linear-pooling needs inputs of one dimension, such as 128, found {written(shape)}"
        )
    if options.stride > inputs:
        raise penchant.Error(
            f"linear-pooling needs at least as many inputs as its stride {options.stride}, found {inputs}"
        )
    return LinearPooling(_prefilter(options, inputs), outputs, options)


def _prefilter(options: Any, inputs: int) -> torch.Tensor:
    """The prefilter m in the order of the DFT, in float64."""
    if options.response is not None:
        response = torch.as_tensor(options.response, dtype=torch.float64, device="cpu")
        if response.shape != (inputs,):
            raise penchant.Error(
                f"response must have {inputs} numbers, one per input, found the shape {written(tuple(response.shape))}"
            )
        return response
    return {"none": _all_pass, "average": _average, "low-pass": _low_pass}[options.prefilter](
        inputs, options.stride
    )


def _all_pass(inputs: int, stride: int) -> torch.Tensor:
    return torch.ones(inputs, dtype=torch.float64, device="cpu")


def _average(inputs: int, stride: int) -> torch.Tensor:
    """Size of the spectrum of a mean of `stride` neighbours; its phase would only turn phi, whose law has no phase."""
    window = torch.zeros(inputs, dtype=torch.float64, device="cpu")
    window[:stride] = 1 / stride
    return torch.fft.fft(window).abs()


def _low_pass(inputs: int, stride: int) -> torch.Tensor:
    """One where subsampling by `stride` loses nothing: strictly below its Nyquist frequency 1 / (2 stride)."""
    index = torch.arange(inputs, device="cpu")
    frequency = torch.minimum(index, inputs - index)  # in units of 1 / inputs
    return (2 * stride * frequency < inputs).double()
