"""Which entry of what a network returns is its output: a name, a position, one of several numbers.

The choice is a hook of the network, so that names of its parameters stay what they are.
"""

from __future__ import annotations

import functools
from typing import Any

from penchant import Error
from penchant.components.output import described, entries
from penchant.errors import suggestion

Unit = int | tuple[int, ...] | None
_SEQUENCES = 3  # axes of outputs at every position: samples, positions, classes


def choose(network: Any, output: str | None, position: int | None, unit: Unit) -> None:
    """Let a network return one entry of what it returns.

    Args:
        network: The network; it is changed.
        output: The entry: a key of a dict, an attribute such as logits, a position such as "0".
        position: Of outputs (samples, positions, classes) the only position that is used.
        unit: Of several numbers per sample the only one that is used: its position along each axis.
    """
    if output is None and position is None and unit is None:
        return
    hook = functools.partial(_chosen, output=output, position=position, unit=unit)
    network.register_forward_hook(hook)


def _chosen(
    network: Any,
    inputs: Any,
    returned: Any,
    *,
    output: str | None,
    position: int | None,
    unit: Unit,
) -> Any:
    chosen = returned if output is None else _entry(returned, output)
    if (position is not None or unit is not None) and not hasattr(chosen, "ndim"):
        raise Error(f"the network returns {described(chosen)}")
    if position is not None:
        chosen = _at(chosen, position)
    return chosen if unit is None else _unit(chosen, unit)


def _at(outputs: Any, position: int) -> Any:
    """Outputs (samples, classes) at one position of a sequence."""
    if outputs.ndim < _SEQUENCES or not -outputs.shape[1] <= position < outputs.shape[1]:
        size = " x ".join(map(str, outputs.shape))
        expected = f"expected samples x positions x classes with output_position {position}"
        raise Error(f"the network gives {size}, {expected}")
    return outputs[:, position]


def _unit(chosen: Any, unit: int | tuple[int, ...]) -> Any:
    """One of several numbers per sample."""
    position = (unit,) if isinstance(unit, int) else tuple(unit)
    _, *lengths = chosen.shape
    outside = any(number >= length for number, length in zip(position, lengths))
    if len(position) != len(lengths) or outside:
        size = " x ".join(map(str, chosen.shape))
        if isinstance(unit, int) and len(lengths) < 2:
            raise Error(f"the network gives {size}, expected samples x outputs with output {unit}")
        hint = f"unit = {[0] * len(lengths)} is the first of them"
        raise Error(f"the network gives {size}, which has no unit {list(position)}; {hint}")
    # An axis of length 1 stays: the network has one output.
    return chosen[(slice(None), *position)][:, None]


def _entry(returned: object, name: str) -> Any:
    named = entries(returned)
    if name not in named:
        kind = type(returned).__name__
        near = suggestion(name, named)
        raise Error(f"the network returns a {kind} without an entry {name!r}{near}")
    return named[name]
