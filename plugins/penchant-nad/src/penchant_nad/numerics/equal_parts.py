"""Leaving one part of the networks out, with as many networks left whichever it is.

A spectrum of T vectors in D > T dimensions has T eigenvalues, and its effective rank grows with T.
Where the parts of a jackknife differ by one vector, that is taken for spread: with 300 vectors in
eight parts the standard error of the effective rank came out 2 to 3 times too large. So a vector
that one part has and another lacks is never left out.
"""

from __future__ import annotations

import torch
from penchant_numerics.moments import GroupedMoment
from torch import Tensor


def left_out_spectra(
    groups: GroupedMoment, latest: Tensor, *, centred: bool, rank: int
) -> Tensor | None:
    """Eigenvalues (parts, rank), descending, with one part left out at a time.

    Args:
        groups: The moment, whose vector t is in part t mod parts.
        latest: At least the last `parts - 1` vectors (k, size), in the order they were added.
        centred: Whether the mean is subtracted.
        rank: Eigenvalues that mean anything.

    Returns:
        The spectra, or None with fewer than two parts or fewer than one vector in each.
    """
    counts = [part.count for part in groups.parts]
    fewest = min(counts)
    if len(counts) < 2 or not fewest:
        return None
    uneven = sum(counts) - fewest * len(counts)  # parts 0 to uneven - 1 have one vector more
    kept = latest[len(latest) - uneven :]
    spectra = []
    for number in range(len(counts)):
        moment = groups.whole(without=number)
        if number < uneven:
            moment.add(kept[number : number + 1])
        values = torch.linalg.eigvalsh(moment.matrix(centred=centred))
        spectra.append(values.flip(0)[:rank])
    return torch.stack(spectra)
