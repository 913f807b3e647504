"""How many eigenvalues participate in a spectrum, with standard errors.

Two counts: exp of the entropy of their shares (the effective rank), and how many of the largest
carry 90 % of the sum. The second is a whole number, which leaving out a few networks often does
not change although other networks would; so its error is that of the position between two whole
numbers where 90 % are reached, and of rounding it up, which is uniform: 1 / sqrt(12).
"""

import math

import numpy as np
import torch
from penchant_numerics.statistics import Null, jackknife, null_of
from torch import Tensor

SHARE = 0.9
_ROUNDING_UP = 1 / math.sqrt(12)  # standard deviation of a number between two whole ones


def without_rounding(eigenvalues: Tensor) -> Tensor:
    """Descending eigenvalues (k,) with exact zeros where a decomposition left its own rounding."""
    # Backward stable decompositions err by about this much, relative to the largest.
    size = max(len(eigenvalues), 1)
    rounding = size * torch.finfo(eigenvalues.dtype).eps
    floor = rounding * eigenvalues.abs().max()
    zeros = torch.zeros_like(eigenvalues)
    return torch.where(eigenvalues > floor, eigenvalues, zeros)


def eigenvalue_stderr(spectra: Tensor) -> np.ndarray:
    """Standard errors (k,) of eigenvalues, from spectra (groups, k) with one group left out.

    With fewer networks than inputs a spectrum without some of them is shorter: of its last
    eigenvalues nothing is left but rounding, so what they would do is not known, and is NaN.
    """
    # Zeros tell where at least one spectrum has ended.
    cleaned = torch.stack([without_rounding(spectrum) for spectrum in spectra])
    errors = np.asarray(jackknife(spectra))
    gone = (cleaned == 0).any(0).cpu().numpy()
    return np.where(gone, np.nan, errors)


def directions_90(eigenvalues: Tensor) -> float:
    """How many leading eigenvalues carry 90 % of their sum."""
    sums = eigenvalues.clamp(min=0).cpu().cumsum(0)
    share = SHARE * sums[-1]
    fewer = (sums < share).sum()
    return float(fewer + 1)


def position_of_90(eigenvalues: Tensor) -> float:
    """Where 90 % are reached, with the fraction of the last eigenvalue that is needed.

    >>> position_of_90(torch.tensor([6.0, 2.0, 2.0], device="cpu"))
    2.5
    """
    sums = eigenvalues.clamp(min=0).cpu().cumsum(0)
    share = SHARE * sums[-1]
    # Whole eigenvalues first, then the missing share of the next one.
    whole = int((sums < share).sum())
    before = torch.zeros_like(share)
    if whole:
        before = sums[whole - 1]
    fraction = (share - before) / (sums[whole] - before)
    return whole + float(fraction)


def position_stderr(spectra: Tensor) -> float | None:
    """The standard error of `directions_90` from spectra (groups, k) with one group left out."""
    positions = [position_of_90(spectrum) for spectrum in spectra]
    error = jackknife(positions)
    if error is None:
        return None
    return math.hypot(error, _ROUNDING_UP)


def position_null(spectra: Tensor) -> Null:
    """The null of `directions_90`, from spectra (draws, k) without an effect."""
    positions = [position_of_90(spectrum) for spectrum in spectra]
    counts = [directions_90(spectrum) for spectrum in spectra]
    # The spread of positions, and of rounding them up.
    null = null_of(positions)
    null["null"] = float(np.mean(counts))
    spread = null["null_spread"]
    if spread is not None:
        spread = math.hypot(spread, _ROUNDING_UP)
        null["null_spread"] = spread
        null["null_stderr"] = spread / math.sqrt(len(counts))
    return null
