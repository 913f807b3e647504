"""Which part of what a network returns is its output: a name, a position, one of several numbers.

The choice is a hook of the network, so that names of its parameters stay what they are.
"""

from __future__ import annotations

import functools
from typing import Any

from penchant import Error
from penchant.components.output import parts, told
from penchant.errors import suggestion


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
    found = parts(returned)
    if name not in found:
        kind = type(returned).__name__
        near = suggestion(name, found)
        raise Error(f"the network returns a {kind} without a part {name!r}{near}")
    return found[name]
