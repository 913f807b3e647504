"""Trainings on images: the same network and order of samples for every variant of the images."""

from __future__ import annotations

import penchant
from penchant_numerics.data import Samples
from penchant_numerics.trainer import evaluate


def train_and_test(
    context: penchant.Context, train: Samples, test: Samples, training: int
) -> dict[str, float]:
    """Accuracies of one network; training number `training` begins alike for every variant."""
    network = context.network(training)
    # The number of the training is its key: variants of the images share it.
    for _ in context.train(
        network,
        train,
        training,
        test=test,
    ):
        pass
    _, train_accuracy = evaluate(network, train)
    _, test_accuracy = evaluate(network, test)
    return {"train-accuracy": train_accuracy, "test-accuracy": test_accuracy}


def one_channel(context: penchant.Context) -> penchant.Context:
    """The context in which NADs of images are defined: one channel, one output."""
    _, height, width = context.architecture.shape
    return context.scope(shape=(1, height, width), outputs=1)
