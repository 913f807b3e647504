"""Samples of the user's own that are measured by default: about a thousand, chosen by the seed."""

import math

import penchant
import torch
from penchant_numerics.data import Samples

MOST_SAMPLES = 1000


def some_of(samples: Samples, count: int, context: penchant.Context) -> Samples:
    """So many samples, chosen by the seed, in their order; all where there are no more."""
    if count >= len(samples.labels):
        return samples
    order = torch.randperm(len(samples.labels), generator=context.generator("samples"))
    return samples.select(order[:count].sort().values.to(samples.labels.device))


def bounded(samples: Samples, per_class: int | None, context: penchant.Context) -> Samples:
    """For a network of the user's own about a thousand samples, as many of each class.

    Args:
        samples: Of a split.
        per_class: What the options say; with it all samples stay.
        context: Of the probe.

    Returns:
        Some of them, or all.
    """
    available, classes = len(samples.labels), context.data.classes
    small = available <= MOST_SAMPLES or samples.kind.by_position or not classes
    if context.network_kind == "fresh" or per_class is not None or small:
        return samples
    order = torch.randperm(available, generator=context.generator("samples"))
    shuffled = samples.select(order.to(samples.labels.device))
    few = shuffled.first_of_each_class(math.ceil(MOST_SAMPLES / classes))
    context.conventions["default samples"] = (
        f"{len(few.labels):,} of {available:,}, chosen by the seed; per_class chooses others"
    )
    return few
