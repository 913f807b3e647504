"""The rows of a card: a family of probes, what they say, and where their numbers lie."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from penchant.components.component import Probe
from penchant.results.differences import z_text
from penchant.results.quantities import Quantity
from penchant.results.runs import Run
from penchant_numerics.statistics import rounded, short_error, significance
from penchant_report.answers import Group, answers, entries_of
from penchant_report.figures import headline_of
from penchant_report.pooling import Pooled
from penchant_report.wording import value_text

from penchant_card import atlas

DIGITS = 4  # of a number whose error is negligible
NEGLIGIBLE = 5e-4  # an error as a share of its number
FEWEST_FRESH = 2  # networks that have a spread


@attrs.frozen
class Fresh:
    """A number of the same measurement on fresh networks.

    Attributes:
        values: One for each network.
        p: Two-sided p-value of the network against another fresh one; None where unknown.
    """

    values: tuple[float, ...]
    p: float | None

    @property
    def text(self) -> str:
        """Mean and standard deviation over networks."""
        mean, spread = statistics.fmean(self.values), statistics.stdev(self.values)
        number = f"{rounded(mean, spread)} ± {short_error(spread, mean)}".replace("-", "−")
        return f"fresh {number}"


@attrs.frozen
class Number:
    """A quantity on a card.

    Attributes:
        probe: Its probe.
        name: Its name.
        meaning: What it is, in one line.
        pooled: The number, pooled over seeds.
        fresh: The same of fresh networks; None where there are none.
        rank: Of how many networks of the atlas it is larger, and how many there are.
        notable: Does it differ significantly from its null, among all numbers of the card?
        unusual: Does it differ significantly from fresh networks?
    """

    probe: str
    name: str
    meaning: str
    pooled: Pooled
    fresh: Fresh | None = None
    rank: tuple[int, int] | None = None
    notable: bool = False
    unusual: bool = False

    @property
    def quantity(self) -> Quantity:
        """Value, error and null."""
        return self.pooled.quantity

    @property
    def value(self) -> str:
        """The value with its error."""
        return short(self.quantity)

    @property
    def null(self) -> str:
        """The null and the difference from it; empty where there is none."""
        if self.quantity.missing or self.quantity.null is None:
            return ""
        z = z_text(self.pooled.against_null)
        text = f"null {self.quantity.null_text}".replace("-", "−")
        return f"{text}, {z}" if z else text

    @property
    def among(self) -> str:
        """Where it lies in the atlas."""
        if self.rank is None:
            return ""
        below, count = self.rank
        return f"above {below} of {count} in the atlas"


def short(quantity: Quantity) -> str:
    """A value with its error, and no more digits than a reader needs.

    >>> short(Quantity(28.044827, stderr=0.000028)), short(Quantity(0.492536, exact=True))
    ('28.04', '0.4925')
    >>> short(Quantity(25.31, stderr=0.54))
    '25.31 ± 0.54'
    """
    number = quantity.value
    if quantity.missing or (quantity.stderr and quantity.stderr > abs(number) * NEGLIGIBLE):
        return value_text(quantity)
    return f"{number:.{DIGITS}g} {quantity.unit}".rstrip().replace("-", "−")


@attrs.frozen
class Row:
    """A family of probes.

    Attributes:
        family: Its title.
        sentence: What its first probe says.
        job: The job whose picture stands beside it.
        numbers: One to three quantities for each of its probes.
    """

    family: str
    sentence: str
    job: str
    numbers: tuple[Number, ...]


def rows(
    run: Run, fresh: Run | None, cards: Mapping[str, type[Probe]], *, trained: bool
) -> tuple[list[Row], dict[str, str]]:
    """The rows of a card, from what is done.

    Args:
        run: The card's run.
        fresh: The same measurements of fresh networks.
        cards: The probes of the card, in their order.
        trained: Is it one given network?

    Returns:
        The rows, and by probe why its numbers cannot be compared with the atlas.
    """
    groups = {
        answer.probe: answer.groups[0] for answer in answers(entries_of(run)) if answer.groups
    }
    beside = _values(fresh)
    not_comparable: dict[str, str] = {}
    families: dict[str, list[tuple[str, Group]]] = {}
    for name, cls in cards.items():
        if name in groups:
            assert cls.card is not None
            families.setdefault(cls.card.family or name, []).append((name, groups[name]))
    found = []
    for family, members in families.items():
        first, group = members[0]
        numbers: list[Number] = []
        for name, each in members:
            reason = atlas.difference(run.result(each.entries[0].id, arrays=False), trained=trained)
            if reason and name in atlas.atlas():
                not_comparable[name] = reason
            numbers += _numbers(cards[name], each, beside.get(name, {}), ranked=not reason)
        if numbers:
            sentence = _sentence(run, group, numbers)
            found.append(Row(family, sentence, group.entries[0].id, tuple(numbers)))
    return _decided(found), not_comparable


def _values(fresh: Run | None) -> dict[str, dict[str, list[float]]]:
    """Values of fresh networks by probe and quantity."""
    values: dict[str, dict[str, list[float]]] = {}
    for entry in entries_of(fresh) if fresh is not None else ():
        for name, quantity in entry.quantities.items() if entry.status == "done" else ():
            if not quantity.missing:
                values.setdefault(entry.probe, {}).setdefault(name, []).append(quantity.value)
    return values


def _numbers(
    cls: type[Probe], group: Group, beside: Mapping[str, list[float]], *, ranked: bool
) -> list[Number]:
    assert cls.card is not None
    numbers = []
    for name in cls.card.quantities:
        pooled = group.quantities.get(name)
        if pooled is None or pooled.quantity.missing:
            continue
        rank = atlas.rank(cls.name, name, pooled.quantity.value) if ranked else None
        meaning = group.entries[0].meanings.get(name, "")
        near = _fresh(pooled.quantity, beside.get(name, []))
        numbers.append(Number(cls.name, name, meaning, pooled, near, rank))
    return numbers


def _fresh(quantity: Quantity, values: Sequence[float]) -> Fresh | None:
    """The network against fresh ones: its error, and their spread for one more network."""
    if len(values) < FEWEST_FRESH:
        return None
    count = len(values)
    spread = statistics.stdev(values) * math.sqrt(1 + 1 / count)
    terms: list[significance.ErrorTerm] = [(spread, count - 1)]
    if quantity.stderr:
        terms.append((quantity.stderr, quantity.df))
    apart = quantity.value - statistics.fmean(values)
    return Fresh(tuple(values), significance.sum_p_value(apart, terms) if spread else None)


def _sentence(run: Run, group: Group, numbers: Sequence[Number]) -> str:
    """The headline of a probe about its numbers, pooled over seeds."""
    result = run.result(group.entries[0].id)
    quantities = {name: pooled.quantity for name, pooled in group.quantities.items()}
    try:
        text = headline_of(attrs.evolve(result, quantities=quantities), run.plugins)
    except Exception:  # a sentence that fails is no reason to lose a card
        text = ""
    first = numbers[0]
    # Of the meaning, what it is: not what its null is.
    what = first.meaning.partition(";")[0] or first.name
    return text or f"{what[:1].upper()}{what[1:]}: {first.value}."


def _decided(found: Sequence[Row]) -> list[Row]:
    """Which numbers differ from their nulls and from fresh networks, over the whole card."""
    numbers: list[Number] = [number for row in found for number in row.numbers]
    nulls = significance.significant([_null_p(number) for number in numbers])
    near = significance.significant([each.fresh.p if each.fresh else None for each in numbers])
    decided = iter(
        attrs.evolve(number, notable=notable, unusual=unusual)
        for number, notable, unusual in zip(numbers, nulls, near)
    )
    return [attrs.evolve(row, numbers=tuple(next(decided) for _ in row.numbers)) for row in found]


def _null_p(number: Number) -> float | None:
    away: Any = number.pooled.against_null
    return None if away is None else away.p
