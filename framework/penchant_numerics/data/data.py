"""Samples and datasets as tensors: what dataset targets return and what probes are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from penchant_numerics.data.label_kinds import LabelKind, kind_of
from penchant_numerics.data.sequences import IGNORED
from penchant_numerics.refusal import Refusal
from torch import Generator, Tensor

WHOLE = (torch.int32, torch.int64)  # types of tokens; others are features or pixels


def stored_type(inputs: Tensor) -> torch.dtype:
    """The type of numbers that inputs have where they are stored.

    >>> stored_type(torch.tensor([1, 2], device="cpu"))
    torch.int64
    """
    stored: Callable[[], torch.dtype] | None = getattr(inputs, "stored_dtype", None)
    return inputs.dtype if stored is None else stored()


def in_precision(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Inputs in a precision; tokens stay as they are.

    >>> in_precision(torch.tensor([1, 2], device="cpu"), torch.float64).dtype
    torch.int64
    """
    return inputs if stored_type(inputs) in WHOLE else inputs.to(dtype)


class Samples(NamedTuple):
    """Inputs and their labels.

    Inputs that are whole numbers of 32 or 64 bits, such as tokens, stay whole. Labels are whole
    numbers (samples,) where they are classes, (samples, positions) where every position has one
    (-100: none), else numbers (samples, ...).
    """

    inputs: Tensor  # (samples, *shape); or `streamed.StreamedInputs`, which stands for it
    labels: Tensor

    @property
    def kind(self) -> LabelKind:
        """What labels are of: units and terms of the loss."""
        return kind_of(self.labels)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Samples:
        """The same samples on a device; tokens, and labels that are classes, stay whole."""
        kind = dtype if self.labels.is_floating_point() else torch.int64
        stored = stored_type(self.inputs)
        return Samples(
            self.inputs.to(device, stored if stored in WHOLE else dtype),
            self.labels.to(device, kind),
        )

    def select(self, indices: Tensor | slice) -> Samples:
        """The samples with these indices, in their order."""
        return Samples(self.inputs[indices], self.labels[indices])

    def first_of_each_class(self, count: int) -> Samples:
        """The first `count` samples of each class, in their order; fewer where a class has fewer.

        >>> labels = torch.tensor([1, 0, 1, 1, 0], device="cpu")
        >>> samples = Samples(torch.arange(5, device="cpu"), labels)
        >>> samples.first_of_each_class(2).inputs.tolist()
        [0, 1, 2, 4]
        """
        # the position of a sample among those of its class
        position = torch.zeros_like(self.labels)
        for label in self.labels.unique():
            own = self.labels == label
            size = int(own.sum())
            position[own] = torch.arange(size, device=position.device)
        # the first ones
        chosen = torch.nonzero(position < count)
        return self.select(chosen[:, 0])


@dataclass(frozen=True)
class Data:
    """A loaded dataset.

    Args:
        train: Samples to learn from.
        test: Samples to be judged by.
        classes: How many classes labels name; 0 where labels are not classes.
        conventions: What makes numbers incomparable, by name; they reach the result.
        warnings: What a reader must know; they reach the result.

    >>> labels = torch.tensor([0, 1, 2, 0], device="cpu")
    >>> samples = Samples(torch.zeros(4, 1, 8, 8, device="cpu"), labels)
    >>> data = Data(train=samples, test=samples, classes=3)
    >>> data.shape, data.outputs, data.has_tokens
    ((1, 8, 8), 3, False)
    """

    train: Samples
    test: Samples
    classes: int
    conventions: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        shape = self.train.inputs.shape
        return tuple(shape[1:])

    @property
    def has_tokens(self) -> bool:
        """Are inputs whole numbers, which cannot be moved a little?"""
        return stored_type(self.train.inputs) in WHOLE

    @property
    def positions(self) -> int | None:
        """Positions of a sequence that have a label each; None where a sample has one label."""
        labels = self.train.labels
        return labels.shape[1] if self.classes and labels.ndim == 2 else None

    @property
    def outputs(self) -> int:
        """Outputs a network needs: one per class, or one per component of the label."""
        first = self.train.labels[:1]
        components = max(1, first.numel())
        return self.classes or components

    @property
    def labels_described(self) -> str:
        """What labels are, in words: where `outputs` comes from."""
        if self.classes:
            return f"labels are whole numbers up to {self.classes - 1}, so {self.classes} classes"
        described = f"labels are floating-point numbers, {self.outputs} per sample"
        return f"{described}; whole numbers would be classes"

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Data:
        """The same data on a device, in a precision."""
        return replace(self, train=self.train.to(device, dtype), test=self.test.to(device, dtype))


def as_data(value: Any) -> Data:
    """Data from what a dataset target returned.

    Args:
        value: `Data`, or (train, test, classes) with pairs of tensors.

    Raises:
        Refusal: The data cannot be right: no samples, other numbers of inputs than of labels,
            inputs that are not finite, labels that are no classes.

    >>> pair = (torch.zeros(3, 2, device="cpu"), torch.tensor([0, 1, 1], device="cpu"))
    >>> as_data((pair, pair, 2)).outputs
    2
    >>> as_data((pair, (pair[0][:2], pair[1]), 2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penchant_numerics.refusal.Refusal: ...2 inputs...3 labels...
    """
    # what a target may return for short
    if isinstance(value, Data):
        data = value
    else:
        train, test, classes = value
        data = Data(Samples(*train), Samples(*test), int(classes))
    _check_split("train", data.train, data.classes)
    _check_split("test", data.test, data.classes)
    return data


def unreadable(tensor: Tensor) -> str:
    """What hides the values of a tensor, and what helps; empty if nothing does.

    >>> unreadable(torch.ones(2).to_sparse())
    'a tensor in the form sparse_coo, expected a dense one: give tensor.to_dense()'
    >>> unreadable(torch.ones(2))
    ''
    """
    if tensor.is_nested:
        return (
            "a nested tensor, expected samples of one shape: pad them, nested.to_padded_tensor(0)"
        )
    if tensor.layout is not torch.strided:
        form = str(tensor.layout).removeprefix("torch.")
        return f"a tensor in the form {form}, expected a dense one: give tensor.to_dense()"
    if tensor.device.type == "meta":
        return "a tensor on the device meta, which has no values: load it on cpu"
    if tensor.is_quantized:
        kind = str(tensor.dtype).removeprefix("torch.")
        return f"a quantised tensor ({kind}), expected plain numbers: give tensor.dequantize()"
    return ""


def _check_split(name: str, samples: Samples, classes: int) -> None:
    """Refuse a split that cannot be right."""
    inputs, labels = samples
    for what, each in (("inputs", inputs), ("labels", labels)):
        if isinstance(each, Tensor) and (problem := unreadable(each)):
            raise Refusal(f"{name} {what} are {problem}")
    if len(inputs) != len(labels):
        raise Refusal(
            f"{name} has {len(inputs)} inputs but {len(labels)} labels; the numbers must match"
        )
    if not len(inputs):
        raise Refusal(f"{name} has no samples")
    # streamed inputs are checked when they are read
    if isinstance(inputs, Tensor) and not torch.isfinite(inputs).all():
        raise Refusal(f"{name} inputs have values that are not finite")
    if labels.is_floating_point() and not torch.isfinite(labels).all():
        count = int((~torch.isfinite(labels)).sum())
        hint = "leave these samples out"
        raise Refusal(f"{name} labels have {count} values that are not finite; {hint}")

    # labels of classes count from zero; a position may have none
    if not classes:
        return
    known = labels[labels != IGNORED] if labels.ndim == 2 else labels
    if not len(known):
        raise Refusal(f"{name} has no labels: all are {IGNORED} (ignored)")
    lowest = known.min()
    highest = known.max()
    if lowest < 0 or highest >= classes:
        actual = f"{int(lowest)}..{int(highest)}"
        raise Refusal(f"{name} labels must be in 0..{classes - 1}, found {actual}")


def streams(generator: Generator, count: int) -> list[Generator]:
    """Independent generators, so that samples of one do not depend on those of another.

    Args:
        generator: A generator on the CPU; it gives `count` seeds in one draw.
        count: How many streams.

    Returns:
        Generators on the CPU; more streams begin with those that fewer would be.

    >>> first, second = streams(torch.Generator("cpu").manual_seed(0), 2)
    >>> first.initial_seed() == second.initial_seed()
    False
    """
    # one draw: stored results depend on these very seeds
    seeds = torch.randint(2**63 - 1, (count,), generator=generator, device="cpu")
    # each seeds a generator of its own
    streams = []
    for seed in seeds.tolist():
        stream = torch.Generator(device="cpu")
        streams.append(stream.manual_seed(seed))
    return streams
