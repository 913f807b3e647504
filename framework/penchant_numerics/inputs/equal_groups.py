"""A jackknife whose replicates all have the same number of networks.

A spectrum of T vectors in D > T dimensions has T eigenvalues, and its effective rank grows with T.
Where the groups of a jackknife differ by one vector, that is taken for spread: of 76 isotropic
vectors in 96 dimensions the effective rank's standard error came out more than twice too large. So
a vector that one group has and another lacks is never left out.
"""

import torch
from penchant_numerics.inputs.moments import GroupedMoment
from torch import Tensor


def left_out_spectra(
    groups: GroupedMoment, latest: Tensor, *, centred: bool, rank: int
) -> Tensor | None:
    """Eigenvalues (groups, rank), descending, with one group left out at a time.

    Args:
        groups: The moment, whose vector t is in group t mod groups.
        latest: At least the last `groups - 1` vectors (k, size), in the order they were added.
        centred: Whether the mean is subtracted.
        rank: Eigenvalues that mean anything.

    Returns:
        The spectra, or None with fewer than two groups or fewer than one vector in each.

    >>> groups = GroupedMoment(2, device="cpu", groups=2)
    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], device="cpu")
    >>> groups.add(rows)
    >>> groups.whole().count  # nothing waits any more
    3
    >>> left_out_spectra(groups, rows, centred=False, rank=2).tolist()
    [[4.5, 2.0], [5.0, 0.0]]
    """
    counts = [group.count for group in groups.groups]
    fewest = min(counts)
    if len(counts) < 2 or not fewest:
        return None
    # The first `uneven` groups have one vector more: the last ones that were added.
    uneven = sum(counts) - fewest * len(counts)
    extra = latest[len(latest) - uneven :]
    spectra = []
    for number in range(len(counts)):
        moment = groups.whole(without=number)
        # Put back what this group has and others lack.
        if number < uneven:
            moment.add(extra[number : number + 1])
        values = torch.linalg.eigvalsh(moment.matrix(centred=centred))
        spectra.append(values.flip(0)[:rank])
    return torch.stack(spectra)
