"""One sentence from several that differ in their numbers only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from penchant_numerics.statistics import LEVEL

_NUMBER = r"[-−]?\d+(?:\.\d+)?(?:e-?\d+)?"
_P = rf"p [=<] {_NUMBER}"
# A p-value, or a number with its standard error; digits inside of names are part of the name.
_SLOT = re.compile(rf"(?<![\w.^-])(?:{_P}|{_NUMBER}(?: ± {_NUMBER})?)(?!\w)")


def by_pattern(texts: Mapping[str, str]) -> Iterable[list[str]]:
    """Names whose sentences differ in their numbers only, together and in order."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(_SLOT.sub("#", text), []).append(name)
    return names.values()


def merged(texts: Sequence[str]) -> str:
    """One sentence from sentences that differ in their numbers only.

    >>> merged(["Aligned: 0.31 ± 0.02, p < 1e-6.", "Aligned: 0.52 ± 0.03, p = 0.002."])
    'Aligned: 0.31 to 0.52, p ≤ 0.002.'
    >>> merged(["3 of 9 layers", "3 of 9 layers"])
    '3 of 9 layers'
    """
    slots = zip(*(_SLOT.findall(text) for text in texts))
    ranges = iter([_range(slot) for slot in slots])
    return _SLOT.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    if len(set(numbers)) == 1:
        return numbers[0]
    by_size = sorted(numbers, key=_size)
    if numbers[0].startswith("p "):
        # Where nothing is significant, the smallest counts as much as the largest.
        if _size(by_size[0]) > LEVEL:
            return f"{by_size[0]} to {by_size[-1][4:]}"
        return f"p ≤ {by_size[-1][4:]}"
    low, high = (number.partition(" ±")[0] for number in (by_size[0], by_size[-1]))
    return low if low == high else f"{low} to {high}"


def _size(number: str) -> float:
    return float(number.removeprefix("p = ").removeprefix("p < ").split(" ")[0].replace("−", "-"))
