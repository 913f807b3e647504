"""Modes of a dataset, and what judges to which of them generated samples belong.

Images that no generator made: what a classifier of stacked digits sees in them is a null.

Which piece of a curve a point belongs to, for data along a curve whose label is the position.

One normal per piece of a curved arm is as wide as the bend: much of the plane would lie near one.
So points are judged by their distance to the curve itself, which is the mean of the data by label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import penchant
import torch
from penchant_numerics import Refusal
from penchant_numerics.data import Data
from penchant_numerics.training import constructed
from torch import Generator, Tensor

from penchant_mine.declarations.generative import GanModes
from penchant_mine.shared.generative.modes import (
    Judge,
    coverage,
    digit_judge,
    digit_network,
    digit_sureness,
    normal_judge,
    scaled,
    train_digit_network,
    uniform_cloud,
)

SEGMENTS = 20  # modes that unlabelled data (spiral) is cut into along its label
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
    labels, count = _numbered(data)
    share = torch.bincount(labels, minlength=count).to(torch.float64) / len(labels)
    inputs = scaled(data.train.inputs)
    if inputs.ndim == 4:
        channels = options.channels[:2]
        network = constructed(lambda: digit_network(inputs.shape[2:], channels), 0)
        network.to(inputs.device).load_state_dict(dict(context.shared))
        sureness = digit_sureness(network.eval())
        judge = digit_judge(network)
        return Modes(judge, share, options.captured, lambda each: sureness(each) >= SURE)
    if data.classes:
        judge = normal_judge(inputs, labels, count)
    else:
        judge = curve_judge(inputs, data.train.labels.flatten(), count)
    return Modes(judge, share, options.captured, None)


def _numbered(data: Data) -> tuple[Tensor, int]:
    """Mode numbers of the training samples: classes, or segments of equal frequency of a label."""
    if data.classes:
        return data.train.labels, data.classes
    along = data.train.labels.flatten()
    # Cuts at equal frequency, from a limited number of labels.
    positions = torch.linspace(0, 1, SEGMENTS + 1, device=along.device, dtype=along.dtype)
    edges = torch.quantile(along[:100000], positions[1:-1])
    return torch.bucketize(along, edges.contiguous()), SEGMENTS


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


def image_nulls(images: Tensor, count: int, generator: Generator) -> dict[str, Tensor]:
    """Images without digits, or with two in one, of the size and range of the given ones.

    Args:
        images: Real images (samples, channels, height, width) in [-1, 1].
        count: How many of each kind.
        generator: On the CPU.

    Returns:
        `noise`, uniform and independent pixels; `permuted`, real images with the pixels of each
        channel in an order of their own; `mean-of-two`, the mean of two real images.
    """
    shape = images.shape[1:]
    noise = 2 * torch.rand((count, *shape), generator=generator, device="cpu") - 1
    one, other = torch.randint(len(images), (2, count), generator=generator, device="cpu")
    flat = images[one.to(images.device)].flatten(2)  # (count, channels, pixels)
    scores = torch.rand(flat.shape, generator=generator, device="cpu")
    order = scores.argsort(2).to(images.device)
    permuted = flat.gather(2, order).reshape(count, *shape)
    mean = (images[one.to(images.device)] + images[other.to(images.device)]) / 2
    return {"noise": noise.to(images), "permuted": permuted, "mean-of-two": mean}


KNOTS = 500  # of the curve, at most
LEAST = 5  # samples of a knot, at least
FARTHEST = 3.0  # standard deviations of the data around the curve
ENOUGH = 5000  # samples to measure how wide the data are around the curve
CHUNK = 2000  # points at once


def curve_judge(inputs: Tensor, along: Tensor, pieces: int) -> Judge:
    """A point belongs to the nearest piece if it is as near to the curve as nearly all data.

    Args:
        inputs: Points (samples, size) along a curve.
        along: Where on it each is (samples,).
        pieces: How many pieces of equal numbers of samples it is cut into.

    Returns:
        Piece of every point, -1 for those that are away from the curve.
    """
    points = inputs.flatten(1).to(torch.float64)
    order = along.argsort()
    knots = min(KNOTS, len(points) // LEAST)
    if knots < pieces:
        raise Refusal(
            f"expected at least {LEAST * pieces} samples along the curve, found {len(points)}"
        )
    # Knots are means of neighbours along the curve, of equal numbers.
    groups = torch.tensor_split(points[order], knots)
    curve = torch.stack([group.mean(0) for group in groups])  # (knots, size)
    # The width of the data is known well enough from some of them.
    some = points[:: max(1, len(points) // ENOUGH)]
    squared = torch.cat([_nearest(curve, chunk)[0] for chunk in some.split(CHUNK)])
    # A curve takes one of the dimensions, and noise fills the others.
    width = (squared.mean() / max(1, points.shape[1] - 1)).sqrt()
    reach = (FARTHEST * width).square()
    of_knot = torch.arange(knots, device=points.device) * pieces // knots

    def judge(samples: Tensor) -> Tensor:
        pieces_of = []
        for chunk in samples.flatten(1).to(torch.float64).split(CHUNK):
            distance, knot = _nearest(curve, chunk)
            pieces_of.append(torch.where(distance <= reach, of_knot[knot], -1))
        return torch.cat(pieces_of)

    return judge


def _nearest(curve: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distance of points to a curve of straight pieces, and the number of a knot there."""
    start, step = curve[:-1], curve.diff(dim=0)
    away = points[:, None] - start  # (points, pieces, size)
    length = step.square().sum(1)
    share = ((away * step).sum(2) / length).clamp(0, 1)
    rest = away - share[:, :, None] * step
    distance, piece = rest.square().sum(2).min(1)
    # The nearer end of the straight piece.
    beyond = share.gather(1, piece[:, None])[:, 0] > 0.5
    return distance, piece + beyond.long()
