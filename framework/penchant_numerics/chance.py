"""What a trained network is judged by: its error on samples, and what guessing would give."""

from __future__ import annotations

from penchant_numerics.data import Samples
from penchant_numerics.trainer import evaluate
from torch import Tensor, nn

JUDGED = 1024  # training samples that tell whether anything was learnt


def error_on(network: nn.Module, samples: Samples, loss: str) -> float:
    """The share of wrong answers, or the loss where labels are not classes.

    Args:
        network: A network in evaluation mode.
        samples: What it is judged by.
        loss: Name of the loss.

    Returns:
        A number that is smaller for a better network.
    """
    value, accuracy = evaluate(network, samples, loss=loss)
    return float(1 - accuracy if _are_classes(samples.labels) else value)


def _are_classes(labels: Tensor) -> bool:
    """Are these labels classes, rather than numbers to be fitted?"""
    return labels.ndim == 1 and not labels.is_floating_point()


def learnt_nothing(network: nn.Module, samples: Samples) -> str:
    """A warning where training accuracy is what guessing would give; else empty."""
    labels = samples.labels
    # Labels below zero are left out of the loss, so they have no chance.
    if not _are_classes(labels) or int(labels.min()) < 0:
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
