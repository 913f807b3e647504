"""What users are told when something is wrong; knows only the standard library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Error(Exception):
    """A mistake the user can mend: the message says what was found and what was expected."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Text to put behind "unknown ...": the nearest names, else all of them.

    >>> suggestion("lenett", ["lenet", "mlp"])
    "; did you mean 'lenet'?"
    """
    known = sorted(set(known))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "; did you mean " + " or ".join(repr(each) for each in close) + "?"
    return "; there are " + ", ".join(known) if known else "; there are none"
