"""Two classes of a dataset as numbers to regress, and trainings that are evaluated on the way."""

from collections.abc import Callable, Sequence

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.training import Trainer, outputs
from torch import Generator, Tensor, nn

from penchant_spectral_bias.shared.waves import (
    evaluation_steps,
    network_of_one_output,
    note_batch_norm,
)


def check_classes(context: penchant.Context, classes: Sequence[int]) -> None:
    """Two different classes that the dataset has."""
    count = context.data.classes
    different = set(classes)
    are_two = len(classes) == 2 and len(different) == 2
    if are_two and max(classes) < count:
        return
    allowed = f"two of 0..{count - 1}"
    raise penchant.Error(f"chosen_classes must be {allowed}, found {list(classes)}")


def two_classes(
    samples: Samples, classes: Sequence[int], count: int | None, generator: Generator
) -> Samples:
    """At most `count` samples of two classes in random order, with targets 0.0 and 1.0."""
    first, second = classes
    is_first = samples.labels == first
    is_second = samples.labels == second
    for label, own in zip(classes, (is_first, is_second)):
        if not bool(own.any()):
            raise penchant.Error(
                f"expected samples of the classes {list(classes)}, found none of {label}"
            )
    indices = torch.nonzero(is_first | is_second).flatten()

    # in a random order, of which the first are taken
    order = torch.randperm(len(indices), generator=generator, device="cpu")
    some = order[:count].to(indices.device)
    chosen = samples.select(indices[some])

    # regressed as numbers in the precision of the inputs
    targets = (chosen.labels == second).to(chosen.inputs.dtype)
    return Samples(chosen.inputs, targets)


def clean_samples(context: penchant.Context, training: int) -> Samples:
    """The samples of one training, with clean targets."""
    options = context.options
    generator = context.generator("samples", training)
    return two_classes(context.data.train, options.chosen_classes, options.samples, generator)


def evaluated_steps(context: penchant.Context) -> list[int]:
    """Steps at which networks are evaluated; every training has as many samples."""
    samples = clean_samples(context, 0)
    return evaluation_steps(context, len(samples.labels))


def followed(
    context: penchant.Context,
    training: int,
    samples: Samples,
    steps: Sequence[int],
    evaluate: Callable[[nn.Module], None],
) -> None:
    """Train network number `training` and evaluate it at every one of these steps."""
    network = network_of_one_output(context, training)
    note_batch_norm(context, network)
    seed = context.generator("training", training).initial_seed()
    assert context.training is not None  # the probe needs one
    trainer = Trainer(network, samples, context.training, seed=seed)
    for step in steps:
        trainer.run(until=step)
        evaluate(network)


def first_outputs(network: nn.Module, inputs: Tensor) -> Tensor:
    """First output at every input, (samples,)."""
    values = outputs(network, inputs)
    return values[:, 0]


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error, in double precision."""
    residuals = values.double() - targets.double()
    return residuals.square().mean()
