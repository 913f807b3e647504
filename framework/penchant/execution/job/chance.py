"""What a trained network is judged by: its error on samples, and what guessing would give."""

from typing import NamedTuple

import torch
from penchant_numerics.data import Samples
from penchant_numerics.training import evaluate
from torch import Tensor, nn

JUDGED = 1024  # training samples that tell whether anything was learnt
SEEN = 256  # samples on which the accuracy of a network of the user's is measured
FEWEST = 100  # samples of which an accuracy near chance means something
CLEAR = 5.0  # standard errors by which standardised inputs must be better


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


class Accuracy(NamedTuple):
    """How often a network is right.

    Attributes:
        value: The share of samples.
        samples: How many there were.
        chance: What guessing the most frequent class would give.
        standardised: The share where every channel has mean 0 and variance 1; None: no images.
    """

    value: float
    samples: int
    chance: float
    standardised: float | None = None

    @property
    def warning(self) -> str:
        """What is probably wrong with the inputs; empty where nothing is."""
        of = f"of {self.samples} training samples"
        if self.standardised is not None:
            spread = self._spread(self.value) + self._spread(self.standardised)
            if self.standardised - self.value > CLEAR * (spread / self.samples) ** 0.5:
                return (
                    f"the network is right on {self.value:.2f} {of}, and on "
                    f"{self.standardised:.2f} where each channel is standardised: it was trained "
                    "on such inputs; set standardize = true, or standardise your samples"
                )
        near = self.value <= self.chance + 2 * (self._spread(self.chance) / self.samples) ** 0.5
        if near and self.samples >= FEWEST:
            return (
                f"the network is right on {self.value:.2f} {of}, and guessing the most frequent "
                f"class on {self.chance:.2f}: are inputs scaled (standardize) and classes numbered "
                "as in its training?"
            )
        return ""

    @staticmethod
    def _spread(share: float) -> float:
        return share * (1 - share)


def accuracy_of(network: nn.Module, samples: Samples) -> Accuracy | None:
    """The accuracy of a network on some of the samples; None where labels are not classes.

    Args:
        network: A network in evaluation mode that gives a logit of every class.
        samples: Some of them, evenly spaced, are used.
    """
    labels = samples.labels
    if not _are_classes(labels) or not len(labels) or int(labels.min()) < 0:
        return None
    count = min(SEEN, len(labels))
    rows = torch.linspace(0, len(labels) - 1, count, device="cpu").round().long()
    some = samples.select(rows.to(labels.device))
    _, value = evaluate(network, some)
    chance = float(some.labels.bincount().max()) / count
    standardised = None
    if some.inputs.ndim == 4 and some.inputs.is_floating_point():
        spread, mean = torch.std_mean(some.inputs, dim=(0, 2, 3), keepdim=True)
        inputs = (some.inputs - mean) / spread.clamp(min=torch.finfo(spread.dtype).eps)
        _, standardised = evaluate(network, Samples(inputs, some.labels))
    return Accuracy(float(value), count, chance, standardised)
