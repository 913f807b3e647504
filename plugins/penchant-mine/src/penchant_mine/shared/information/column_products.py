"""Which column of x, or product or total of columns, tells most of one of z?

Several columns together may tell what none of them tells alone: a product of signs is independent
of each of its factors, and what makes tails heavy is seen in totals. Columns, products of two or
three of them and totals, in x and in z, are cut into cells of equal frequency, and the counts of
any two compared with those of independent variables (Pearson's chi-squared). What one of them tells
is a part of the whole information.
"""

import itertools
import math

import torch
from torch import Tensor

from penchant_mine.shared.information.pairs import normal_scores

MOST = 256  # columns, products and totals of x, or of z
SAMPLES = 4096  # that are evaluated
PER_CELL = 20  # samples expected in a cell, at least
CELLS = 8  # along each, at most
LEVEL = 1e-3  # chance that any two seem related where x and z are independent


def telling_columns(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor] | None:
    """What of x (samples, 1) and what of z tell most of each other.

    None where no two are related, or where there are too many columns to look at.
    """
    if max(x.shape[1], z.shape[1]) > MOST or len(x) < 4 * PER_CELL:
        return None
    of_x, of_z = _candidates(x), _candidates(z)
    step = -(-len(x) // SAMPLES)
    excess, chance = _related(of_x[::step], of_z[::step])
    # Bonferroni: as if all tests were independent of each other.
    related = torch.where(chance * chance.numel() < LEVEL, excess, -math.inf)
    if not bool((related > 0).any()):
        return None
    first, second = divmod(int(related.argmax()), related.shape[1])
    return of_x[:, first, None], of_z[:, second, None]


def _candidates(values: Tensor) -> Tensor:
    """Normal scores of columns, products and totals."""
    varies = (values != values[:1]).any(0)
    scores = normal_scores(values[:, varies].to(torch.float64))
    size = scores.shape[1]
    candidates = [scores]
    if size > 1:
        totals = [scores, scores.square(), scores.exp(), (-scores).exp()]
        candidates.append(torch.stack([each.sum(1) for each in totals], 1))
    count = size + 4
    for order in (2, 3):
        count += math.comb(size, order)
        if count > MOST:
            break
        chosen = list(itertools.combinations(range(size), order))
        if chosen:
            candidates.append(scores[:, chosen].prod(2))
    return torch.cat(candidates, 1)


def _related(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """How much each of x tells of each of z beyond chance, and how likely chance tells as much."""
    samples = len(x)
    cells = max(2, min(CELLS, math.isqrt(samples // PER_CELL)))
    in_x, in_z = _members(x, cells), _members(z, cells)
    counts = (in_x.flatten(0, 1) @ in_z.flatten(0, 1).T).to(torch.float64)
    counts = counts.reshape(len(in_x), cells, len(in_z), cells).transpose(1, 2)
    expected = counts.sum(3, keepdim=True) * counts.sum(2, keepdim=True) / samples
    terms = (counts - expected).square() / expected
    statistic = torch.where(expected > 0, terms, 0.0).sum((2, 3))
    filled_x, filled_z = ((each.sum(2) > 0).sum(1) for each in (in_x, in_z))
    freedom = ((filled_x - 1)[:, None] * (filled_z - 1)).clamp(min=1).to(torch.float64)
    chance = torch.special.gammaincc(freedom / 2, statistic / 2)
    ratio = torch.where(counts > 0, counts * (counts / expected).log(), 0.0).sum((2, 3))
    return ratio - freedom / 2, chance


def _members(values: Tensor, cells: int) -> Tensor:
    """Which samples are in which cell (columns, cells, samples), of equal frequency but for ties.

    The first of equal values decides, so that they stay together.
    """
    ordered = values.T.contiguous().sort(1).values
    first = torch.searchsorted(ordered, values.T.contiguous())
    numbers = first * cells // len(values)
    members = torch.nn.functional.one_hot(numbers, cells)
    return members.transpose(1, 2).to(torch.float32)
