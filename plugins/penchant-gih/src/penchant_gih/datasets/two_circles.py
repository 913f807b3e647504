"""Two concentric circles, one a class, in the plane of two directions."""

from penchant_numerics.data import Data
from torch import Generator, Tensor

from penchant_gih.datasets.on_directions import make_data, orthonormal, ring
from penchant_gih.declarations.datasets import TwoCircles


def load(options: TwoCircles, generator: Generator) -> Data:
    """Target of the dataset `two-circles`."""
    directions = orthonormal(options.directions, 2, options.input_shape)

    def circles(labels: Tensor, stream: Generator) -> Tensor:
        return ring(labels, options.radii, stream)

    return make_data(options, directions, generator, train=circles, test=circles)
