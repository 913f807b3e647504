"""Whether a claim holds: declared tests on numbers with errors, and the verdict they make.

A number is named `quantity`, `array[place]`, `job/quantity` where a run has several jobs, and
`run:job/quantity` where it is another run's than the entry's own.
"""

from __future__ import annotations

import signal
from typing import Any

import attrs
from penchant import Quantity
from penchant.results.evidence import Difference, Pooled, against_null
from penchant.results.lines import z_text
from penchant.results.quantities import rounded
from penchant_numerics import significance
from penchant_report.pooling import difference

# What an error is the spread of: repetitions, whose number gives its degrees of freedom.
REPETITIONS = ("trainings", "seeds", "networks", "draws")
OUT_OF_TIME = -signal.SIGXCPU
REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not"
NEEDS_A_GPU, NOT_MEASURED = "needs a GPU", "not measured"
VERDICTS = (REPRODUCED, PARTLY, NOT, NEEDS_A_GPU, NOT_MEASURED)
COMPARISONS = ("above", "below", "near")


@attrs.frozen
class Outcome:
    """A test with what came out.

    Attributes:
        text: The test in words, with its numbers.
        holds: Does it?
        distance: How far the number is from what it is compared with.
    """

    text: str
    holds: bool
    distance: str


def number(measured: dict[str, Any], name: str, run: str) -> Quantity:
    """The number of this name; `run` is the entry's own."""
    other, _, rest = name.rpartition(":")
    job, _, quantity = rest.rpartition("/")
    jobs = measured[other or run]["jobs"]
    found = [each for each in jobs if not job or each["name"] == job]
    if len(found) != 1:
        names = ", ".join(each["name"] for each in jobs)
        raise SystemExit(f"{name!r} names {len(found)} jobs of {other or run}, which has {names}")
    numbers = {**found[0]["quantities"], **found[0]["places"]}
    if quantity not in numbers:
        raise SystemExit(f"{name!r}: {other or run} has {', '.join(numbers)}")
    return _with_df(Quantity(**numbers[quantity]))


def _with_df(value: Quantity) -> Quantity:
    """Degrees of freedom of an error over repetitions, which older runs did not store."""
    if value.df is not None or value.count is None or value.over not in REPETITIONS:
        return value
    return attrs.evolve(value, df=max(value.count - 1, 1))


def outcome(test: dict[str, Any], measured: dict[str, Any], run: str) -> Outcome:
    """Does a number lie above, below or near another one, or its null?

    Without `by`, above and below are significant differences. With `by` the difference is compared
    with that number, or with so many percent of the reference: for what has no error, and where
    the paper says how large a difference is. Near always names `by`, the difference that would
    have been seen: the distance is significantly smaller.
    """
    kind = test["is"]
    if kind not in COMPARISONS:
        raise SystemExit(f"a test is one of {', '.join(COMPARISONS)}, found {kind!r}")
    value = number(measured, test["that"], run)
    apart, reference = _apart(value, test["than"], measured, run)
    limit = test.get("by")
    shown = f"{test['that']} = {_alone(value)} is {kind} {reference}"
    if limit is not None:
        shown += f", by {limit} at least" if kind != "near" else f", within {limit}"
        margin = _margin(limit, value.value - apart.value)
        holds = _is_near(apart, margin) if kind == "near" else _is_beyond(kind, apart, margin)
        return Outcome(shown, holds, _distance(apart))
    if kind == "near":
        raise SystemExit(f"{test['that']!r} is tested to be near {reference}: it needs `by`")
    if apart.p is None:
        raise SystemExit(f"{test['that']!r} has no error: its test needs `by`")
    (significant,) = significance.significant([apart.p])
    return Outcome(shown, significant and _is_beyond(kind, apart, 0.0), _distance(apart))


def _margin(limit: str | float, reference: float) -> float:
    """A distance, or so many percent of the reference."""
    if isinstance(limit, str):
        return float(limit.removesuffix("%")) / 100 * abs(reference)
    return float(limit)


def _is_beyond(kind: str, apart: Difference, margin: float) -> bool:
    return apart.value > margin if kind == "above" else apart.value < -margin


def _is_near(apart: Difference, margin: float) -> bool:
    """Is the distance smaller than the margin, significantly so where it has an error?"""
    room = margin - abs(apart.value)
    p = significance.p_value(room, apart.error, apart.df)
    return room >= 0 and (p is None or any(significance.significant([p])))


def _apart(
    value: Quantity, than: str | float, measured: dict[str, Any], run: str
) -> tuple[Difference, str]:
    """How far a number is from its reference, and the reference in words."""
    if than == "null":
        apart = against_null(Pooled(value))
        if apart is None:
            raise SystemExit("a number without a null is tested against it")
        return apart, f"its null {value.null_text}"
    if isinstance(than, str):
        other = number(measured, than, run)
        return difference(Pooled(other), Pooled(value)), f"{than} = {_alone(other)}"
    # Numbers of a theory and of a paper are taken as exact.
    theory = Quantity(than, exact=True)
    return difference(Pooled(theory), Pooled(value)), rounded(than)


def _alone(value: Quantity) -> str:
    return str(attrs.evolve(value, null=None, null_spread=None, null_stderr=None, p=None))


def _distance(apart: Difference) -> str:
    return z_text(apart) or f"{apart.value:+.3g}"


def runs_of(entry: dict[str, Any]) -> list[str]:
    """The entry's own run, and those that its numbers and pictures name."""
    names = [*entry.get("show", []), *entry.get("pictures", [])]
    for test in entry.get("tests", []):
        names += [each for each in (test["that"], test["than"]) if isinstance(each, str)]
    others = {name.rpartition(":")[0] for name in names} - {""}
    return list(dict.fromkeys([entry["run"], *sorted(others)]))


def verdict(entry: dict[str, Any], measured: dict[str, Any]) -> tuple[str, list[Outcome]]:
    """What the tests of an entry make: all, some or none of them hold.

    A run whose time was over needs a GPU. Without a command, and where a run ended otherwise, it is
    not measured. Where other data or another network stands in for the paper's, and where the
    picture is judged by eye, the entry says so itself.
    """
    run = entry.get("run")
    if run is None or any(name not in measured for name in runs_of(entry)):
        return NOT_MEASURED, []
    exits = [measured[name]["exit"] for name in runs_of(entry)]
    if any(each not in (0, OUT_OF_TIME) for each in exits):
        return NOT_MEASURED, []
    if any(exits):
        return NEEDS_A_GPU, []
    outcomes = [outcome(test, measured, run) for test in entry.get("tests", [])]
    if not outcomes:
        return entry["judged"], []
    held = sum(each.holds for each in outcomes)
    if held == 0:
        return NOT, outcomes
    whole = held == len(outcomes) and not entry.get("stand_in")
    return (REPRODUCED if whole else PARTLY), outcomes
