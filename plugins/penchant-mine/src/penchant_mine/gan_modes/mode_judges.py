"""Modes of a dataset, and what judges to which of them generated samples belong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import penchant
import torch
from penchant_numerics.data import Data
from penchant_numerics.training import constructed
from torch import Tensor

from penchant_mine.declarations.generative import GanModes
from penchant_mine.gan_modes.curve_judge import curve_judge
from penchant_mine.gan_modes.image_nulls import image_nulls
from penchant_mine.shared.generative.modes import (
    Judge,
    coverage,
    digit_judge,
    digit_network,
    digit_sureness,
    normal_judge,
    train_digit_network,
    uniform_cloud,
)
from penchant_mine.shared.generative.pixels import scaled

TRUSTED = 0.8  # accuracy of the classifier of digits, below which counts are unsure
SURE = 0.9  # probability of a digit from which on a channel is one
NULLS = ("noise", "permuted", "mean-of-two")  # of images
OF_NULLS = ("modes", "sure")  # what is said of them


@dataclass(frozen=True)
class Modes:
    """The modes of a dataset: their share of its samples, and what judges others."""

    judge: Judge
    share: Tensor  # (modes,)
    captured: float
    is_sure: Callable[[Tensor], Tensor] | None  # of images: which samples show digits

    def covered(self, samples: Tensor) -> dict[str, float]:
        """How samples are spread over the modes."""
        numbers = coverage(self.judge(samples), self.share, captured=self.captured)
        if self.is_sure is not None:
            numbers["sure"] = float(self.is_sure(samples).double().mean())
        return numbers


def modes_of(context: penchant.Context) -> Modes:
    """The modes of the context's data; for images `context.shared` is the classifier."""
    options: GanModes = context.options
    data = context.data
    labels, count = _numbered(data, options)
    share = torch.bincount(labels, minlength=count).to(torch.float64) / len(labels)
    inputs = scaled(data.train.inputs)
    if inputs.ndim == 4:
        channels = options.channels[:2]
        network = constructed(lambda: digit_network(inputs.shape[2:], channels), 0)
        network.to(inputs.device).load_state_dict(dict(context.shared))
        sureness = digit_sureness(network.eval())
        judge = digit_judge(network)
        return Modes(judge, share, options.captured, lambda each: sureness(each) >= SURE)
    try:
        if data.classes:
            judge = normal_judge(inputs, labels, count)
        else:
            judge = curve_judge(inputs, data.train.labels.flatten(), count)
    except ValueError as error:
        raise penchant.Error(f"gan-modes: {error}") from None
    return Modes(judge, share, options.captured, None)


def _numbered(data: Data, options: GanModes) -> tuple[Tensor, int]:
    """Mode numbers of the training samples: classes, or segments of equal frequency of a label."""
    if data.classes:
        return data.train.labels, data.classes
    along = data.train.labels.flatten()
    # Cuts at equal frequency, from a limited number of labels.
    positions = torch.linspace(0, 1, options.segments + 1, device=along.device, dtype=along.dtype)
    edges = torch.quantile(along[:100000], positions[1:-1])
    return torch.bucketize(along, edges.contiguous()), options.segments


def covered_by_none(context: penchant.Context, modes: Modes, training: int) -> dict[str, Any]:
    """Modes among test data, and among samples that no generator made: the nulls."""
    count = context.options.samples
    # As many test data as samples, where there are as many.
    fresh = scaled(context.data.test.inputs)[:count]
    numbers = _named("null", modes.covered(fresh))
    inputs = scaled(context.data.train.inputs)
    if fresh.ndim == 2:
        generator = context.generator("uniform", training)
        cloud = uniform_cloud(inputs, count, generator)
        return numbers | _named("uniform", modes.covered(cloud))
    if fresh.ndim == 4:
        nulls = image_nulls(inputs, count, context.generator("nulls", training))
        for name, images in nulls.items():
            covered = modes.covered(images)
            numbers |= _named(name, {key: covered[key] for key in OF_NULLS})
    return numbers


def _named(name: str, numbers: dict[str, float]) -> dict[str, float]:
    return {f"{name}-{key}": value for key, value in numbers.items()}


def digit_classifier(options: GanModes, context: penchant.Context) -> dict[str, Tensor]:
    """For images: weights of the classifier that counts modes, trained once for all shards."""
    if len(context.data.shape) != 3:
        return {}
    network, accuracy = train_digit_network(
        scaled(context.data.train.inputs),
        context.data.train.labels,
        steps=options.classifier_steps,
        channels=options.channels[:2],
        generator=context.generator("classifier"),
    )
    context.conventions["accuracy of the classifier"] = (
        f"{accuracy:.4f}, all channels right, on samples it was not trained on"
    )
    if accuracy < TRUSTED:
        context.warn(
            f"the classifier that counts modes is right about all channels of {accuracy:.2g} of "
            "images only: counts are unsure"
        )
    return dict(network.state_dict())
