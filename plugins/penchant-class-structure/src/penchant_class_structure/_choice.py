"""Which samples a probe looks at, and the network as it is measured."""

from __future__ import annotations

from typing import Any

import penchant
from penchant_numerics.data import Samples
from penchant_numerics.safety import safe
from torch import nn


def chosen(samples: Samples, per_class: int | None, classes: int) -> Samples:
    """The first `per_class` samples of each class, in their order; nothing: all."""
    if not classes:
        raise penchant.Error(
            "class structure needs a dataset with classes, found numbers as labels"
        )
    counts = samples.labels.bincount(minlength=classes)
    if int(counts.min()) == 0:
        raise penchant.Error(
            f"every class needs a sample, found none of class {int(counts.argmin())}"
        )
    return samples if per_class is None else samples.first_of_each_class(per_class)


def measured(network: nn.Module, options: Any, context: Any) -> nn.Module:
    """A copy in evaluation mode that can be differentiated; batch-norm as the options say."""
    context.conventions["batch-norm"] = f"{options.batch_norm} statistics, evaluation mode"
    return safe(network, batch_norm=options.batch_norm, calibration=context.data.train.inputs)


def fractions_to_steps(fractions: tuple[float, ...], total: int) -> list[int]:
    """Optimiser steps at fractions of a training, ascending; the end is always one of them."""
    return sorted({round(fraction * total) for fraction in (*fractions, 1.0)})
