"""Trainings of the paper, and the same on a small scale; words that several options share."""

from __future__ import annotations


def _rates(count: int) -> tuple[float, ...]:
    """Learning rates from 0.25 down to 1e-4, evenly spaced in the logarithm."""
    ratio = 1e-4 / 0.25
    rates = []
    for number in range(count):
        share = number / (count - 1)
        rates.append(round(0.25 * ratio**share, 8))
    return tuple(rates)


# Of these rates the one with the smallest final test error is kept.
RECIPE = {
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "batch": 128,
    "schedule": "thirds",
    "epochs": 200,
    "learning_rates": _rates(100),
}
CIFAR = {**RECIPE, "epochs": 350}
PERCEPTRON = {**CIFAR, "learning_rates": _rates(25)}

# The same on a small scale, with one rate.
QUICK = {
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "batch": 128,
    "schedule": "thirds",
    "epochs": 60,
    "learning_rate": 0.05,
}

# Training samples a class of figure 6: 20 sizes, evenly spaced in the logarithm.
_SMALL_SIZES = (10, 14, 19, 27, 37, 51, 71, 99, 136, 189)
_LARGE_SIZES = (262, 363, 504, 699, 968, 1343, 1863, 2583, 3581, 4966)
SIZES = _SMALL_SIZES + _LARGE_SIZES

BATCH_NORM = "statistics of batch-norm: those of the training, or of one pass over training samples"
PER_CLASS = "samples of each class that are looked at, the first in order; None: all"
CLASSES = (
    "look at the first so many classes only: their samples, and probabilities among them; None: all"
)
LOSS = "whose curvature; training: the loss trained with"
KAPPA = "kappa of the width of a bump, 2 / ((M - 1) sqrt(8 ln kappa)) of half the range"
STARTS = "random start vectors; one has no standard error"
DEVICES = "GPUs that share every product, the job's own first: numbers stay the same"
