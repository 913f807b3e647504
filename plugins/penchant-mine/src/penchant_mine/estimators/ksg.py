"""Nearest neighbours: the estimator `ksg`."""

from __future__ import annotations

import math

import penchant
import torch
from penchant_numerics.answers import Information
from torch import Generator, Tensor

from penchant_mine.declarations.estimators import Ksg
from penchant_mine.estimators.prepared import nothing, prepared
from penchant_mine.estimators.untrained import FEWEST, answer, shuffled
from penchant_mine.numerics.information.kraskov import kraskov
from penchant_mine.numerics.information.pairs import Pairs, is_discrete, looks_deterministic

NEXT_TO_NOTHING = 1e-9  # standard deviations of the noise that parts equal values
PARTITIONS = 3  # ways to cut the samples, over which the variance of subsets is averaged


def estimate(options: Ksg, context: penchant.Context, x: Tensor, z: Tensor) -> Information:
    """Target of the estimator `ksg`.

    The standard error has two parts: the spread over disjoint subsets, as if it fell with the root
    of their size, and the bias that is left if it falls the same way from subsets to the whole.
    """
    fewest = max(FEWEST, options.neighbours + 2)
    pairs = prepared(options, x, z, at_least=fewest, scaling="standard")
    generator = context.generator("ksg")
    if pairs.empty:
        return nothing(pairs)
    warnings = []
    if is_discrete(pairs.x) or is_discrete(pairs.z):
        warnings.append(
            "many samples are equal, but neighbour distances are meant for continuous variables"
        )
    pairs = Pairs(_jittered(pairs.x, generator), _jittered(pairs.z, generator), pairs.warnings)
    contributions = kraskov(pairs.x, pairs.z, options.neighbours)
    whole = float(contributions.mean())
    if looks_deterministic(pairs.x, pairs.z) or looks_deterministic(pairs.z, pairs.x):
        warnings.append(
            "one variable looks like a continuous function of the other, whose information is "
            "infinite: the value says little"
        )

    def with_order(order: Tensor) -> float:
        return float(kraskov(pairs.x, pairs.z[order], options.neighbours).mean())

    groups = min(options.subsets, len(pairs.x) // fewest)
    first_order = torch.randperm(len(pairs.x), generator=generator, device="cpu")
    nulls = shuffled(with_order, pairs, options.shuffles, generator)
    if groups < 2:
        stderr = float(contributions.std()) / math.sqrt(len(contributions))
        over = "samples"
    else:
        sampling, of_parts = _subsets(options, pairs, groups, first_order, generator)
        # What a bias that falls with the root of the samples leaves after groups times as many.
        left = (whole - of_parts) / (math.sqrt(groups) - 1)
        stderr = math.hypot(sampling, left)
        over = "disjoint subsets of the samples, and how far these lie from the whole"
        if whole - of_parts > max(3 * sampling, 0.02):
            warnings.append(
                f"the value still rises with the number of samples ({len(pairs.x) // groups} "
                f"samples give {of_parts:.3g}, {len(pairs.x)} give {whole:.3g}): it is too low"
            )
    return answer(pairs, whole, stderr, nulls, warnings=warnings, over=over, count=max(groups, 1))


def _jittered(values: Tensor, generator: Generator) -> Tensor:
    exact = values.to(torch.float64)
    noise = torch.randn(exact.shape, generator=generator, device="cpu", dtype=torch.float64)
    parted = exact + NEXT_TO_NOTHING * noise.to(exact.device)
    return torch.where(exact.std(0) > 0, parted, 0.0)


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
            part = kraskov(pairs.x[rows], pairs.z[rows], options.neighbours)
            values.append(float(part.mean()))
        found = torch.tensor(values, device="cpu", dtype=torch.float64)
        variances.append(float(found.var()) / groups)
        means.append(float(found.mean()))
    return math.sqrt(sum(variances) / PARTITIONS), sum(means) / PARTITIONS
