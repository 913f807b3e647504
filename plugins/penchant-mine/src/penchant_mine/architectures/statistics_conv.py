"""Convolutions over x, conditioned on z: the architecture `statistics-conv`."""

import math

import penchant
from torch import nn

from penchant_mine.declarations.estimators import StatisticsConv
from penchant_mine.shared.information.conditioned_convolutions import ConditionedConvolutions


def build(options: StatisticsConv, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `statistics-conv`."""
    image = tuple(options.image)
    # What is left of a pair after the image is z.
    values, pair = math.prod(image), math.prod(shape)
    if pair <= values:
        raise penchant.Error(
            f"statistics-conv: image is {list(image)}, {values} values, and a pair has {pair}; "
            "expected more, for z"
        )
    return ConditionedConvolutions(
        image,
        pair - values,
        channels=options.channels,
        hidden=options.hidden,
        activation=options.activation,
        outputs=outputs,
    )
