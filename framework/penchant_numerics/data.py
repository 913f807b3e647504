"""Samples and datasets as tensors: what dataset targets return and what probes are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor


class Samples(NamedTuple):
    """Inputs (samples, *shape) and labels: (samples,) whole numbers for classes, else (samples, ...) numbers."""

    inputs: Tensor
    labels: Tensor

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Samples:
        """The same samples on a device; labels that are classes stay whole numbers."""
        floating = self.labels.is_floating_point()
        return Samples(
            self.inputs.to(device, dtype),
            self.labels.to(device, dtype if floating else torch.int64),
        )

    def select(self, indices: Tensor) -> Samples:
        """The samples with these indices, in their order."""
        return Samples(self.inputs[indices], self.labels[indices])

    def first_of_each_class(self, count: int) -> Samples:
        """The first `count` samples of each class, in their order; fewer where a class has fewer.

        >>> labels = torch.tensor([1, 0, 1, 1, 0], device="cpu")
        >>> Samples(torch.arange(5, device="cpu"), labels).first_of_each_class(2).inputs.tolist()
        [0, 1, 2, 4]
        """
        place = torch.zeros_like(self.labels)  # of a sample among those of its class
        for label in self.labels.unique():
            own = self.labels == label
            place[own] = torch.arange(int(own.sum()), device=place.device)
        return self.select(torch.nonzero(place < count)[:, 0])


@dataclass(frozen=True)
class Data:
    """A loaded dataset. `classes` is 0 where labels are not classes; conventions and warnings reach the result."""

    train: Samples
    test: Samples
    classes: int
    conventions: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.train.inputs.shape[1:])

    @property
    def outputs(self) -> int:
        """Outputs a network needs: one a class, or one a component of the label."""
        return self.classes or max(1, self.train.labels[:1].numel())

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Data:
        """The same data on a device, in a precision."""
        return replace(self, train=self.train.to(device, dtype), test=self.test.to(device, dtype))


def as_data(value: Any) -> Data:
    """Data from what a dataset target returned: `Data`, or (train, test, classes) with pairs of tensors."""
    if isinstance(value, Data):
        data = value
    else:
        train, test, classes = value
        data = Data(Samples(*train), Samples(*test), int(classes))
    for name, part in (("train", data.train), ("test", data.test)):
        if len(part.inputs) != len(part.labels):
            raise ValueError(
                f"{name} has {len(part.inputs)} inputs and {len(part.labels)} labels, expected as many"
            )
        if not len(part.inputs):
            raise ValueError(f"{name} has no samples")
        if not torch.isfinite(part.inputs).all():
            raise ValueError(f"{name} inputs have values that are not finite")
        if data.classes and (part.labels.min() < 0 or part.labels.max() >= data.classes):
            raise ValueError(
                f"{name} labels must be in 0..{data.classes - 1}, found {int(part.labels.min())}..{int(part.labels.max())}"
            )
    return data


def streams(generator: Generator, count: int) -> list[Generator]:
    """Independent generators, so that how much is drawn from one changes nothing in another.

    Args:
        generator: A generator on the CPU; it gives `count` seeds in one draw.
        count: How many streams.

    Returns:
        Generators on the CPU; more streams begin with those that fewer would be.

    >>> first, second = streams(torch.Generator("cpu").manual_seed(0), 2)
    >>> first.initial_seed() == second.initial_seed()
    False
    """
    seeds = torch.randint(2**63 - 1, (count,), generator=generator, device="cpu")
    return [torch.Generator(device="cpu").manual_seed(int(seed)) for seed in seeds]
