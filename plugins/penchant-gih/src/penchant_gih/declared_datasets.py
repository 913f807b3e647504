"""Datasets of the plugin; no code behind them is imported here."""

from __future__ import annotations

import math
from typing import Any

import attrs
import penchant

_DIRECTIONS = "orthogonal rows, one number an input value; nothing: the first coordinates"


@attrs.frozen
class _OnDirections(penchant.Dataset):
    """What both have: directions that carry features, and noise on all others."""

    directions: Any = penchant.option(None, _DIRECTIONS, array=True)
    radii: tuple[float, float] = penchant.option(
        (1.5, 0.25), "radius of class 0 and of class 1", at_least=0
    )
    sigma: float = penchant.option(
        1.0, "standard deviation of the noise on every other direction", at_least=0
    )
    size: tuple[int, ...] = penchant.option(
        (1, 32, 32), "shape of an input, channels first", at_least=1
    )
    train: int = penchant.option(10000, "training samples, both classes together", at_least=2)
    test: int = penchant.option(10000, "test samples, both classes together", at_least=2)

    def __attrs_post_init__(self) -> None:
        if math.prod(self.size) < 3:
            raise penchant.Error(
                f"size must have at least three input values, found {list(self.size)}"
            )
        if self.radii[0] == self.radii[1]:
            raise penchant.Error(f"radii must differ, found {list(self.radii)}")


@attrs.frozen
class TwoCircles(_OnDirections):
    """Two concentric circles, one a class, in the plane of two directions; normal noise on all others.

    Reference: Geometric Inductive Biases of Deep Networks, figure 1.
    """

    name = "two-circles"
    target = "penchant_gih.planes:load_two_circles"


@attrs.frozen
class LinearAndRing(_OnDirections):
    """A linear feature (+-epsilon/2) on the first direction, two circles in the plane of the next two, noise on all others.

    Both features tell the class of a training sample. In the test set one of them may be that of an independent random label, so
    that accuracy is accuracy on the other feature alone.

    Reference: Geometric Inductive Biases of Deep Networks, section 4.3 and figure 5.
    """

    name = "linear-and-ring"
    target = "penchant_gih.planes:load_linear_and_ring"

    epsilon: float = penchant.option(
        1.0, "distance of the classes along the first direction", above=0
    )
    tested: str = penchant.option(
        "both", "features that tell the class of a test sample", choices=("both", "linear", "ring")
    )
