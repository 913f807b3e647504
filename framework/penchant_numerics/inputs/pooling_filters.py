"""Prefilters of pooling in one dimension: what a signal meets before every S-th value is kept.

`none` lets everything through, `average` is the mean of S neighbours, and `low-pass` is the ideal
filter that keeps what subsampling by S does not lose: frequencies strictly below 1/(2 S).

Reference: Ortiz-Jimenez, Modas, Moosavi-Dezfooli, Frossard, "Neural Anisotropy Directions", NeurIPS
2020, section 2.2.
"""

import torch
from penchant_numerics.refusal import Refusal
from torch import Tensor

PREFILTERS = ("none", "average", "low-pass")


def response(prefilter: str, *, inputs: int, stride: int) -> Tensor:
    """How strongly a prefilter lets every frequency through.

    Its phase is left out: in a product with random numbers whose law has no phase it turns them
    only.

    Args:
        prefilter: `none`, `average` or `low-pass`.
        inputs: Length D of the signal.
        stride: Every S-th value is kept.

    Returns:
        Sizes (inputs,) in the order of the discrete Fourier transform.

    >>> response("low-pass", inputs=8, stride=2).tolist()
    [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """
    if prefilter == "none":
        return torch.ones(inputs, device="cpu", dtype=torch.float64)
    if prefilter == "average":
        window = taps(prefilter, inputs=inputs, stride=stride)
        amplitudes: Tensor = torch.fft.fft(window).abs()
        return amplitudes
    if prefilter == "low-pass":
        return _below_nyquist(inputs, stride)
    raise _unknown(prefilter)


def taps(prefilter: str, *, inputs: int, stride: int) -> Tensor:
    """A prefilter in space: what a circular convolution with it does.

    Args:
        prefilter: `none`, `average` or `low-pass`.
        inputs: Length D of the signal.
        stride: Every S-th value is kept.

    Returns:
        Weights (inputs,) of a value and of those behind it.

    >>> taps("average", inputs=4, stride=2).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    window = torch.zeros(inputs, device="cpu", dtype=torch.float64)
    if prefilter == "none":
        window[0] = 1
    elif prefilter == "average":
        window[:stride] = 1 / stride
    elif prefilter == "low-pass":
        window = torch.fft.ifft(_below_nyquist(inputs, stride)).real
    else:
        raise _unknown(prefilter)
    return window


def _below_nyquist(inputs: int, stride: int) -> Tensor:
    """One where a frequency is strictly below that of a signal of every S-th value, else zero."""
    index = torch.arange(inputs, device="cpu")
    frequency = torch.minimum(index, inputs - index)  # in units of 1 / inputs
    below = 2 * stride * frequency < inputs
    return below.to("cpu", torch.float64)


def _unknown(prefilter: str) -> Refusal:
    known = ", ".join(PREFILTERS)
    return Refusal(f"prefilter must be one of {known}, found {prefilter!r}")
