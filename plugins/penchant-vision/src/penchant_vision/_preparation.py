"""From stored pixels to data: choice of samples, random labels, size, colour, standardisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import penchant
import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor
from torch.nn import functional

from penchant_vision import Images

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


class Pixels(NamedTuple):
    """Stored images (samples, channels, height, width) in whole numbers, and their labels (samples,)."""

    images: Tensor
    labels: Tensor


class Source(NamedTuple):
    """A dataset as it is stored; `white` is the largest value of a pixel."""

    train: Pixels
    test: Pixels
    classes: int
    white: int
    conventions: Mapping[str, str]
    warnings: Sequence[str] = ()


def prepare(options: Images, source: Source, generator: Generator) -> Data:
    """The data that the options ask for. Every choice has a stream of its own, so that none changes another."""
    for_train, for_test, for_labels = _streams(generator, 3)
    train = _choose(
        source.train, options.per_class, source.classes, for_train, "per_class", "training"
    )
    test = _choose(
        source.test, options.test_per_class, source.classes, for_test, "test_per_class", "test"
    )
    labels = _randomize(train.labels, options.random_labels, source.classes, for_labels)
    inputs = [_as_inputs(part.images, options, source.white) for part in (train, test)]
    if options.standardize:
        inputs = _standardize(*inputs)
    return Data(
        Samples(inputs[0], labels),
        Samples(inputs[1], test.labels),
        classes=source.classes,
        conventions={**source.conventions, **_conventions(options)},
        warnings=tuple(source.warnings),
    )


def _streams(generator: Generator, count: int) -> list[Generator]:
    seeds = torch.randint(2**63 - 1, (count,), generator=generator, device="cpu")
    return [torch.Generator(device="cpu").manual_seed(int(seed)) for seed in seeds]


def _choose(
    pixels: Pixels,
    per_class: int | None,
    classes: int,
    generator: Generator,
    option: str,
    part: str,
) -> Pixels:
    """The first `per_class` of a shuffle of each class, class by class in turn: 20 of each begin with the 10 of each."""
    if per_class is None:
        return pixels
    counts = pixels.labels.bincount(minlength=classes)
    if per_class > counts.min():
        scarce = int(counts.argmin())
        raise penchant.Error(
            f"{option} must be at most {int(counts.min())}, the {part} samples of class {scarce}, found {per_class}"
        )
    members = (torch.nonzero(pixels.labels == label).flatten() for label in range(classes))
    shuffled = [
        each[torch.randperm(len(each), generator=generator, device="cpu")][:per_class]
        for each in members
    ]
    chosen = torch.stack(shuffled, dim=1).flatten()
    return Pixels(pixels.images[chosen], pixels.labels[chosen])


def _randomize(labels: Tensor, share: float, classes: int, generator: Generator) -> Tensor:
    """Draw a share of the labels anew. The samples of a smaller share are among those of a larger one."""
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    drawn = torch.randint(classes, (len(labels),), generator=generator, device="cpu")
    changed = order[: round(share * len(labels))]
    labels = labels.clone()
    labels[changed] = drawn[changed]
    return labels


def _as_inputs(images: Tensor, options: Images, white: int) -> Tensor:
    inputs = images.to(torch.float32) / white
    if options.grayscale and inputs.shape[1] == 3:
        inputs = torch.einsum("nchw,c->nhw", inputs, torch.tensor(LUMA, device="cpu"))[:, None]
    if options.resize is not None:
        size = (options.resize, options.resize)
        return functional.interpolate(
            inputs, size, mode="bilinear", align_corners=False, antialias=True
        ).clamp(0, 1)
    return inputs if options.pad is None else _pad(inputs, options.pad)


def _pad(inputs: Tensor, side: int) -> Tensor:
    """Zeros on all sides; where their number is odd, one more at the right and the bottom."""
    height, width = inputs.shape[2:]
    if side < max(height, width):
        raise penchant.Error(
            f"pad must be at least the side of the images, {max(height, width)}, found {side}"
        )
    left, top = (side - width) // 2, (side - height) // 2
    return functional.pad(inputs, (left, side - width - left, top, side - height - top))


def _standardize(train: Tensor, test: Tensor) -> list[Tensor]:
    mean = train.mean((0, 2, 3), keepdim=True, dtype=torch.float64)
    std = train.to(torch.float64).std((0, 2, 3), keepdim=True, correction=0)
    scale = torch.where(std > 0, std, 1.0)  # a channel without variation is only centred
    return [((part - mean) / scale).to(torch.float32) for part in (train, test)]


def _conventions(options: Images) -> dict[str, str]:
    found = {
        "pixels": "standardised per channel with the training samples"
        if options.standardize
        else "in [0, 1]"
    }
    if options.random_labels:
        found["random labels"] = (
            f"{options.random_labels:g} of the training labels, drawn uniformly over all classes"
        )
    if options.resize is not None:
        found["resize"] = "bilinear, antialiased"
    if options.grayscale:
        found["grayscale"] = "luma of ITU-R BT.601"
    return found
