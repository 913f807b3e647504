"""Nearest neighbours: the estimator `ksg`."""

import math

import penchant
import torch
from penchant_numerics.roles import Information
from penchant_numerics.statistics import combined_error
from torch import Generator, Tensor

from penchant_mine.declarations.estimators import Ksg
from penchant_mine.estimators.prepared import no_information, prepared
from penchant_mine.estimators.second_opinions import (
    FEW_DIMENSIONS,
    LEAST_DOUBT,
    Bound,
    bias_left,
    bounds_of_columns,
    doubts_of_atoms,
    doubts_of_samples,
    error_of_terms,
    jittered,
    missing,
    on_host,
)
from penchant_mine.estimators.untrained import FEWEST, answer, shuffled
from penchant_mine.shared.information.gaussian import gaussian_information
from penchant_mine.shared.information.kraskov import kraskov
from penchant_mine.shared.information.pairs import (
    Pairs,
    is_discrete,
    normal_scores,
    seems_deterministic,
)

COARSER = 10  # times as many neighbours, for the comparison with another scale
PARTITIONS = 3  # ways to cut the samples, over which the variance of subsets is averaged


def estimate(options: Ksg, context: penchant.Context, x: Tensor, z: Tensor) -> Information:
    """Target of the estimator `ksg`.

    The standard error has two terms: the spread over disjoint subsets, as if it fell with the root
    of their size, and the bias: what is left if it falls the same way from subsets to the whole,
    and at least what other estimators find more.
    """
    fewest = max(FEWEST, options.neighbours + 2)
    given = prepared(options, x, z, at_least=fewest, scaling="standard")
    if given.empty:
        return no_information(given)

    generator = context.generator("ksg")
    pairs = _parted(given, generator)
    # Each sample contributes; the mean is the estimate.
    contributions = kraskov(pairs.x, pairs.z, options.neighbours)
    value = float(contributions.mean())

    def with_order(order: Tensor) -> float:
        shuffled_values = kraskov(pairs.x, pairs.z[order], options.neighbours)
        return float(shuffled_values.mean())

    # The first partition is sampled before the null, further ones after it.
    groups = min(options.subsets, len(pairs.x) // fewest)
    order = torch.randperm(len(pairs.x), generator=generator, device="cpu")
    nulls = shuffled(with_order, pairs, options.shuffles, generator)
    warnings = _doubts(given, pairs)
    # With few samples there are no subsets to compare.
    bias, freedom = 0.0, None
    if groups < 2:
        sampling = float(contributions.std()) / math.sqrt(len(contributions))
        over = "samples"
    else:
        sampling, of_subsets = _subsets(options, pairs, groups, order, generator)
        bias, freedom = abs(bias_left(value - of_subsets, groups)), groups - 1
        over = "disjoint subsets of the samples, and the bias that they and other estimators show"
        warnings += _rising(value, of_subsets, sampling, len(pairs.x), groups)
    warnings += _other_scale(pairs, value, sampling, options.neighbours)
    # Where others find more, the bias is at least the difference.
    given = on_host(given)
    opinions = context.generator("second opinions")
    bounds = _at_least(given, pairs, options.neighbours, opinions)
    below, texts = missing(value, sampling, bounds)
    warnings += [*texts, *doubts_of_samples(given), *doubts_of_atoms(given)]
    stderr, df = combined_error([(sampling, freedom), (max(bias, below), None)])
    return answer(
        pairs, value, stderr, nulls, warnings=warnings, over=over, count=max(groups, 1), df=df
    )


def _parted(given: Pairs, generator: Generator) -> Pairs:
    """The same pairs without equal values: distances of 0 have no neighbours inside."""
    x = jittered(given.x, generator)
    z = jittered(given.z, generator)
    return Pairs(x, z, given.warnings)


def _doubts(given: Pairs, pairs: Pairs) -> list[str]:
    """What speaks against distances, before and after equal values were parted."""
    doubts = []
    if is_discrete(given.x) or is_discrete(given.z):
        doubts.append(
            "many samples are equal, but neighbour distances are meant for continuous variables"
        )
    if seems_deterministic(pairs.x, pairs.z) or seems_deterministic(pairs.z, pairs.x):
        doubts.append(
            "one variable looks like a continuous function of the other, whose information is "
            "infinite: the value says little"
        )
    return doubts


def _rising(
    value: float, of_subsets: float, sampling: float, samples: int, groups: int
) -> list[str]:
    if value - of_subsets <= max(3 * sampling, LEAST_DOUBT):
        return []
    few = f"{samples // groups} samples give {of_subsets:.3g}, {samples} give {value:.3g}"
    return [f"the value still rises with the number of samples ({few}): it is too low"]


def _other_scale(pairs: Pairs, value: float, sampling: float, neighbours: int) -> list[str]:
    """In many dimensions: does the value depend on how far neighbours are?"""
    if pairs.x.shape[1] + pairs.z.shape[1] <= FEW_DIMENSIONS:
        return []
    most = min(COARSER * neighbours, len(pairs.x) - 1)
    coarse = float(kraskov(pairs.x, pairs.z, most).mean())
    if abs(value - coarse) <= max(3 * sampling, LEAST_DOUBT):
        return []
    return [
        f"{neighbours} neighbours give {value:.3g}, {most} give {coarse:.3g}: the value depends on "
        "the scale"
    ]


def _at_least(given: Pairs, pairs: Pairs, neighbours: int, opinions: Generator) -> dict[str, Bound]:
    """What other estimators find that do not suffer from many dimensions or from heavy tails.

    A bias of distances that does not fall with the samples shows in no comparison of distances.
    Parts of x and z have no more information than these, and in one dimension each their own is
    found nearly without a bias. Correlations of normal scores have all information of normal
    variables under maps of each column.
    """
    bounds = bounds_of_columns(given, opinions)
    columns = pairs.x.shape[1] + pairs.z.shape[1]
    scores = normal_scores(pairs.x), normal_scores(pairs.z)
    ranked = kraskov(scores[0], scores[1], neighbours)
    bounds["neighbours of normal scores"] = Bound(float(ranked.mean()), error_of_terms(ranked))
    if len(pairs.x) > 2 * columns > 4:
        bounds["correlations alone"] = Bound(*gaussian_information(*scores)[:2])
    return bounds


def _subsets(
    options: Ksg, pairs: Pairs, groups: int, order: Tensor, generator: Generator
) -> tuple[float, float]:
    """Standard error of the whole from the variance of subsets, and the mean of subsets."""
    variances, means = [], []
    for number in range(PARTITIONS):
        if number:
            order = torch.randperm(len(pairs.x), generator=generator, device="cpu")
        values = []
        for rows in order.to(pairs.x.device).tensor_split(groups):
            terms = kraskov(pairs.x[rows], pairs.z[rows], options.neighbours)
            values.append(float(terms.mean()))
        # The whole has `groups` times the samples of a subset.
        estimates = torch.tensor(values, device="cpu", dtype=torch.float64)
        variances.append(float(estimates.var()) / groups)
        means.append(float(estimates.mean()))
    variance = sum(variances) / PARTITIONS
    return math.sqrt(variance), sum(means) / PARTITIONS
