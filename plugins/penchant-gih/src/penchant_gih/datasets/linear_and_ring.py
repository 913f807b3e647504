"""A linear feature on the first direction, a ring in the plane of the next two."""

import torch
from penchant_numerics.data import Data
from torch import Generator, Tensor

from penchant_gih.datasets.on_directions import make_data, orthonormal, ring
from penchant_gih.declarations.datasets import LinearAndRing


def load(options: LinearAndRing, generator: Generator) -> Data:
    """Target of the dataset `linear-and-ring`; in the test set one of the features may lie."""
    directions = orthonormal(options.directions, 3, options.input_shape)

    def features(slope: Tensor, circle: Tensor, stream: Generator) -> Tensor:
        first = linear(slope, options.epsilon)
        rest = ring(circle, options.radii, stream)
        return torch.cat([first, rest], 1)

    # While training, both features tell the class.
    def both(labels: Tensor, stream: Generator) -> Tensor:
        return features(labels, labels, stream)

    def tested(labels: Tensor, stream: Generator) -> Tensor:
        # Other labels are independent of the class.
        other = torch.randint(2, (len(labels),), generator=stream, device="cpu")
        slope = labels if options.tested in ("both", "linear") else other
        circle = labels if options.tested in ("both", "ring") else other
        return features(slope, circle, stream)

    return make_data(options, directions, generator, train=both, test=tested)


def linear(labels: Tensor, epsilon: float) -> Tensor:
    """+-epsilon / 2, (samples, 1)."""
    centred = labels.to(torch.float64) - 0.5
    column = epsilon * centred
    return column[:, None]
