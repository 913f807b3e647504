"""Targets of the estimators that train nothing: Kraskov's neighbours, normal theory, bins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import penchant
import torch
from torch import Tensor

from penchant_mine._binning import binned_information, cells
from penchant_mine._gaussian_information import far_from_normal, gaussian_information
from penchant_mine._kraskov import kraskov
from penchant_mine._pairs import Pairs, is_discrete, looks_deterministic
from penchant_mine.estimates import Estimate
from penchant_mine.neural import fingerprint, prepared

FEWEST = 5
NEXT_TO_NOTHING = 1e-9  # standard deviations of the noise that parts equal values


def ksg(options: Any, context: Any, x: Tensor, z: Tensor) -> Estimate:
    """Target of the estimator `ksg`."""
    pairs = prepared(options, x, z, max(FEWEST, options.neighbours + 2))
    generator = context.generator("ksg", fingerprint(pairs))
    warnings = []
    if is_discrete(pairs.x) or is_discrete(pairs.z):
        warnings.append(
            "many samples are equal, but neighbour distances are meant for continuous variables"
        )
    jittered = Pairs(*(_jittered(each, generator) for each in (pairs.x, pairs.z)), pairs.warnings)

    def value(one: Tensor, other: Tensor) -> float:
        return float(kraskov(one, other, options.neighbours).mean())

    return _report(options, jittered, warnings, value, generator)


def _jittered(values: Tensor, generator: torch.Generator) -> Tensor:
    exact = values.to(torch.float64)
    noise = torch.randn(exact.shape, generator=generator, device="cpu", dtype=torch.float64).to(
        exact.device
    )
    return torch.where(exact.std(0) > 0, exact + NEXT_TO_NOTHING * noise, 0.0)


def gaussian(options: Any, context: Any, x: Tensor, z: Tensor) -> Estimate:
    """Target of the estimator `gaussian`."""
    pairs = prepared(options, x, z, FEWEST)
    generator = context.generator("gaussian", fingerprint(pairs))
    if pairs.empty:
        return _nothing(options, pairs)
    warnings = []
    try:
        value, stderr, correlations = gaussian_information(pairs.x, pairs.z)
    except ValueError as error:
        raise penchant.Error(f"gaussian: {error}") from None
    if far_from_normal(pairs.x, pairs.z):
        warnings.append(
            "the samples are not normal, so this is the information of normal variables with their correlations"
        )
    if float(correlations.max()) > 1 - 1e-7:
        warnings.append("a linear map leaves nothing over: the true value is infinite")
    shuffled = [
        gaussian_information(pairs.x, pairs.z[order])[0]
        for order in _orders(options, pairs, generator)
    ]
    return _finish(
        options,
        pairs,
        warnings,
        value,
        stderr,
        shuffled,
        over="samples (delta method)",
        count=len(pairs.x),
    )


def binned(options: Any, context: Any, x: Tensor, z: Tensor) -> Estimate:
    """Target of the estimator `binned`."""
    pairs = prepared(options, x, z, FEWEST)
    generator = context.generator("binned", fingerprint(pairs))
    if pairs.empty:
        return _nothing(options, pairs)
    bins = options.bins or max(2, round(len(pairs.x) ** (1 / 3)))
    in_x, in_z = cells(pairs.x, bins), cells(pairs.z, bins)
    contributions, correction, joint = binned_information(in_x, in_z)
    warnings = []
    if joint > len(in_x) / 5:
        warnings.append(
            f"{joint} of the cells are filled by {len(in_x)} samples, too few a cell: take fewer bins or dimensions"
        )

    def value(order: Tensor) -> float:
        found, offset, _ = binned_information(in_x, in_z[order])
        return float(found.mean()) - offset

    shuffled = [value(order) for order in _orders(options, pairs, generator)]
    stderr = float(contributions.std()) / math.sqrt(len(in_x))
    mean = float(contributions.mean()) - correction
    coarse, offset, _ = binned_information(
        cells(pairs.x, max(2, bins // 2)), cells(pairs.z, max(2, bins // 2))
    )
    if not warnings and mean - (float(coarse.mean()) - offset) > stderr:
        warnings.append(
            f"half as many bins give {float(coarse.mean()) - offset:.3g}: what is finer than bins is missing from the value"
        )
    return _finish(
        options,
        pairs,
        warnings,
        mean,
        stderr,
        shuffled,
        over="samples (of the binned variables)",
        count=len(in_x),
    )


def _report(
    options: Any,
    pairs: Pairs,
    warnings: list[str],
    value: Callable[[Tensor, Tensor], float],
    generator: torch.Generator,
) -> Estimate:
    """Estimate with an error from disjoint subsets, scaled as if it fell with the root of their size."""
    if pairs.empty:
        return _nothing(options, pairs)
    whole = value(pairs.x, pairs.z)
    if looks_deterministic(pairs.x, pairs.z) or looks_deterministic(pairs.z, pairs.x):
        warnings.append(
            "one variable looks like a continuous function of the other, whose information is infinite: the value says little"
        )
    groups = min(options.subsets, len(pairs.x) // max(FEWEST, options.neighbours + 2))
    order = torch.randperm(len(pairs.x), generator=generator, device="cpu").to(pairs.x.device)
    if groups < 2:
        contributions = kraskov(pairs.x, pairs.z, options.neighbours)
        stderr = float(contributions.std()) / math.sqrt(len(contributions))
    else:
        parts = torch.tensor(
            [value(pairs.x[rows], pairs.z[rows]) for rows in order.tensor_split(groups)],
            device="cpu",
        )
        stderr = float(parts.std()) / math.sqrt(groups)
        if whole - float(parts.mean()) > max(3 * stderr, 0.02):
            few = f"{len(pairs.x) // groups} samples give {float(parts.mean()):.3g}, {len(pairs.x)} give {whole:.3g}"
            warnings.append(
                f"the value still rises with the number of samples ({few}): it is too low"
            )
    shuffled = [value(pairs.x, pairs.z[each]) for each in _orders(options, pairs, generator)]
    return _finish(
        options,
        pairs,
        warnings,
        whole,
        stderr,
        shuffled,
        over="disjoint subsets of the samples",
        count=max(groups, 1),
    )


def _orders(options: Any, pairs: Pairs, generator: torch.Generator) -> list[Tensor]:
    return [
        torch.randperm(len(pairs.x), generator=generator, device="cpu").to(pairs.x.device)
        for _ in range(options.null_repeats)
    ]


def _nothing(options: Any, pairs: Pairs) -> Estimate:
    return Estimate(
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        tuple(f"{options.name}: {text}" for text in pairs.warnings),
        count=len(pairs.x),
    )


def _finish(
    options: Any,
    pairs: Pairs,
    warnings: list[str],
    value: float,
    stderr: float,
    shuffled: list[float],
    *,
    over: str,
    count: int,
) -> Estimate:
    nulls = torch.tensor(shuffled, device="cpu", dtype=torch.float64)
    if len(pairs.x) < 100:
        warnings = [*warnings, f"only {len(pairs.x)} pairs"]
    if value > math.log(len(pairs.x)) - 1:
        warnings = [
            *warnings,
            f"the value is near log({len(pairs.x)}), the most that so many samples can show",
        ]
    return Estimate(
        value=value,
        training=value,
        stderr=stderr,
        null=float(nulls.mean()) if shuffled else 0.0,
        null_stderr=float(nulls.std()) / math.sqrt(len(shuffled)) if len(shuffled) > 1 else 0.0,
        warnings=tuple(f"{options.name}: {text}" for text in (*pairs.warnings, *warnings)),
        over=over,
        count=count,
    )
