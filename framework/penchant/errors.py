"""What users are told when something is wrong; knows only the standard library."""

from __future__ import annotations

from collections.abc import Iterable


class Error(Exception):
    """A mistake the user can mend: the message says what was found and what was expected.

    `option` names the option of a component that the mistake is about, where it is about one.
    """

    option: str = ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Text to put behind "unknown ...": the nearest names, else all of them.

    >>> suggestion("lenett", ["lenet", "mlp"])
    "; did you mean 'lenet'?"
    """
    import difflib  # here, because most commands go well

    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        quoted = " or ".join(map(repr, close))
        return f"; did you mean {quoted}?"
    if names:
        listed = ", ".join(names)
        return f"; there are {listed}"
    return "; there are none"


def printable(text: str) -> str:
    r"""A text whose control characters cannot move a terminal's cursor or change its colours.

    >>> printable("red: " + chr(27) + "[31m")
    'red: \\x1b[31m'
    """
    # Most texts are harmless, and nothing is slower than looking at each sign.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    kept = []
    for each in text:
        # Lines and columns are meant; an escape sequence never is.
        harmless = each.isprintable() or each in "\n\t"
        kept.append(each if harmless else _escaped(each))
    return "".join(kept)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
