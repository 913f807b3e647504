"""Shapes of inputs, as people write them."""

from collections.abc import Sequence


def written(shape: Sequence[int]) -> str:
    """A shape as it stands in a message.

    >>> written((1, 32, 32))
    '1 x 32 x 32'
    """
    sides = [str(side) for side in shape]
    return " x ".join(sides)
