"""The radial spectrum of a function on a square: zeta(k) = k int |f~(k, phi)| dphi."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def radial_spectrum(values: Tensor, side: float) -> tuple[Tensor, Tensor]:
    """Frequencies (cycles per unit of length) and zeta of functions (..., G, G) on a square with this side.

    The mean is taken off and a Hann window put on, without which the jump between opposite sides would hide every decay faster
    than 1/k. |f~| is averaged over rings as wide as the distance between frequencies.

    Reference: Rahaman et al., equation 39 of appendix A.5, which has no window.
    """
    grid = values.shape[-1]
    line = torch.hann_window(grid, periodic=True, device=values.device, dtype=torch.float64)
    window = line[:, None] * line
    centred = (
        values.double() - (values.double() * window).sum((-2, -1), keepdim=True) / window.sum()
    )
    size = torch.fft.fft2(centred * window).abs() * (side / grid) ** 2
    cycles = torch.fft.fftfreq(grid, d=1 / grid, device=values.device)  # whole cycles on the square
    ring = (cycles[:, None].square() + cycles.square()).sqrt().round().long()
    rings = grid // 2
    inside = ring < rings
    total = torch.zeros(*values.shape[:-2], rings, device=values.device, dtype=torch.float64)
    total = total.index_add(-1, ring[inside], size[..., inside])
    cells = torch.bincount(ring[inside], minlength=rings)
    frequency = torch.arange(rings, device=values.device, dtype=torch.float64) / side
    return frequency[1:], (2 * math.pi * frequency * total / cells)[..., 1:]
