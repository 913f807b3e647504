"""Which part of what a network returns is its output: a name, a position, one of several numbers.

The choice is a hook of the network, so that names of its parameters stay what they are.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from penchant.errors import Error, suggestion

ONE_OF_MANY = "choose one output of a network of your own, such as unit = 0"


def choose(network: Any, output: str | None, unit: int | None) -> None:
    """Let a network give a part of what it returns.

    Args:
        network: The network; it is changed.
        output: The part: a key of a dict, an attribute such as logits, a position such as "0".
        unit: Of several numbers a sample the only one that is kept.
    """
    if output is None and unit is None:
        return
    network.register_forward_hook(functools.partial(_chosen, output=output, unit=unit))


def _chosen(
    network: Any, inputs: Any, returned: Any, *, output: str | None, unit: int | None
) -> Any:
    found = returned if output is None else _part(returned, output)
    if unit is None:
        return found
    if not hasattr(found, "ndim"):
        raise Error(f"the network returns {told(found)}")
    if found.ndim != 2 or unit >= found.shape[1]:
        size = " x ".join(map(str, found.shape))
        raise Error(f"the network gives {size}, expected samples x outputs with output {unit}")
    # An axis of length 1 stays: the network has one output.
    return found[:, unit : unit + 1]


def _part(returned: object, name: str) -> Any:
    parts = _parts(returned)
    if name not in parts:
        kind = type(returned).__name__
        near = suggestion(name, parts)
        raise Error(f"the network returns a {kind} without a part {name!r}{near}")
    return parts[name]


def _parts(returned: object) -> dict[str, Any]:
    """Parts of what a network returns, by name; a tensor is whole."""
    if hasattr(returned, "ndim"):
        return {}
    if isinstance(returned, Mapping):
        return {str(name): part for name, part in returned.items()}
    found = {}
    if isinstance(returned, (tuple, list)):
        found = {str(number): part for number, part in enumerate(returned)}
    # A named tuple has both: positions and names.
    names = getattr(returned, "_fields", ()) or getattr(returned, "__dict__", ())
    own = {name: getattr(returned, name) for name in names if not name.startswith("_")}
    return found | own


def told(returned: object) -> str:
    """What a network returns in place of a tensor, and how to say which part of it is meant."""
    kind = type(returned).__name__
    parts = _parts(returned)
    if not parts:
        return f"{kind}, expected a tensor"
    listed = ", ".join(parts)
    # The first tensor is what is meant most often.
    first = next((name for name, part in parts.items() if hasattr(part, "ndim")), listed)
    return f"a {kind} with {listed}: say which is its output, such as output = {first!r}"
