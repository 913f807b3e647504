"""What a network is trained on: ordinary samples, noisy labels, difficult samples among others."""

from typing import NamedTuple

import penchant
import torch
from penchant_numerics.data import IGNORED, Samples
from torch import Generator, Tensor

from penchant_tangent.declarations.training import TangentTraining
from penchant_tangent.shared.kernel_samples import sampled


class Mixture(NamedTuple):
    """Training samples, easy and difficult."""

    easy: Samples
    difficult: Samples | None

    def together(self) -> Samples:
        """All of them."""
        if self.difficult is None:
            return self.easy
        return Samples(
            torch.cat([self.easy.inputs, self.difficult.inputs]),
            torch.cat([self.easy.labels, self.difficult.labels]),
        )


def with_random_labels(
    labels: Tensor, share: float, *, classes: int, generator: Generator
) -> Tensor:
    """Labels (n,) of which a share is drawn anew, uniformly over all classes.

    Of sequences (n, positions) it is a share of the positions that count. The same generator gives
    nested choices: what is random at a small share is so at a larger one.
    """
    # both are sampled for all samples, whatever the share
    chance = torch.rand(labels.shape, generator=generator, device="cpu")
    anew = torch.randint(classes, labels.shape, generator=generator, device="cpu")
    noisy = (chance < share).to(labels.device) & (labels != IGNORED)
    return torch.where(noisy, anew.to(labels), labels)


def mixture(
    options: TangentTraining, context: penchant.Context, share: float, number: int
) -> Mixture:
    """The samples of training `number` with this share of random labels."""
    train = context.data.train
    classes = context.data.classes

    # ordinary ones, some of which get other labels
    every = len(train.labels)
    shuffled = sampled(train, every, context.generator("mixture", number))
    count = every if options.easy_samples is None else options.easy_samples
    difficult_count = 0 if options.difficult_samples is None else options.difficult_samples
    own = difficult_count if options.difficult_data is None else 0
    if count + own > every and options.easy_samples is not None:
        raise penchant.Error(
            f"easy_samples and difficult_samples must be at most {every} training samples "
            f"together, found {count} and {own}"
        )
    count = min(count, every - own)
    easy = Samples(shuffled.inputs[:count], shuffled.labels[:count])
    generator = context.generator("random labels", number)
    easy = easy._replace(
        labels=with_random_labels(easy.labels, share, classes=classes, generator=generator)
    )
    if not difficult_count:
        return Mixture(easy, None)

    # difficult ones: others of the same dataset without their labels, or another dataset's
    if options.difficult_data is None:
        rest = Samples(
            shuffled.inputs[count : count + difficult_count],
            shuffled.labels[count : count + difficult_count],
        )
        generator = context.generator("difficult labels", number)
        labels = with_random_labels(rest.labels, 1.0, classes=classes, generator=generator)
        return Mixture(easy, rest._replace(labels=labels))
    return Mixture(easy, _of_another_dataset(options, context, number))


def _of_another_dataset(
    options: TangentTraining, context: penchant.Context, number: int
) -> Samples:
    """Samples of the dataset `difficult_data`; it must have the same inputs and classes."""
    assert options.difficult_data is not None and options.difficult_samples is not None
    other = context.dataset(options.difficult_data)
    data = context.data
    if (other.shape, other.classes) != (data.shape, data.classes):
        raise penchant.Error(
            f"difficult_data must have inputs {data.shape} and {data.classes} classes, found "
            f"{other.shape} and {other.classes}"
        )
    return sampled(other.train, options.difficult_samples, context.generator("difficult", number))
