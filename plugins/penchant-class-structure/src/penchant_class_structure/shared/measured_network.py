"""Which samples the probes of this plugin use, and the network as they measure it."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Protocol

import penchant
import torch
from penchant_numerics.curvature import loss_function, loss_named
from penchant_numerics.data import Samples, contributions_to_mean, kind_of
from penchant_numerics.device import safe
from penchant_numerics.training import accuracy_numbers, evaluate, outputs
from torch import Tensor, nn


class Options(Protocol):
    """What the probes' options have in common."""

    @property
    def per_class(self) -> int | None:
        """Samples of each class."""

    @property
    def batch_norm(self) -> str:
        """Statistics of batch normalisation."""

    @property
    def loss(self) -> str:
        """Its name, or `training` for that of the training."""


class SomeClasses(Protocol):
    """Options of probes that can be limited to some classes."""

    @property
    def classes(self) -> int | None:
        """How many of the first classes; None: all."""


def parameter_count(context: penchant.Context) -> int:
    """How many parameters the network has."""
    network = context.network()
    return sum(each.numel() for each in network.parameters())


class FirstOutputs(nn.Module):
    """The first outputs of a network: what separates the first classes."""

    def __init__(self, network: nn.Module, count: int) -> None:
        super().__init__()
        self.network = network
        self.count = count

        # a new module is in training mode: restoring that mode would restore it in all submodules
        self.training = network.training

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (n, count)."""
        every = self.network(inputs)
        first: Tensor = every[:, : self.count]
        return first


def classes_measured(options: SomeClasses, context: penchant.Context) -> int:
    """How many classes there are, or those that were requested; more than there are is refused."""
    there = context.data.classes
    if options.classes is None:
        return there
    if context.data.train.kind.by_position:
        raise penchant.Error(
            f"classes chooses samples by their class, found {options.classes} and sequences, whose "
            "positions have one each"
        )
    if options.classes > there:
        raise penchant.Error(f"classes must be at most {there}, found {options.classes}")
    context.conventions["classes"] = (
        f"the first {options.classes} of {there}: their samples, and probabilities among them"
    )
    return options.classes


def of_classes(network: nn.Module, options: SomeClasses, context: penchant.Context) -> nn.Module:
    """The network with the outputs of the measured classes."""
    count = classes_measured(options, context)
    if count == context.data.classes:
        return network
    return FirstOutputs(network, count)


def chosen(samples: Samples, per_class: int | None, classes: int) -> Samples:
    """The first `per_class` samples of each of the first classes; every class must have some."""
    if samples.kind.by_position:
        raise penchant.Error(
            "the structure of classes needs one class per sample, found sequences with one per "
            "position"
        )
    # means of an empty class are not defined
    counts = samples.labels.bincount(minlength=classes)[:classes]
    if int(counts.min()) == 0:
        empty = int(counts.argmin())
        raise penchant.Error(
            f"every class needs a sample, found none of class {empty}; number the labels without "
            "those that do not occur, or take hessian-spectrum or tangent-kernel, which need no "
            "class means"
        )
    return first_of_classes(samples, per_class, classes)


def first_of_classes(samples: Samples, per_class: int | None, classes: int) -> Samples:
    """The first `per_class` samples of each of the first classes, in their order; None: all."""
    others = samples.labels >= classes
    if bool(others.any()):
        looked_at = torch.nonzero(~others)[:, 0]
        samples = samples.select(looked_at)
    if not len(samples.labels):
        raise penchant.Error(f"expected samples of the first {classes} classes, found none")
    if per_class is None:
        return samples
    return samples.first_of_each_class(per_class)


def measured(network: nn.Module, options: Options, context: penchant.Context) -> nn.Module:
    """A copy in evaluation mode that can be differentiated; batch-norm as the options say."""
    # with statistics of the batch, samples would mix: that is not offered
    context.conventions["batch-norm"] = f"{options.batch_norm} statistics, evaluation mode"
    return safe(network, batch_norm=options.batch_norm, calibration=context.data.train.inputs)


def measured_loss(options: Options, context: penchant.Context) -> str:
    """The loss whose curvature is meant: the training's, unless another was requested."""
    assert context.training is not None
    loss = options.loss
    if loss == "training":
        loss = context.training.loss
        # the cross-entropy of numbers is not defined
        if loss == "cross-entropy" and not context.data.classes:
            return "squared-error"
    if loss == "cross-entropy" and not context.data.classes:
        raise penchant.Error(
            "cross-entropy needs labels that are classes, found labels that are numbers: "
            'loss = "squared-error", "binary-cross-entropy" or "module:function" takes them'
        )
    return loss


def check_cross_entropy(options: Options, context: penchant.Context) -> None:
    """Components are weighted by probabilities, which only cross-entropy has."""
    # weights of extended gradients are probabilities
    loss = measured_loss(options, context)
    if loss != "cross-entropy":
        who = context.options.name
        raise penchant.Error(
            f"{who} decomposes the curvature of softmax cross-entropy, found a training with "
            f'{loss}; loss = "cross-entropy" measures it with that loss anyway'
        )


def stderr_of(contributions: Tensor, labels: Tensor) -> float | None:
    """The standard error of the mean of contributions (n,), with as many samples of each class.

    Args:
        contributions: Of samples.
        labels: Their classes (n,).

    Returns:
        The error; None with fewer than two samples. A class of one sample has no spread of its own:
        where there is one, the spread is that around the mean of all. So it is of sequences, whose
        labels (n, positions) are no classes of samples, and of labels that are numbers.

    >>> numbers = torch.tensor([1.0, 3.0, 101.0, 103.0], device="cpu")
    >>> round(stderr_of(numbers, torch.tensor([0, 0, 1, 1], device="cpu")), 6)
    0.707107
    """
    count = len(contributions)
    if count < 2:
        return None
    own = contributions.double().cpu()
    root: float = count**0.5
    if kind_of(labels).by_position or labels.is_floating_point():
        return float(own.std()) / root
    classes, sizes = labels.cpu().unique(return_counts=True)
    if int(sizes.min()) < 2:
        return float(own.std()) / root
    total = 0.0
    for label, size in zip(classes, sizes):
        # a class weighs what it holds
        of_class = own[labels.cpu() == label]
        total += float(of_class.var() * size)
    stderr: float = total**0.5 / count
    return stderr


def loss_on(network: nn.Module, samples: Samples, loss: str) -> penchant.Quantity:
    """The mean loss with its standard error over samples; null: the best constant outputs."""
    value, _ = evaluate(network, samples, loss=loss)
    if samples.kind.by_position:
        return _loss_on_sequences(network, samples, loss, value)
    given = outputs(network, samples.inputs)

    # the same loss, sample by sample, for its spread
    mean_loss = loss_function(loss)
    of_sample = torch.vmap(lambda row, label: mean_loss(row[None], label[None]))
    each = of_sample(given, samples.labels).double()
    count = len(each)
    return penchant.Quantity(
        value,
        stderr=stderr_of(each, samples.labels),
        over="samples",
        count=count,
        null=_constant_loss(samples.labels, loss, given.shape[1]),
    )


def _loss_on_sequences(
    network: nn.Module, samples: Samples, loss: str, value: float
) -> penchant.Quantity:
    """The mean over positions, whose standard error is over sequences."""
    mean_loss = loss_function(loss)
    counts = samples.kind.counts
    sums = []
    for row, label, count in zip(samples.inputs, samples.labels, counts):
        with torch.no_grad():
            own = mean_loss(network(row[None]), label[None])
        sums.append(own * count)
    each = contributions_to_mean(torch.stack(sums), counts)
    return penchant.Quantity(
        value,
        stderr=stderr_of(each, samples.labels),
        over=samples.kind.units,
        count=len(each),
        null=_constant_loss(samples.kind.known, loss, 2),
    )


def _constant_loss(labels: Tensor, loss: str, outputs: int) -> float | None:
    """The loss of the best outputs that do not depend on the input; None where it is not known."""
    best = loss_named(loss).best_constant
    return None if best is None else best(labels, outputs)


def accuracy_on(network: nn.Module, samples: Samples) -> penchant.Quantity:
    """The accuracy with its standard error over samples; null: the most frequent class."""
    _, right = evaluate(network, samples)
    return penchant.Quantity(**accuracy_numbers(right, samples))


@contextlib.contextmanager
def saying(context: penchant.Context) -> Iterator[None]:
    """Warnings of the numerics, such as layers that take longer, reach the result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        if each.category is UserWarning:
            context.warn(str(each.message))
        else:
            # warnings of libraries go to their listeners
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def permuted_labels(labels: Tensor, number: int, context: penchant.Context) -> Tensor:
    """Permutation `number` of the labels."""
    generator = context.generator("permutation", number)
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    return labels[order.to(labels.device)]


def fractions_to_steps(fractions: tuple[float, ...], total: int) -> list[int]:
    """Optimiser steps at fractions of a training, ascending; the end is always one of them."""
    steps = {total}
    for fraction in fractions:
        steps.add(round(fraction * total))
    return sorted(steps)
