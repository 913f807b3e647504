"""Datasets of the plugin."""

import math
from typing import Any

import attrs
import penchant

DIRECTIONS = "orthogonal rows, one number per input value; None: the first coordinates"
NOISE = "standard deviation of the noise on every other direction"
RADII = "radius of class 0 and of class 1"


@attrs.frozen
class OnDirections(penchant.Dataset):
    """Shared options: directions that carry features, and noise on all others."""

    directions: Any = penchant.option(None, DIRECTIONS, array=True)
    radii: tuple[float, float] = penchant.option((1.5, 0.25), RADII, at_least=0)
    noise_std: float = penchant.option(1.0, NOISE, at_least=0)
    input_shape: tuple[int, ...] = penchant.option(
        (1, 32, 32), "shape of an input, channels first", at_least=1
    )
    train: int = penchant.option(10000, "training samples, both classes together", at_least=2)
    test: int = penchant.option(10000, "test samples, both classes together", at_least=2)

    def __attrs_post_init__(self) -> None:
        # A linear feature and a ring need three directions.
        size = math.prod(self.input_shape)
        if size < 3:
            shape = list(self.input_shape)
            raise penchant.Error(
                f"input_shape must have at least three input values, found {shape}"
            )
        if self.radii[0] == self.radii[1]:
            raise penchant.Error(f"radii must differ, found {list(self.radii)}")


class TwoCircles(OnDirections):
    """Two concentric circles, one per class, in the plane of two directions; noise on all others.

    Reference: Geometric Inductive Biases of Deep Networks, figure 1.
    """

    name = "two-circles"
    target = "penchant_gih.datasets.two_circles:load"


@attrs.frozen
class LinearAndRing(OnDirections):
    """A linear feature (+-epsilon/2) on one direction, two circles on two others; noise elsewhere.

    The linear feature is on the first direction; the circles are in the plane of the next two. Both
    features predict the class of a training sample. In the test set, one of them can follow an
    independent random label; the accuracy is then that of the other feature alone.

    Reference: Geometric Inductive Biases of Deep Networks, section 4.3 and figure 5.
    """

    name = "linear-and-ring"
    target = "penchant_gih.datasets.linear_and_ring:load"

    epsilon: float = penchant.option(
        1.0, "distance of the classes along the first direction", above=0
    )
    tested: str = penchant.option(
        "both",
        "features that predict the class of a test sample",
        choices=("both", "linear", "ring"),
    )
