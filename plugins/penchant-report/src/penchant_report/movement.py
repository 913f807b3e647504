"""Has anything moved since a baseline? All quantities of two runs, decided about at once.

A baseline is a run folder or a `card.json`. Of networks that are drawn, both runs should have
several seeds: the spread over seeds is then the error. Of one given network the errors are over
samples, so that a network trained again counts as another network.

With the same seeds an unchanged code gives the same numbers, up to rounding. Where it does not, and
no quantity has moved significantly, a line says so: something has changed, and what networks prefer
on average may not have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import attrs
from penchant.errors import Error
from penchant.results.runs import Run
from penchant_numerics.statistics import counted, p_text, significance

from penchant_report.answers import Entry
from penchant_report.compare import Row, compare
from penchant_report.sources import Source, source_of
from penchant_report.wording import value_text

ROUNDING = 1e-4  # relative differences that another machine or version may make


@attrs.frozen(eq=False)
class Movement:
    """What has moved since a baseline.

    Attributes:
        level: The chance of finding any where nothing has changed.
        compared: Quantities that were compared.
        moved: Those that differ significantly, by Holm's rule over all of them.
        changed: Those of the same seeds that differ by more than rounding; 0 without common seeds.
        failed: Jobs that the baseline has and that failed in the run, and why.
        others: What was not compared, and why.
    """

    level: float
    compared: int
    moved: list[Row]
    changed: int
    failed: list[str]
    others: list[str]

    @property
    def fails(self) -> bool:
        """Has anything moved, or does anything fail now?"""
        return bool(self.moved or self.failed)

    def lines(self) -> list[str]:
        """One line for each quantity that has moved, then how many were compared."""
        lines = [_sentence(row) for row in self.moved]
        lines += [f"failed: {text}" for text in self.failed]
        lines += [f"not compared: {text}" for text in self.others]
        if self.changed and not self.moved:
            numbers = f"{self.changed} of {counted(self.compared, 'number')}"
            lines.append(f"not the same: {numbers} of the same seeds differ, none significantly")
        moved = len(self.moved) or "none"
        decided = f"{self.level:g} level, Holm's correction"
        return [*lines, f"{moved} of {counted(self.compared, 'compared number')} moved ({decided})"]


def movement(
    baseline: Source | Run | str | Path,
    run: Source | Run | str | Path,
    *,
    level: float = significance.LEVEL,
) -> Movement:
    """What has moved in a run since a baseline.

    Args:
        baseline: A run, a run folder, a `card.json`, or the jobs that one of these holds.
        run: The same, measured now.
        level: The chance of finding anything moved where nothing has changed.

    Returns:
        Quantities that moved.

    Raises:
        Error: The two have nothing in common.
    """
    if not 0 < level < 1:
        raise Error(f"level must be between 0 and 1, found {level!r}")
    before, after = source_of(baseline), source_of(run)
    found = compare(before, after)
    rows = [row for row in found.rows if row.p is not None]
    if not rows:
        hint = "measure the same probes: `penchant card` with the same network and data"
        raise Error(f"{before.path} and {after.path} have no quantity in common; {hint}")
    decided = significance.significant([row.p for row in rows], level)
    same_seeds = [row for row in rows if row.pairs == row.first.count == row.second.count]
    failed = _failed(before.entries, after.entries)
    reasons = {f"{row.probe}: {row.reason}": None for row in found.rows if row.reason}
    alone = [text for texts in found.alone.values() for text in texts] if not failed else []
    return Movement(
        level,
        len(rows),
        [row for row, holds in zip(rows, decided) if holds and not _is_rounding(row)],
        sum(not _is_rounding(row) for row in same_seeds),
        failed,
        [*reasons, *dict.fromkeys(alone)],
    )


def _is_rounding(row: Row) -> bool:
    """Are the values of both runs the same up to rounding, seed by seed where they have these?"""
    if row.first.count != row.second.count:
        return False
    values = zip(row.first.each, row.second.each)
    return all(math.isclose(one, other, rel_tol=ROUNDING) for one, other in values)


def _failed(before: Sequence[Entry], after: Sequence[Entry]) -> list[str]:
    """Probes that found something in the baseline, and of which a job fails now."""
    known = {entry.labels.get("probe") for entry in before if entry.status == "done"}
    texts = []
    for entry in after:
        if entry.status == "failed" and entry.labels.get("probe") in known:
            texts.append(f"{entry.title}: {entry.error}")
    return texts


def _sentence(row: Row) -> str:
    """What moved, from where to where, and its p-value."""
    first, second = value_text(row.first.quantity), value_text(row.second.quantity)
    assert row.p is not None
    return f"{row.probe} {row.quantity}: {first} -> {second}, {p_text(row.p)}"
