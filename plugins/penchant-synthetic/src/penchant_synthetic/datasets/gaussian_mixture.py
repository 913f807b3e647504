"""Classes that differ by their means: x = t e_c + N(0, I)."""

import torch
from penchant_numerics.data import Data, Samples, streams
from torch import Generator

from penchant_synthetic.declarations import GaussianMixture
from penchant_synthetic.shared.extendable_draws import balanced_labels, normal_rows


def load(options: GaussianMixture, generator: Generator) -> Data:
    """Target of the dataset `gaussian-mixture`."""
    for_train, for_test = streams(generator, 2)
    return Data(
        train=_draw(options.train, options, for_train),
        test=_draw(options.test, options, for_test),
        classes=options.classes,
    )


def _draw(count: int, options: GaussianMixture, generator: Generator) -> Samples:
    for_labels, for_noise = streams(generator, 2)
    labels = balanced_labels(count, options.classes, for_labels)
    inputs = normal_rows(count, options.inputs, for_noise)
    # The mean of class c is t along coordinate c.
    rows = torch.arange(count, device="cpu")
    inputs[rows, labels] += options.separation
    return Samples(inputs, labels)
