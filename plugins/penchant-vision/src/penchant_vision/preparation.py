"""From stored pixels to data: choice of samples, random labels, size, colour, standardisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import penchant
import torch
from penchant_numerics.data import Data, Samples, streams
from torch import Generator, Tensor
from torch.nn import functional

from penchant_vision.declarations import Images

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


class Pixels(NamedTuple):
    """Stored images in whole numbers, and their labels."""

    images: Tensor  # (samples, channels, height, width)
    labels: Tensor  # (samples,)


class Source(NamedTuple):
    """A dataset as it is stored; `white` is the largest value of a pixel."""

    train: Pixels
    test: Pixels
    classes: int
    white: int
    conventions: Mapping[str, str]
    warnings: Sequence[str] = ()


def completeness(split: str, count: int, complete: int) -> tuple[str, list[str]]:
    """How many images are there, as a convention, and a warning where some are missing."""
    share = f"{count} of {complete}"
    if count == complete:
        return share, []
    return share, [f"the files hold {share} {split} images"]


def prepare(options: Images, source: Source, generator: Generator) -> Data:
    """The data that the options ask for."""
    # Every choice has a stream of its own, so that none changes another.
    for_train, for_test, for_labels = streams(generator, 3)
    classes = source.classes
    _check_counts(source.train.labels, options.per_class, classes, "per_class", "training")
    _check_counts(source.test.labels, options.test_per_class, classes, "test_per_class", "test")
    # Which samples, and which labels.
    train = _choose(source.train, options.per_class, classes, for_train)
    test = _choose(source.test, options.test_per_class, classes, for_test)
    train_labels = _randomize(train.labels, options.random_labels, classes, for_labels)
    # Pixels become inputs.
    train_inputs = _as_inputs(train.images, options, source.white)
    test_inputs = _as_inputs(test.images, options, source.white)
    if options.standardize:
        train_inputs, test_inputs = _standardize(train_inputs, test_inputs)
    return Data(
        train=Samples(train_inputs, train_labels),
        test=Samples(test_inputs, test.labels),
        classes=classes,
        conventions={**source.conventions, **_conventions(options)},
        warnings=tuple(source.warnings),
    )


def _check_counts(
    labels: Tensor, per_class: int | None, classes: int, option: str, split: str
) -> None:
    counts = labels.bincount(minlength=classes)
    smallest = int(counts.min())
    if per_class is not None and per_class > smallest:
        scarce = int(counts.argmin())
        raise penchant.Error(
            f"{option} must be at most {smallest}, the {split} samples of class {scarce}, "
            f"found {per_class}"
        )


def _choose(pixels: Pixels, per_class: int | None, classes: int, generator: Generator) -> Pixels:
    """The first `per_class` of a shuffle of each class, class by class in turn.

    So 20 of each class begin with the 10 of each.
    """
    if per_class is None:
        return pixels
    shuffled = []
    for label in range(classes):
        members = torch.nonzero(pixels.labels == label).flatten()
        order = torch.randperm(len(members), generator=generator, device="cpu")
        shuffled.append(members[order][:per_class])
    # One of each class after another.
    chosen = torch.stack(shuffled, dim=1).flatten()
    return Pixels(pixels.images[chosen], pixels.labels[chosen])


def _randomize(labels: Tensor, share: float, classes: int, generator: Generator) -> Tensor:
    """Draw a share of the labels anew; those of a smaller share are among those of a larger."""
    count = len(labels)
    order = torch.randperm(count, generator=generator, device="cpu")
    sampled = torch.randint(classes, (count,), generator=generator, device="cpu")
    # Whatever the share, as much is sampled: only how much of it is used differs.
    changed = order[: round(share * count)]
    labels = labels.clone()
    labels[changed] = sampled[changed]
    return labels


def _as_inputs(images: Tensor, options: Images, white: int) -> Tensor:
    inputs = images.to(torch.float32) / white
    # Colour first, then size.
    if options.grayscale and inputs.shape[1] == 3:
        luma = torch.tensor(LUMA, device="cpu")
        inputs = torch.einsum("nchw,c->nhw", inputs, luma)[:, None]
    if options.resize is not None:
        return resized(inputs, options.resize)
    if options.pad is not None:
        return _pad(inputs, options.pad)
    return inputs


def resized(inputs: Tensor, side: int) -> Tensor:
    """Images scaled to this side length, bilinear with antialiasing."""
    scaled = functional.interpolate(
        inputs, (side, side), mode="bilinear", align_corners=False, antialias=True
    )
    return scaled.clamp(0, 1)


def _pad(inputs: Tensor, side: int) -> Tensor:
    """Zeros on all sides; where their number is odd, one more at the right and the bottom."""
    height, width = inputs.shape[2:]
    longest = max(height, width)
    if side < longest:
        raise penchant.Error(
            f"pad must be at least the side of the images, {longest}, found {side}"
        )
    left = (side - width) // 2
    right = side - width - left
    top = (side - height) // 2
    bottom = side - height - top
    return functional.pad(inputs, (left, right, top, bottom))


def _standardize(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Mean 0 and variance 1 of every channel over the training samples."""
    of_a_channel = (0, 2, 3)
    mean = train.mean(of_a_channel, keepdim=True, dtype=torch.float64)
    exact = train.to(torch.float64)
    std = exact.std(of_a_channel, keepdim=True, correction=0)
    # A channel without variation is only centred.
    scale = torch.where(std > 0, std, 1.0)
    train = (train - mean) / scale
    test = (test - mean) / scale
    return train.to(torch.float32), test.to(torch.float32)


def _conventions(options: Images) -> dict[str, str]:
    # What makes numbers of two results incomparable.
    pixels = "in [0, 1]"
    if options.standardize:
        pixels = "standardised per channel with the training samples"
    conventions = {"pixels": pixels}
    if options.random_labels:
        share = f"{options.random_labels:g}"
        conventions["random labels"] = (
            f"{share} of the training labels, sampled uniformly over all classes"
        )
    if options.resize is not None:
        conventions["resize"] = "bilinear, antialiased"
    if options.grayscale:
        conventions["grayscale"] = "luma of ITU-R BT.601"
    return conventions
