"""Sweeps of learning rates: which of them a job's training takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs
from penchant.components.training import Training
from penchant.errors import Error

if TYPE_CHECKING:
    from penchant_numerics.data import Samples
    from torch import nn

# a training -> its network, samples to judge by
Finished: TypeAlias = "Callable[[Training], tuple[nn.Module, Samples]]"


def best_rate(training: Training, finished: Finished) -> tuple[Training, str]:
    """The training with the learning rate of the smallest test error, the first of equals.

    A rate at which training diverges has lost, nothing more.

    Args:
        training: A recipe with several learning rates.
        finished: Trains by a recipe of one rate; gives the network and the samples to judge it by.

    Returns:
        The recipe with that rate, and a sentence about it.
    """
    from penchant_numerics.chance import error_on

    errors: list[tuple[float, Training]] = []
    for rate in training.learning_rates:
        single = attrs.evolve(training, learning_rate=rate, learning_rates=())
        try:
            network, samples = finished(single)
        except FloatingPointError:
            continue
        errors.append((error_on(network, samples, single.loss), single))
    count = len(training.learning_rates)
    if not errors:
        raise Error(f"training diverged at every one of {count} learning rates")
    # By the error alone: recipes of equal error cannot be ordered.
    error, best = min(errors, key=lambda pair: pair[0])
    diverged = count - len(errors)
    lost = f", {diverged} of which diverged" if diverged else ""
    return best, f"{best.learning_rate:g}, smallest test error ({error:.4g}) of {count} rates{lost}"
