"""Statistics networks T(x, z): architectures over the flattened pair, so that any installed architecture may be one."""

from __future__ import annotations

import math
from typing import Any

import penchant
from penchant.execution.networks import BoundArchitecture
from penchant.experiments.typed_text import parse_component
from penchant.plugins.discovery import load
from torch import nn

from penchant_mine._conditioned_convolutions import ACTIVATIONS, ConditionedConvolutions


def bind(text: str, shape: tuple[int, ...], *, seed: int) -> BoundArchitecture:
    """The architecture that `name` or `name:option=value,...` says, over flattened pairs, with one output."""
    wanted = parse_component(text)
    name = wanted.pop("name")
    offer = load().find("architecture", name, "network")
    return BoundArchitecture(offer.component.bind(wanted, f"network {name}"), name, shape, 1, seed)


def build_perceptron(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `statistics-perceptron`."""
    layers: list[nn.Module] = [nn.Flatten()]
    size = math.prod(shape)
    for width in options.widths:
        layers += [nn.Linear(size, width), ACTIVATIONS[options.activation]()]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, outputs))


def build_convolutional(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `statistics-conv`."""
    image, condition = tuple(options.image), math.prod(shape) - math.prod(options.image)
    if condition < 1:
        raise penchant.Error(
            f"statistics-conv: image is {list(image)}, {math.prod(image)} values, and a pair has {math.prod(shape)}; expected more, for z"
        )
    return ConditionedConvolutions(
        image,
        condition,
        channels=options.channels,
        hidden=options.hidden,
        activation=options.activation,
        outputs=outputs,
    )
