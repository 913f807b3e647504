"""Whether a claim holds: declared tests on numbers with errors, controls, and the verdict.

A number is named `quantity`, `array[index]`, `job/quantity` where a run has several jobs, and
`run:job/quantity` where it is another run's than the entry's own.

A control is a run in which the claim must not hold, or other numbers of the same run: `replace`
maps the beginnings of names (an MLP in LeNet's place). The tests of an entry are computed with the
control's numbers, and each must be refused. `refutes` lists the numbers of the tests, from 1, that
a control is about; without it those with a replaced number, and all where nothing is replaced.
`premise = true` marks a test that says that the experiment worked, which a control may pass.

A control is another program, which could say yes. One that compares the numbers of a test with
their sides exchanged, a number with itself, or the numbers of the test once more could not, and
ends the making of pages. Nor does it suffice that a control is not significant where the run is:
the difference of the run from the control must be significant, too.
"""

from __future__ import annotations

import signal
from typing import Any

import attrs
from penchant import Quantity
from penchant.results.differences import Difference, z_text
from penchant_numerics.statistics import rounded, significance
from penchant_report.pooling import Pooled, difference, paired_difference, pooled

# What an error is the spread of: repetitions, whose number gives its degrees of freedom.
REPETITIONS = ("trainings", "seeds", "networks", "draws")
OUT_OF_TIME = -signal.SIGXCPU
REPRODUCED, PARTLY, NOT, CONTRADICTED = "reproduced", "partly", "not", "contradicted"
NOT_FEASIBLE, NOT_MEASURED = "not feasible here", "not measured"
VERDICTS = (REPRODUCED, PARTLY, NOT, CONTRADICTED, NOT_FEASIBLE, NOT_MEASURED)
COMPARISONS = ("above", "below", "near", "not above")


@attrs.frozen
class Outcome:
    """A test with what came out.

    Attributes:
        text: The test in words, with its numbers.
        holds: Does it?
        distance: How far the number is from what it is compared with.
        opposed: Is the opposite significant?
    """

    text: str
    holds: bool
    distance: str
    opposed: bool = False


@attrs.frozen
class ControlOutcome:
    """What came out of the tests of an entry with the numbers of a control.

    Attributes:
        about: What the control is.
        outcomes: One for each test; None where a control has no such number.
        covered: Which tests (from 0) the control is about.
        excesses: By how much the run is further in the direction of each test; None where one of
            them has no such number.
    """

    about: str
    outcomes: tuple[Outcome | None, ...]
    covered: frozenset[int]
    excesses: tuple[Difference | None, ...]

    def refuses(self, index: int) -> bool:
        """Does the test not hold here?"""
        outcome = self.outcomes[index]
        return outcome is not None and not outcome.holds

    def differs(self, index: int) -> bool:
        """Is the run significantly further in the direction of the test than the control?"""
        excess = self.excesses[index]
        if excess is None or excess.value <= 0:
            return False
        return excess.exact or significance.is_significant(excess.p)


class MissingNumberError(Exception):
    """A run that has no such number."""


def number(measured: dict[str, Any], name: str, run: str) -> Quantity:
    """The number of this name, pooled over seeds; `run` is the entry's own."""
    return pooled([*by_seed(measured, name, run).values()]).quantity


def by_seed(measured: dict[str, Any], name: str, run: str) -> dict[int, Quantity]:
    """The number of this name for each seed of its run."""
    other, _, rest = name.rpartition(":")
    job, _, quantity = rest.rpartition("/")
    jobs = measured[other or run]["jobs"]
    matching = [each for each in jobs if not job or each["name"] == job]
    if len({each["name"] for each in matching}) != 1:
        names = ", ".join(each["name"] for each in jobs)
        raise SystemExit(
            f"{name!r} names {len(matching)} jobs of {other or run}, which has {names}"
        )
    found = {}
    for each in matching:
        numbers = {**each["quantities"], **each["places"]}
        if quantity not in numbers:
            raise MissingNumberError(f"{name!r}: {other or run} has {', '.join(numbers)}")
        found[each.get("seed", 0)] = _with_df(Quantity(**numbers[quantity]))
    return found


def _with_df(value: Quantity) -> Quantity:
    """Degrees of freedom of an error over repetitions, which older runs did not store."""
    if value.df is not None or value.count is None or value.over not in REPETITIONS:
        return value
    return attrs.evolve(value, df=max(value.count - 1, 1))


def outcome(test: dict[str, Any], measured: dict[str, Any], run: str) -> Outcome:
    """Does a number lie above, below or near another one, or its null?

    Without `by`, above and below are significant differences. With `by` the difference is larger
    than that number, or than so many percent of the reference, and significantly so where it has an
    error and the test is no premise. Near always names `by`, the difference that would have been
    seen: the distance is significantly smaller. Not above is for bounds: a significant excess
    refutes it. The opposite of above is significantly below, that of near a distance that is
    significantly larger than `by`.
    """
    kind = test["is"]
    if kind not in COMPARISONS:
        raise SystemExit(f"a test is one of {', '.join(COMPARISONS)}, found {kind!r}")
    value = number(measured, test["that"], run)
    apart, reference = _apart(test, measured, run)
    limit = test.get("by")
    shown = f"{test['that']} = {_alone(value)} is {kind} {reference}"
    if kind == "near":
        if limit is None:
            raise SystemExit(f"{test['that']!r} is tested to be near {reference}: it needs `by`")
        room = _margin(limit, value.value - apart.value) - abs(apart.value)
        sure = significance.is_significant(significance.p_value(room, apart.error, apart.df))
        # What has no error is near or not, but never significantly far.
        holds = room >= 0 and (apart.error is None or sure)
        shown += f", within {limit}"
        return Outcome(shown, holds, _distance(apart), opposed=room < 0 and sure)
    sure = significance.is_significant(apart.p)
    if kind == "not above":
        exceeded = sure and _is_beyond("above", apart, 0.0)
        return Outcome(shown, not exceeded, _distance(apart), opposed=exceeded)
    opposed = sure and _is_beyond({"above": "below", "below": "above"}[kind], apart, 0.0)
    if limit is not None:
        margin = _margin(limit, value.value - apart.value)
        holds = _is_beyond(kind, apart, margin)
        if apart.error and not test.get("premise"):
            beyond = significance.p_value(abs(apart.value) - margin, apart.error, apart.df)
            holds = holds and significance.is_significant(beyond)
        shown += f", by {limit} at least"
        return Outcome(shown, holds, _distance(apart), opposed)
    # Numbers that are all equal have an error of 0, and decide nothing.
    if apart.p is None and apart.error is None:
        raise SystemExit(f"{test['that']!r} has no error: its test needs `by`")
    return Outcome(shown, sure and _is_beyond(kind, apart, 0.0), _distance(apart), opposed)


def _outcome_or_missing(test: dict[str, Any], measured: dict[str, Any], run: str) -> Outcome:
    """A test of a number that the run does not have does not hold."""
    try:
        return outcome(test, measured, run)
    except MissingNumberError:
        return Outcome(f"{test['that']} is {test['is']} {test['than']}", False, "missing")


def _margin(limit: str | float, reference: float) -> float:
    """A distance, or so many percent of the reference."""
    if isinstance(limit, str):
        return float(limit.removesuffix("%")) / 100 * abs(reference)
    return float(limit)


def _is_beyond(kind: str, apart: Difference, margin: float) -> bool:
    return apart.value > margin if kind == "above" else apart.value < -margin


def _apart(test: dict[str, Any], measured: dict[str, Any], run: str) -> tuple[Difference, str]:
    """How far a number is from its reference, and the reference in words.

    Two numbers of the same seeds are compared seed by seed.
    """
    than = test["than"]
    seeds = by_seed(measured, test["that"], run)
    value = pooled([*seeds.values()])
    if than == "null":
        apart = value.against_null
        if apart is None:
            raise SystemExit("a number without a null is tested against it")
        return apart, f"its null {value.quantity.null_text}"
    if isinstance(than, str):
        others = by_seed(measured, than, run)
        other = pooled([*others.values()])
        reference = f"{than} = {_alone(other.quantity)}"
        if len(seeds) > 1 and seeds.keys() == others.keys():
            pairs = [[each[seed] for seed in seeds] for each in (others, seeds)]
            return paired_difference(*pairs), reference
        return difference(other, value), reference
    # Numbers of a theory and of a paper are taken as exact.
    return difference(Pooled(Quantity(than, exact=True)), value), rounded(than)


def _alone(value: Quantity) -> str:
    return str(attrs.evolve(value, null=None, null_spread=None, null_stderr=None, p=None))


def _distance(apart: Difference) -> str:
    return z_text(apart) or f"{apart.value:+.3g}"


def control_tests(entry: dict[str, Any], control: dict[str, Any]) -> list[dict[str, Any]]:
    """The tests of an entry with the control's names of numbers."""
    replaced = control.get("replace", {})
    return [
        {**test, "that": renamed(test["that"], replaced), "than": renamed(test["than"], replaced)}
        for test in entry["tests"]
    ]


def renamed(name: Any, replaced: dict[str, str]) -> Any:
    """A name whose beginning is replaced, by the longest one that fits.

    >>> renamed("lenet/drop", {"lenet/": "mlp/", "mlp/": "lenet/"})
    'mlp/drop'
    """
    if not isinstance(name, str):
        return name
    for old in sorted(replaced, key=len, reverse=True):
        if name.startswith(old):
            return replaced[old] + name.removeprefix(old)
    return name


def control_outcome(
    entry: dict[str, Any], control: dict[str, Any], measured: dict[str, Any]
) -> ControlOutcome:
    """Compute an entry's tests with the numbers of one of its controls."""
    run = control.get("run", entry["run"])
    tests = control_tests(entry, control)
    covered = _covered(entry, control, tests)
    for index in sorted(covered):
        _check_could_hold(entry, control, index, tests[index])
    outcomes: list[Outcome | None] = []
    excesses: list[Difference | None] = []
    for own, test in zip(entry["tests"], tests, strict=True):
        try:
            outcomes.append(outcome(test, measured, run))
        except MissingNumberError:
            outcomes.append(None)
        try:
            apart = _measured_apart(own, measured, entry["run"])
            excesses.append(_excess(own["is"], apart, _measured_apart(test, measured, run)))
        except MissingNumberError:
            excesses.append(None)
    return ControlOutcome(control["about"], tuple(outcomes), covered, tuple(excesses))


def _check_could_hold(
    entry: dict[str, Any], control: dict[str, Any], index: int, test: dict[str, Any]
) -> None:
    """Refuse a control in which a test could not come out otherwise than it does."""
    own = _sides(entry["tests"][index], entry["run"])
    sides = _sides(test, control.get("run", entry["run"]))
    reason = ""
    if sides[0] == sides[1]:
        reason = f"compares {sides[0]} with itself"
    elif sides == own:
        reason = "has the numbers of the run"
    elif sides == own[::-1]:
        reason = "has the numbers of the run with their sides exchanged"
    if reason:
        where = f"{entry.get('paper')} {entry.get('figure')}, test {index + 1}"
        raise SystemExit(
            f"{where}: the control {control['about']!r} {reason}; a control is another program"
        )


def _sides(test: dict[str, Any], run: str) -> tuple[str, str]:
    """What a test compares, with the names of runs."""
    that, than = (
        f"{run}:{each}" if isinstance(each, str) and each != "null" and ":" not in each else each
        for each in (test["that"], test["than"])
    )
    return str(that), f"the null of {that}" if than == "null" else str(than)


def _measured_apart(test: dict[str, Any], measured: dict[str, Any], run: str) -> Difference:
    """How far a number is from its reference, with the errors of what was measured.

    The spread of a null says how far single numbers lie from it without an effect. It is no error
    of the number itself, unless there is no other.
    """
    apart, _ = _apart(test, measured, run)
    value = number(measured, test["that"], run)
    if test["than"] != "null" or value.stderr is None:
        return apart
    terms = [(value.stderr, value.df), (value.null_stderr or 0.0, None)]
    error, df = significance.combined_error(terms)
    return Difference(apart.value, error, df, significance.sum_p_value(apart.value, terms))


def _excess(kind: str, own: Difference, control: Difference) -> Difference:
    """How much further the run is in the direction of a test than a control, with its error.

    What has no error counts as it is, as in a test with `by`.
    """
    terms = [(each.error or 0.0, each.df) for each in (own, control)]
    if kind == "near":
        value = abs(control.value) - abs(own.value)
    else:
        value = own.value - control.value
        value = value if kind == "above" else -value
    if not any(error for error, _ in terms):
        return Difference(value, 0.0)
    error, df = significance.combined_error(terms)
    return Difference(value, error, df, significance.sum_p_value(value, terms))


def _covered(
    entry: dict[str, Any], control: dict[str, Any], tests: list[dict[str, Any]]
) -> frozenset[int]:
    claims = [index for index, test in enumerate(entry["tests"]) if not test.get("premise")]
    if "refutes" in control:
        return frozenset(index - 1 for index in control["refutes"]) & frozenset(claims)
    if "replace" in control:
        changed = [index for index in claims if tests[index] != entry["tests"][index]]
        return frozenset(changed)
    return frozenset(claims)


def runs_of(entry: dict[str, Any]) -> list[str]:
    """The entry's own run, and those that its numbers, pictures and controls name."""
    names = [*entry.get("show", []), *entry.get("pictures", [])]
    runs = {control["run"] for control in entry.get("controls", []) if "run" in control}
    for tests in [entry.get("tests", []), *_tests_of_controls(entry)]:
        for test in tests:
            names += [each for each in (test["that"], test["than"]) if isinstance(each, str)]
    runs |= {name.rpartition(":")[0] for name in names} - {""}
    return list(dict.fromkeys([entry["run"], *sorted(runs)]))


def _tests_of_controls(entry: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return [control_tests(entry, control) for control in entry.get("controls", [])]


def numbers_of(entry: dict[str, Any]) -> dict[str, set[str]]:
    """Run to the numbers and pictures of it that an entry names, controls included."""
    found: dict[str, set[str]] = {}

    def add(name: Any, run: str) -> None:
        if isinstance(name, str) and name != "null":
            other, _, rest = name.rpartition(":")
            found.setdefault(other or run, set()).add(rest)

    for name in (*entry.get("show", []), *entry.get("pictures", [])):
        add(name, entry["run"])
    for test in entry.get("tests", []):
        add(test["that"], entry["run"])
        add(test["than"], entry["run"])
    for control, tests in zip(entry.get("controls", []), _tests_of_controls(entry), strict=True):
        for test in tests:
            add(test["that"], control.get("run", entry["run"]))
            add(test["than"], control.get("run", entry["run"]))
    return found


@attrs.frozen
class Judgement:
    """A verdict with what led to it.

    Attributes:
        verdict: One of `VERDICTS`.
        outcomes: One for each test of the run.
        controls: One for each control.
    """

    verdict: str
    outcomes: tuple[Outcome, ...] = ()
    controls: tuple[ControlOutcome, ...] = ()


def judge(entry: dict[str, Any], measured: dict[str, Any]) -> Judgement:
    """What the tests of an entry make: all, some or none of them hold, or the opposite does.

    Reproduced: every test holds, and every one that is no premise is refused by each control that
    is about it, of which there is at least one, and from which the run differs significantly in
    the direction of the test. Where other data or another network stands in for
    the paper's (`stand_in`), or a part of the claim is not measured (`unmeasured`), it is partly
    at most. Contradicted: the opposite of a test is significant, on the paper's kind of data and
    network. Not feasible here: a trial was measured, and `tried` says how many such trials the
    figure takes.
    """
    if "tried" in entry:
        trial = measured.get(entry["tried"]["run"])
        return Judgement(NOT_FEASIBLE if trial else NOT_MEASURED)
    run = entry.get("run")
    if run is None or any(measured.get(name, {"exit": 1})["exit"] for name in runs_of(entry)):
        return Judgement(NOT_MEASURED)
    if not entry.get("tests"):
        return Judgement(entry["judged"])
    outcomes = tuple(_outcome_or_missing(test, measured, run) for test in entry["tests"])
    controls = tuple(
        control_outcome(entry, control, measured) for control in entry.get("controls", [])
    )
    return Judgement(_verdict(entry, outcomes, controls), outcomes, controls)


def _verdict(
    entry: dict[str, Any], outcomes: tuple[Outcome, ...], controls: tuple[ControlOutcome, ...]
) -> str:
    whole = not entry.get("stand_in") and "unmeasured" not in entry
    claims = [index for index, test in enumerate(entry["tests"]) if not test.get("premise")]
    if whole and any(outcomes[index].opposed for index in claims):
        return CONTRADICTED
    if not any(outcomes[index].holds for index in claims):
        return NOT
    if whole and all(each.holds for each in outcomes) and not weak_tests(claims, controls):
        return REPRODUCED
    return PARTLY


def weak_tests(claims: list[int], controls: tuple[ControlOutcome, ...]) -> list[int]:
    """Tests (from 0) that no control is about, or that one passes or does not differ from."""
    weak = []
    for index in claims:
        about = [control for control in controls if index in control.covered]
        if not about or not all(each.refuses(index) and each.differs(index) for each in about):
            weak.append(index)
    return weak
