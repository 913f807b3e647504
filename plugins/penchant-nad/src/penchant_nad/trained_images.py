"""Trainings on images: one fresh network a variant and repeat, tested on images as they are or as they were changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
from penchant_numerics.data import Samples
from penchant_numerics.trainer import Trainer, evaluate

from penchant_nad.directional_accuracy import mean_and_stderr


def train_and_test(context: Any, train: Samples, test: Samples, repeat: int) -> dict[str, float]:
    """Accuracies of one network; the same repeat begins with the same network and order for every variant."""
    network = context.network(repeat)
    seed = context.generator("training", repeat).initial_seed()
    Trainer(network, train, context.training, seed=seed).run()
    return {
        "train-accuracy": evaluate(network, train)[1],
        "test-accuracy": evaluate(network, test)[1],
    }


def accuracy(values: np.ndarray, count: int, *, null: float | None = None) -> penchant.Quantity:
    """The mean accuracy of repeats as a quantity."""
    mean, stderr = mean_and_stderr(values, count)
    over = "samples" if len(values) == 1 else "repeats and samples"
    return penchant.Quantity(float(mean), stderr=float(stderr), over=over, count=count, null=null)


def check_classes(context: Any) -> None:
    """Refuse data without classes before anything is drawn."""
    if not context.data.classes:
        raise penchant.Error(
            "this probe needs a dataset with classes, found one whose labels are numbers"
        )


def plane_size(context: Any) -> int:
    """Pixels of one channel."""
    return math.prod(context.architecture.shape[1:])
