r"""Spectra of functions on lines, planes and grids, by bands of frequencies.

On a grid of N_1 x ... x N_m points a frequency is k, whole cycles along each axis, and band b holds
all k with |k| rounded to b. For functions f and t with transforms F and T, both around their means,
their product in a band is $\sum_{k \in b} \operatorname{Re}(F_k \overline{T_k})$, summed over
outputs; with f = t it is the function's energy.

A function on a domain of one's own is not periodic: what differs between its ends leaks into all
frequencies, as 1 / k. Hann's window $\sin^2(\pi j / N)$ on every axis takes this away, at the price
of a resolution of two cycles: a wave of k cycles is seen at k - 1, k and k + 1.

Reference: Harris, On the use of windows for harmonic analysis with the discrete Fourier transform,
Proceedings of the IEEE 1978.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

WINDOWS = ("hann", "none")


def highest_band(counts: Sequence[int]) -> int:
    """The highest band all of whose frequencies a grid resolves.

    >>> highest_band((64, 32))
    15
    """
    return (min(counts) - 1) // 2


def transforms(values: Tensor, axes: int, window: str) -> Tensor:
    """Transforms of functions around their means, scaled by the sum of the window.

    Args:
        values: Values (..., N_1, ..., N_m, outputs).
        axes: m.
        window: One of `WINDOWS`.
    """
    values = values.double()
    dims = tuple(range(-axes - 1, -1))
    weights = torch.ones((), device=values.device, dtype=torch.float64)
    if window == "hann":
        for axis in dims:
            weights = weights * _hann(values.shape[axis], values.device).reshape(
                [-1] + [1] * (-axis - 1)
            )
    shape = [*values.shape[-axes - 1 : -1], 1]
    weights = weights.expand(shape)
    total = weights.sum()
    # around the mean under the window, so that a constant leaks nowhere
    mean = (values * weights).sum(dims, keepdim=True) / total
    transformed: Tensor = torch.fft.fftn((values - mean) * weights, dim=dims) / total
    return transformed


def _hann(count: int, device: torch.device) -> Tensor:
    positions = torch.arange(count, device=device, dtype=torch.float64) / count
    return torch.sin(math.pi * positions).square()


def band_products(first: Tensor, second: Tensor, axes: int, bands: Sequence[int]) -> Tensor:
    """Products of transforms in bands, summed over outputs.

    Args:
        first: Transforms (..., N_1, ..., N_m, outputs).
        second: Others, which broadcast with these.
        axes: m.
        bands: Distinct bands.

    Returns:
        Products (..., bands). A wave A sin of frequency k along a line has A^2 / 2 in band k with
        itself, without a window.

    >>> z = torch.arange(16, device="cpu", dtype=torch.float64) / 16
    >>> wave = transforms(3 * torch.sin(2 * math.pi * 2 * z)[:, None], 1, "none")
    >>> band_products(wave, wave, 1, [1, 2, 3]).round(decimals=6).abs().tolist()
    [0.0, 4.5, 0.0]
    """
    # Re(F conj T)
    product = (first.real * second.real + first.imag * second.imag).sum(-1)
    numbers = _bands(product.shape[-axes:], product.device)
    chosen = torch.tensor(list(bands), device=product.device)
    # a product with zeros and ones has one order of summation on every device
    inside = (numbers[:, None] == chosen).to(product.dtype)
    sums: Tensor = product.flatten(-axes) @ inside
    return sums


def _bands(counts: Sequence[int], device: torch.device) -> Tensor:
    """The band of every frequency of a grid, flattened."""
    squares = torch.zeros((), device=device, dtype=torch.float64)
    for axis, count in enumerate(counts):
        cycles = torch.fft.fftfreq(count, 1 / count, device=device, dtype=torch.float64)
        shape = [1] * len(counts)
        shape[axis] = count
        squares = squares + cycles.square().reshape(shape)
    return squares.sqrt().round().long().flatten()


def mean_band(energies: Tensor, bands: Tensor) -> Tensor:
    """The mean band of energies (..., bands), weighted by them."""
    total = energies.sum(-1)
    return (energies * bands).sum(-1) / total
