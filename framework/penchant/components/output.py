"""What a network returns in place of a tensor: its parts, and which of them may be meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ONE_OF_MANY = "choose one output of your own network with unit = 0"


def parts(returned: object) -> dict[str, Any]:
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
    return found | {name: getattr(returned, name) for name in names if not name.startswith("_")}


def told(returned: object) -> str:
    """What a network returns in place of a tensor, and how to say which part of it is meant."""
    kind = type(returned).__name__
    found = parts(returned)
    if not found:
        return f"{kind}, expected a tensor"
    listed = ", ".join(found)
    # The first tensor is what is meant most often.
    first = next((name for name, part in found.items() if hasattr(part, "ndim")), listed)
    return f"a {kind} with {listed}: say which is its output, such as output = {first!r}"
