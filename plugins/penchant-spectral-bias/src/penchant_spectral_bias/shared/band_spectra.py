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

How much of each wave of a target a function has: 0 none, 1 all.

With the transforms f_k and t_k of function and target, the share is Re(f_k conj t_k) / |t_k|^2, the
projection on the target's wave. What leaks into frequency k from elsewhere has another phase, so
that its projection is around 0, while its amplitude |f_k| / |t_k| is not, and is the larger the
smaller |t_k| is: amplitudes that rise with k would make low frequencies look learnt first in
functions that know no order.

How fast a spectrum falls: the slope of its logarithm over windows of the frequency's.
"""

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


def learnt_share(functions: Tensor, target: Tensor, frequencies: Sequence[int]) -> Tensor:
    """Shares of the target's waves in functions.

    Args:
        functions: Values on the grid z = j/N, (..., N).
        target: Values of the target, which broadcast with these.
        frequencies: Whole cycles, below N / 2.

    Returns:
        Shares (..., frequencies).

    >>> z = torch.arange(8, device="cpu", dtype=torch.float64) / 8
    >>> wave = torch.sin(2 * math.pi * z)
    >>> round(float(learnt_share(0.25 * wave, wave, [1])), 6)
    0.25
    """
    bins = list(frequencies)
    transform = torch.fft.rfft(functions.double())
    transform = transform[..., bins]
    expected = torch.fft.rfft(target.double())
    expected = expected[..., bins]
    # Re(f_k conj t_k)
    of_real = transform.real * expected.real
    of_imaginary = transform.imag * expected.imag
    square = expected.abs().square()
    shares: Tensor = (of_real + of_imaginary) / square
    return shares


def mean_over_training(shares: Tensor) -> Tensor:
    """Mean of shares (..., steps, frequencies) over a training: large where a wave came early."""
    if shares.shape[-2] < 2:
        return shares.mean(-2)
    # the trapezoidal rule over recorded steps
    before = shares[..., :-1, :]
    after = shares[..., 1:, :]
    between = (before + after) / 2
    return between.mean(-2)


def first_fit(shares: Tensor, steps: Tensor, learnt_at: float) -> Tensor:
    """The first step at which each wave of shares (..., steps, frequencies) is learnt, else NaN."""
    above = shares >= learnt_at
    # the first of equal values is the one that is found
    position = above.int().argmax(-2)
    first = steps[position].double()
    ever = above.any(-2)
    return torch.where(ever, first, math.nan)


def in_windows(k: Tensor, magnitude: Tensor, *, windows: int = 12) -> tuple[Tensor, Tensor]:
    """A spectrum without its oscillations: root mean squares in equal windows of log k.

    Args:
        k: Frequencies (frequencies,).
        magnitude: Absolute values of the spectrum there.
        windows: How many windows; those without a frequency are left out.

    Returns:
        The geometric mean of the frequencies of each window, and the root mean square there.
    """
    low = math.log10(float(k.min()))
    high = math.log10(float(k.max()))
    edges = torch.logspace(low, high, windows + 1, device=k.device, dtype=k.dtype)
    # the window of every frequency
    position = torch.bucketize(k, edges[1:-1])
    positions = []
    sizes = []
    for number in range(windows):
        inside = position == number
        if not inside.any():
            continue
        middle = k[inside].log().mean()
        mean_square = magnitude[inside].square().mean()
        positions.append(middle.exp())
        sizes.append(mean_square.sqrt())
    return torch.stack(positions), torch.stack(sizes)


def decay_exponent(k: Tensor, magnitude: Tensor, *, windows: int = 12) -> float:
    """The power of k with which a spectrum falls: slope of log magnitude against log k.

    NaN where there is a window in which the spectrum is zero, as that of a constant.
    """
    positions, sizes = in_windows(k, magnitude, windows=windows)
    if not bool((sizes > 0).all()):
        return math.nan
    x = positions.log()
    y = sizes.log()
    # slope of the least squares line
    x = x - x.mean()
    y = y - y.mean()
    slope = (x @ y) / (x @ x)
    return float(slope)
