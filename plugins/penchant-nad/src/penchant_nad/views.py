"""The same run seen with other networks: of one channel, or further on in the sequence of networks.

An estimator measures `context.architecture`. NADs of images are defined for one channel and one output, whatever the dataset has; and two
estimates are independent only if their networks are.
"""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import penchant


@attrs.frozen
class Later:
    """An architecture whose network i is number `first` + i of another."""

    architecture: Any
    first: int

    def seed_of(self, index: int) -> int:
        return self.architecture.seed_of(self.first + index)

    def __call__(self, index: int = 0) -> Any:
        return self.architecture(self.first + index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.architecture, name)


def view(context: Any, *, plane: bool = False, first: int = 0) -> Any:
    """The context with networks of one channel and one output (`plane`), or with networks from number `first` on."""
    other = copy.copy(context)
    architecture = context.architecture
    if plane:
        _, height, width = image_shape(context)
        architecture = attrs.evolve(architecture, shape=(1, height, width), outputs=1)
    other.architecture = Later(architecture, first) if first else architecture
    other.map = functools.partial(_map, context, {"plane": plane, "first": first})
    return other


def image_shape(context: Any) -> tuple[int, int, int]:
    """Channels, height and width of the inputs; anything else is refused."""
    shape = context.architecture.shape
    if len(shape) != 3:
        raise penchant.Error(
            f"this probe needs images (channels x height x width), found inputs of shape {list(shape)}"
        )
    return shape


def _map(
    context: Any, seen: dict[str, Any], function: Callable[..., Any], items: Sequence[Any]
) -> Iterator[dict[str, Any]]:
    target = f"{function.__module__}:{function.__qualname__}"
    return context.map(in_view, [{"target": target, "view": seen, "item": item} for item in items])


def in_view(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """A shard of an estimator, with the context it was given."""
    module, _, name = item["target"].partition(":")
    function = getattr(importlib.import_module(module), name)
    return function(view(context, **item["view"]), item["item"])
