"""Weights that a user gives: one file, or the checkpoints of one training in their order.

`penchant-import` knows the formats: it finds the files and reads them.
"""

from collections.abc import Mapping
from typing import Any

import attrs
from penchant.errors import Error
from penchant.extras import extra


@attrs.frozen
class Weights:
    """Files of weights."""

    given: str | tuple[str, ...]  # what the user wrote: a path, a pattern, a folder, or several
    files: tuple[str, ...]  # of every state, in the order of the steps
    steps: tuple[int, ...] | None = None  # None where it is one network, not a trajectory
    strict: bool = True  # refuse weights in a file that the network does not have
    content: tuple[str, ...] = ()  # every file that is read: also those that an index names


def weights_of(entry: Mapping[str, Any], where: str) -> Weights | None:
    """The files of weights that the table of an architecture names; None where it has none."""
    strict = entry.get("strict", True)
    if not isinstance(strict, bool):
        raise Error(f"strict must be true or false, found {strict!r} ({where}.strict)")
    if entry.get("weights") is not None:
        find_weights = extra("find weights")
        weights: Weights = find_weights(entry["weights"], f"{where}.weights", strict=strict)
        return weights
    if "strict" in entry:
        raise Error(f"strict belongs to weights, found none ({where}.strict)")
    return None
