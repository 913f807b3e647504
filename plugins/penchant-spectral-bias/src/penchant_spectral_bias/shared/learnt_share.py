"""How much of each wave of a target a function has: 0 none, 1 all.

With the transforms f_k and t_k of function and target, the share is Re(f_k conj t_k) / |t_k|^2, the
projection on the target's wave. What leaks into frequency k from elsewhere has another phase, so
that its projection is around 0, while its amplitude |f_k| / |t_k| is not, and is the larger the
smaller |t_k| is: amplitudes that rise with k would make low frequencies look learnt first in
functions that know no order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


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
