"""The radial spectrum of a function on a square: zeta(k) = k int |f~(k, phi)| dphi."""

import math

import torch
from torch import Tensor


def radial_spectrum(values: Tensor, side: float) -> tuple[Tensor, Tensor]:
    """Frequencies (cycles per unit of length) and zeta of functions on a square.

    The mean is taken off and a Hann window put on, without which the jump between opposite sides
    would hide every decay faster than 1/k. |f~| is averaged over rings as wide as the distance
    between frequencies.

    Args:
        values: Functions (..., G, G) on a grid.
        side: The length of a side of the square.

    Returns:
        Frequencies (rings,) and zeta (..., rings).

    Reference: Rahaman et al., equation 39 of appendix A.5, which has no window.
    """
    grid = values.shape[-1]
    rings = grid // 2
    cell = (side / grid) ** 2  # the area that a point of the grid stands for
    size = _windowed_transform(values.double()).abs() * cell

    # the ring of every cell of the transform, in whole cycles on the square
    cycles = torch.fft.fftfreq(grid, d=1 / grid, device=values.device)
    squares = cycles.square()
    radius = (squares[:, None] + squares).sqrt()
    ring = radius.round().long()
    inside = ring < rings
    ring = ring[inside]

    # the mean size on every ring
    shape = (*values.shape[:-2], rings)
    total = torch.zeros(shape, device=values.device, dtype=torch.float64)
    total = total.index_add(-1, ring, size[..., inside])
    cells = torch.bincount(ring, minlength=rings)

    # times the length of the ring; the constant has none
    numbers = torch.arange(rings, device=values.device, dtype=torch.float64)
    frequency = numbers / side
    zeta = 2 * math.pi * frequency * total / cells
    return frequency[1:], zeta[..., 1:]


def rounding_floor(frequencies: Tensor, rounding: Tensor, *, grid: int, side: float) -> Tensor:
    """Zeta (..., frequencies) of functions on a grid that are nothing but rounding.

    Args:
        frequencies: As `radial_spectrum` returns them.
        rounding: The width to which values of each function are rounded, (...,).
        grid: Points along a side of the square.
        side: Its length.

    Returns:
        2 pi k times the mean size of the transform of white noise under the Hann window.
    """
    deviation = rounding.double() / math.sqrt(12)
    # root of the sum of squares of the window, and the mean size of a complex normal number
    window = 3 / 8 * grid
    size = deviation * window * (side / grid) ** 2 * math.sqrt(math.pi) / 2
    return 2 * math.pi * size[..., None] * frequencies


def _windowed_transform(values: Tensor) -> Tensor:
    """The transform of functions (..., G, G) without their mean, under a Hann window."""
    grid = values.shape[-1]
    line = torch.hann_window(grid, periodic=True, device=values.device, dtype=torch.float64)
    window = line[:, None] * line
    # the mean under the window: what it leaves has no constant
    weighted = (values * window).sum((-2, -1), keepdim=True)
    mean = weighted / window.sum()
    centred = values - mean
    transform: Tensor = torch.fft.fft2(centred * window)
    return transform
