"""Trainings on images: the same network and order of samples for every variant of the images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penchant
from penchant_numerics.data import Samples
from penchant_numerics.training import Learner, measured, outputs, predictions
from torch import Tensor, nn

Images = Callable[[dict[str, Any]], tuple[Samples, Samples]]


def train_and_test(context: penchant.Context, item: Any, images: Images) -> dict[str, Any]:
    """On which samples networks trained on variants of the images are right.

    Args:
        context: That of a shard.
        item: One training, or a list of several; `training` is its number.
        images: Makes training and test images of a variant.

    Returns:
        Right answers on training and test samples, for each of several trainings.
    """

    def begin(one: dict[str, Any]) -> Learner:
        # The number of the training is its key: variants begin alike.
        train, test = images(one)
        number = one["training"]
        return Learner(context.network(number), train, (number,), test)

    return measured(context, item, begin, _answers)


def _answers(item: dict[str, Any], learner: Learner) -> dict[str, Tensor]:
    network = learner.network
    assert learner.test is not None  # `images` made them
    return {"train": _right(network, learner.samples), "test": _right(network, learner.test)}


def _right(network: nn.Module, samples: Samples) -> Tensor:
    """On which samples the network is right (samples,)."""
    predicted = predictions(outputs(network, samples.inputs))
    return predicted == samples.labels


def one_channel(context: penchant.Context) -> penchant.Context:
    """The context in which NADs of images are defined: one channel, one output."""
    _, height, width = context.architecture.shape
    plane = (1, height, width)
    return context.scope(shape=plane, outputs=1)
