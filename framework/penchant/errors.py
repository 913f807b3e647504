"""Errors of users, with the nearest names; imports only the standard library."""

from collections.abc import Iterable


class Error(Exception):
    """A mistake that the user can correct: the message has the value and what is allowed.

    `option` names the option of a component that the mistake is about, where it is about one.
    """

    option: str = ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Text to put behind "unknown ...": the nearest names, else all of them.

    >>> suggestion("lenett", ["lenet", "mlp"])
    "; did you mean 'lenet'?"
    """
    names = sorted(set(known))
    return did_you_mean(name, names) or f"; there are {', '.join(names) or 'none'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names, as a question; empty where none is near."""
    import difflib  # here, because most commands go well

    close = difflib.get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
