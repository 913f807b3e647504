"""Which kernel a plugin wants, read from its metadata.

Every command pays for discovery. Packaging takes longer to import than all that is done here, and
the standard library reads metadata as e-mail, which takes ten times as long as their headers: what
neither is needed for is read and compared by hand.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from penchant.errors import Error

_PLAIN = re.compile(r"(\w[\w.-]*)((?:\s*(?:>=|<=|==|!=|<|>)\s*\d+(?:\.\d+)*\s*,?)*)")
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*([\d.]+)")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


def normalised(name: str) -> str:
    """The name of a distribution as indexes compare it.

    >>> normalised("Penchant_NAD")
    'penchant-nad'
    """
    hyphened = re.sub(r"[-_.]+", "-", name)
    return hyphened.lower()


def metadata_headers(distribution: Any) -> dict[str, list[str]]:
    """The headers of a distribution's metadata, by lower-case name: each may stand several times.

    Args:
        distribution: As `importlib.metadata` finds it.

    Returns:
        Values in their order; nothing where there are no metadata.
    """
    # What was installed in the old way of setuptools has the second name.
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        # Behind the first empty line stands the description.
        if not line:
            break
        name, _, value = line.partition(":")
        found.setdefault(name.lower(), []).append(value.strip())
    return found


def base_version(version: str) -> str:
    """A version without what comes before or after its release.

    >>> base_version("0.2.0.dev3+local")
    '0.2.0'
    """
    found = re.match(r"\d+(\.\d+)*", version)
    if found is None:
        return "0"
    return found[0]


def unfit(
    line: str,
    name: str,
    version: str,
) -> str:
    """Why a version of a distribution does not meet a requirement; empty if it does.

    Args:
        line: A requirement, as metadata hold it.
        name: The distribution it may be about.
        version: The base version that is there.

    Returns:
        What is wanted, or nothing where that is met or about something else.

    >>> unfit("penchant>=0.1,<0.2", "penchant", "0.3.0")
    '>=0.1,<0.2'
    >>> unfit("penchant>=0.1,<0.2", "penchant", "0.1.5"), unfit("torch>=2", "penchant", "0.1")
    ('', '')
    """
    plain = _PLAIN.fullmatch(line.strip())
    if plain is None:
        return _unfit_by_packaging(line, name, version)
    about, clauses = plain[1], plain[2]
    if normalised(about) != name:
        return ""
    present = _numbers(version)
    for sign, wanted in _CLAUSE.findall(clauses):
        holds = _COMPARED[sign]
        if not holds(present, _numbers(wanted)):
            return clauses.strip()
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    """A release as numbers; trailing zeros say nothing."""
    significant = re.sub(r"(\.0+)+$", "", version)
    parts = significant.split(".")
    numbers = map(int, parts)
    return tuple(numbers)


def _unfit_by_packaging(line: str, name: str, version: str) -> str:
    """The same for requirements with markers, extras or rarer signs."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        raise Error(f"its metadata has a requirement that cannot be read: {line!r}") from None
    if normalised(requirement.name) != name:
        return ""
    # What is required only for an extra, or elsewhere, does not hold here.
    marker = requirement.marker
    if marker is not None and not marker.evaluate({"extra": ""}):
        return ""
    specifier = requirement.specifier
    if specifier.contains(version, prereleases=True):
        return ""
    return str(specifier)
