"""Trainings of a job: which learning rate of a sweep, and whether anything was learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs
from penchant.components.training import Training
from penchant.errors import Error

if TYPE_CHECKING:
    from penchant_numerics.data import Samples
    from torch import Tensor, nn

JUDGED = 1024  # training samples that are looked at to tell whether anything was learnt

# a training -> its network, samples to judge by
Finished: TypeAlias = "Callable[[Training], tuple[nn.Module, Samples]]"


def best_rate(training: Training, finished: Finished) -> tuple[Training, str]:
    """The training with the learning rate of the smallest test error, the first of equals.

    Args:
        training: A recipe with several learning rates.
        finished: Trains by a recipe of one rate; gives the network and the samples to judge it by.

    Returns:
        The recipe with that rate, and a sentence about it. A rate at which training diverges has
        lost, nothing more.
    """
    judged: list[tuple[float, Training]] = []
    for rate in training.learning_rates:
        single = attrs.evolve(training, learning_rate=rate, learning_rates=())
        try:
            network, samples = finished(single)
        except FloatingPointError:
            continue
        judged.append((_test_error(network, samples, single.loss), single))
    count = len(training.learning_rates)
    if not judged:
        raise Error(f"training diverged at every one of {count} learning rates")
    # By the error alone: recipes of equal error cannot be ordered.
    error, best = min(judged, key=lambda pair: pair[0])

    diverged = count - len(judged)
    lost = f", {diverged} of which diverged" if diverged else ""
    found = f"smallest test error ({error:.4g}) of {count} rates{lost}"
    return best, f"{best.learning_rate:g}, {found}"


def _test_error(network: nn.Module, samples: Samples, loss: str) -> float:
    """The share of wrong answers, or the loss where labels are not classes."""
    from penchant_numerics.trainer import evaluate

    value, accuracy = evaluate(network, samples, loss=loss)
    return float(1 - accuracy if are_classes(samples.labels) else value)


def are_classes(labels: Tensor) -> bool:
    """Are these labels classes, rather than numbers to be fitted?"""
    return labels.ndim == 1 and not labels.is_floating_point()


def learnt_nothing(network: nn.Module, samples: Samples) -> str:
    """A warning where training accuracy is what guessing would give; else nothing."""
    from penchant_numerics.trainer import evaluate

    labels = samples.labels
    # Labels below zero are left out of the loss, so they have no chance.
    if not are_classes(labels) or int(labels.min()) < 0:
        return ""
    # On some samples only: this is a warning, not a measurement.
    some = samples.select(slice(0, JUDGED))
    _, accuracy = evaluate(network, some)
    # Always guessing the most frequent class; within two errors of that nothing was learnt.
    chance = float(labels.bincount().max()) / len(labels)
    error = (chance * (1 - chance) / len(some.labels)) ** 0.5
    if accuracy > chance + 2 * error:
        return ""
    guess = f"guessing the most frequent class gives {chance:.3f}"
    return f"nothing was learnt: training accuracy {accuracy:.3f}, {guess}"
