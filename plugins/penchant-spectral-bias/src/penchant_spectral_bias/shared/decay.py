"""How fast a spectrum falls: the slope of its logarithm over windows of the frequency's."""

from __future__ import annotations

import math

import torch
from torch import Tensor


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
