"""What an image must be like; the error for a shape that does not fit says what is expected."""

import penchant
from penchant_numerics.data import written


def image(shape: tuple[int, ...], name: str, *, at_least: int = 1) -> tuple[int, int, int]:
    """Channels, height and width of an image that is large enough for the architecture `name`."""
    if len(shape) != 3:
        raise penchant.Error(
            f"{name} needs images (channels x height x width), found the shape {written(shape)}"
        )
    channels, height, width = shape
    if min(height, width) < at_least:
        raise penchant.Error(
            f"{name} needs images of at least {at_least} x {at_least}, found {written(shape)}"
        )
    return channels, height, width
