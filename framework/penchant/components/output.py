"""What a network returns instead of a tensor: its entries, and how to choose one."""

from collections.abc import Mapping
from typing import Any

ONE_OF_MANY = "choose one output of your own network with unit = 0"
ONE_POSITION = (
    "it has outputs at every position: give a label for each, -100 for none, or choose one "
    "position of your own network, such as the last with output_position = -1"
)


def entries(returned: object) -> dict[str, Any]:
    """Entries of what a network returns, by name; a tensor has none."""
    if hasattr(returned, "ndim"):
        return {}
    if isinstance(returned, Mapping):
        return {str(name): entry for name, entry in returned.items()}
    named = {}
    if isinstance(returned, (tuple, list)):
        named = {str(number): entry for number, entry in enumerate(returned)}
    # A named tuple has both: positions and names.
    names = getattr(returned, "_fields", ()) or getattr(returned, "__dict__", ())
    return named | {name: getattr(returned, name) for name in names if not name.startswith("_")}


def described(returned: object) -> str:
    """What a network returns instead of a tensor, and how to choose an entry."""
    kind = type(returned).__name__
    named = entries(returned)
    if not named:
        return f"{kind}, expected a tensor"
    listed = ", ".join(named)
    # Suggest the first tensor.
    first = next((name for name, entry in named.items() if hasattr(entry, "ndim")), listed)
    return f"a {kind} with {listed}: say which is its output, such as output = {first!r}"
