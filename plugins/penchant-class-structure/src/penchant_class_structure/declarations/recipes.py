"""Trainings of the paper, and the same on a small scale; words that several options share."""


def _rates(count: int) -> tuple[float, ...]:
    """Learning rates from 0.25 down to 1e-4, evenly spaced in the logarithm."""
    ratio = 1e-4 / 0.25
    rates = []
    for number in range(count):
        share = number / (count - 1)
        rates.append(round(0.25 * ratio**share, 8))
    return tuple(rates)


# The rate with the smallest final test error is used.
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

# Training samples per class of figure 6: 20 sizes, evenly spaced in the logarithm.
_SMALL_SIZES = (10, 14, 19, 27, 37, 51, 71, 99, 136, 189)
_LARGE_SIZES = (262, 363, 504, 699, 968, 1343, 1863, 2583, 3581, 4966)
SIZES = _SMALL_SIZES + _LARGE_SIZES

BATCH_NORM = "statistics of batch-norm: those of the training, or of one pass over training samples"
PER_CLASS = "samples per class, the first in order; None: all"
CLASSES = "use only this many classes, the first: their samples and probabilities; None: all"
LOSS = "loss whose curvature is measured; training: the training loss"
KAPPA = "kappa of the width of a bump, 2 / ((M - 1) sqrt(8 ln kappa)) of half the range"
STARTS = "random start vectors; with one there is no standard error"
DEVICES = "GPUs that share every product; results do not depend on their number"
PARAMETERS = (
    "names or patterns of parameters, such as a layer's; each is a module that is measured by "
    "itself, beside the whole network"
)
