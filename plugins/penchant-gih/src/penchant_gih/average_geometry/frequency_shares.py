"""How much of a second moment over images is at each spatial frequency.

With F the unitary discrete Fourier transform of one channel, frequency k has the share
sum_c (F G_cc F^*)_kk / Tr G of the trace: the mean squared amplitude of the gradient there. The
shares add up to 1, and are linear in G up to the trace, so that a few networks do not bias them as
they bias eigenvalues. Isotropic gradients have the same share at every frequency.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LOW = 0.125  # cycles a pixel: a wave of eight pixels or longer


def energies(moment: Tensor, shape: Sequence[int]) -> Tensor:
    """Mean squared amplitudes of the vectors of a moment, by frequency.

    Args:
        moment: A second moment (D, D) over inputs of this shape.
        shape: Channels, height and width, or the length of a signal.

    Returns:
        Energies of the grid, in the order of `torch.fft`; they add up to the trace.
    """
    channels, grid = _split(shape)
    points = math.prod(grid)
    axes = tuple(range(-len(grid), 0))
    total = torch.zeros(points, device=moment.device, dtype=moment.dtype)
    for channel in range(channels):
        first = channel * points
        own = slice(first, first + points)
        block = moment[own, own].reshape(points, *grid)
        # F acts on rows, its conjugate on columns.
        rows = torch.fft.fftn(block, dim=axes, norm="ortho")
        columns = rows.reshape(points, points).T.reshape(points, *grid)
        both = torch.fft.ifftn(columns, dim=axes, norm="ortho")
        squares = both.reshape(points, points).diagonal()
        total = total + squares.real
    return total.reshape(grid)


def energies_of_rows(rows: Tensor, weights: Tensor, shape: Sequence[int]) -> Tensor:
    """The same of the moment sum_t w_t g_t g_t^T, which is never formed.

    Args:
        rows: The vectors g (vectors, D).
        weights: The w, (vectors,).
        shape: Channels, height and width, or the length of a signal.
    """
    channels, grid = _split(shape)
    axes = tuple(range(-len(grid), 0))
    total = torch.zeros(grid, device=rows.device, dtype=weights.dtype)
    for row, weight in zip(rows, weights):
        image = row.to(weights.dtype).reshape(channels, *grid)
        amplitudes = torch.fft.fftn(image, dim=axes, norm="ortho")
        energy = amplitudes.abs().square().sum(0)
        total = total + weight * energy
    return total


def frequencies(shape: Sequence[int], *, device: torch.device | str) -> Tensor:
    """Lengths |k| of the frequencies of the grid, in cycles a pixel, in the order of `energies`."""
    _, grid = _split(shape)
    squares = torch.zeros(grid, device=device, dtype=torch.float64)
    for axis, count in enumerate(grid):
        along = torch.fft.fftfreq(count, device=device, dtype=torch.float64)
        # A grid that is one wide along all axes but this.
        sides = [1] * len(grid)
        sides[axis] = count
        squares = squares + along.square().reshape(sides)
    return squares.sqrt()


def low_share(by_frequency: Tensor, shape: Sequence[int]) -> float:
    """Share of energies of the grid at frequencies of at most an eighth of a cycle per pixel.

    >>> moment = torch.eye(64, device="cpu", dtype=torch.float64)
    >>> low_share(energies(moment, (1, 8, 8)), (1, 8, 8))
    0.078125
    """
    lengths = frequencies(shape, device=by_frequency.device)
    slow = by_frequency[lengths <= LOW]
    share = slow.sum() / by_frequency.sum()
    return float(share)


def _split(shape: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Channels and the grid; a signal has one channel."""
    if len(shape) == 1:
        return 1, tuple(shape)
    channels, *grid = shape
    return channels, tuple(grid)
