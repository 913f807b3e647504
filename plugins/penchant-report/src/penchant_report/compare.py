"""Runs side by side: the same probe in several of them, differences with their errors.

Jobs are matched by the labels of probe, architecture and dataset. Where a probe has one cell in
each run that the other lacks, these two are taken for each other and the page says so. Seeds that
both runs have are paired. Numbers whose conventions differ are shown, and not compared.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error
from penchant.results.differences import Difference, z_text
from penchant.results.quantities import Quantity
from penchant.results.runs import Run
from penchant_numerics.statistics import significance

from penchant_report.answers import Answer, Entry, answers, clashes
from penchant_report.dataframes import data_frame
from penchant_report.dots import panels
from penchant_report.matching import Cell, cells_of, matched
from penchant_report.pages import write_page
from penchant_report.pooling import Pooled, difference, paired_difference, pooled
from penchant_report.sources import Source, source_of
from penchant_report.wording import Z_MEANING, level_text, setting_text, value_text

MOST_SETTINGS = 8  # that are listed where two runs have different settings
MOST_SENTENCES = 6  # of a probe, before its table
_LEGEND = (
    f"✱: significant (two-sided {level_text(1)}, corrected for the comparisons of its probe). "
    f"{Z_MEANING} Of three shared seeds or more the standard error is that of the paired "
    "differences; of fewer, what the numbers' own standard errors give."
)


@attrs.frozen(eq=False)
class Row:
    """A quantity in the first run and in another one.

    Attributes:
        probe: The probe's name.
        cell: Labels of probe, architecture and dataset, as text.
        run: Name of the other run.
        quantity: Its name.
        meaning: What it means.
        first: Pooled over the seeds of the first run.
        second: Pooled over those of the other.
        pairs: Seeds that both runs have.
        difference: Other less first; None where they are not compared.
        reason: Why they are not compared.
    """

    probe: str
    cell: str
    run: str
    quantity: str
    meaning: str
    first: Pooled
    second: Pooled
    pairs: int
    difference: Difference | None
    reason: str = ""

    @property
    def p(self) -> float | None:
        """Two-sided p-value of the difference; None where there is none to be had."""
        return None if self.difference is None else self.difference.p


@attrs.frozen(eq=False, repr=False)
class Comparison:
    """Several runs, each compared with the first.

    Attributes:
        names: Names of the runs.
        rows: Every quantity of every cell that two runs share.
        answers: What all of them say, run by run, for figures.
        changes: Settings that differ between matched cells, by probe.
        alone: Cells that have no counterpart, as text, by probe.
    """

    names: tuple[str, ...]
    rows: list[Row]
    answers: list[Answer]
    changes: dict[str, list[str]]
    alone: dict[str, list[str]]

    @functools.cached_property
    def _significant(self) -> set[Row]:
        """Rows with a significant difference; those of one probe are decided at once."""
        significant: set[Row] = set()
        by_probe: dict[str, list[Row]] = {}
        for row in self.rows:
            by_probe.setdefault(row.probe, []).append(row)
        for rows in by_probe.values():
            decided = significance.significant([row.p for row in rows])
            significant |= {row for row, holds in zip(rows, decided) if holds}
        return significant

    def is_significant(self, row: Row) -> bool:
        """Is this difference significant, among those of its probe?"""
        return row in self._significant

    def comparisons(self, probe: str) -> int:
        """How many differences of a probe are decided about together."""
        return sum(row.probe == probe and row.p is not None for row in self.rows)

    def table(self) -> list[dict[str, Any]]:
        """One row per cell, quantity and other run, ready for `pandas.DataFrame`."""
        rows = []
        for row in self.rows:
            apart = row.difference
            first = row.first.quantity
            second = row.second.quantity
            columns = {
                "probe": row.probe,
                "cell": row.cell,
                "quantity": row.quantity,
                "first": self.names[0],
                "second": row.run,
                "first_value": first.value,
                "first_stderr": first.stderr,
                "second_value": second.value,
                "second_stderr": second.stderr,
                "pairs": row.pairs,
                "difference": apart.value if apart else None,
                "stderr": apart.error if apart else None,
                "df": apart.df if apart else None,
                "p": row.p,
                "z": apart.z if apart else None,
                "significant": self.is_significant(row),
                "reason": row.reason,
            }
            rows.append(columns)
        return rows

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`, where pandas is installed."""
        return data_frame(self.table())

    def lines(self) -> list[str]:
        """What a terminal shows: differences under each other, significant ones with a star."""
        lines = []
        before = self.names[0]
        for (probe, cell, run), group in itertools.groupby(self.rows, _sort_key):
            rows = list(group)
            lines.append(f"{probe}: {cell}, {before} -> {run}")
            # A difference of options explains one of numbers.
            for change in self.changes.get(probe, []):
                lines.append(f"  differs: {change}")
            reason = rows[0].reason
            if reason:
                lines.append(f"  not compared: {reason}")
            # Columns as wide as their widest cell.
            texts = [self._texts(row) for row in rows]
            widths = [max(map(len, column)) for column in zip(*texts)]
            for text in texts:
                cells = [f"{part:{width}}" for part, width in zip(text, widths)]
                line = "  ".join(cells)
                lines.append("  " + line.rstrip())
        if self.alone:
            lines.append("in one run only")
        for probe, alone in self.alone.items():
            for cell in alone:
                lines.append(f"  {probe}: {cell}")
        return lines

    def _texts(self, row: Row) -> tuple[str, str, str, str]:
        first = value_text(row.first.quantity)
        second = value_text(row.second.quantity)
        apart = ""
        if row.difference is not None:
            mark = " *" if self.is_significant(row) else ""
            apart = f"{row.difference}  {z_text(row.difference)}".rstrip() + mark
            if row.difference.undecided:
                few = "two repetitions" if row.difference.error else "repetitions without a spread"
                apart += f" (not decided: {few})"
        return row.quantity, first, second, apart

    def write(self, path: str | Path) -> Path:
        """Write the page, in the style of a report."""
        values = _page(self)
        return write_page(Path(path), "compare.html.jinja", values)

    def __repr__(self) -> str:
        names = ", ".join(self.names)
        title = f"Comparison of {names}"
        lines = [title, *self.lines()]
        return "\n".join(lines)


def _sort_key(row: Row) -> tuple[str, str, str]:
    return row.probe, row.cell, row.run


def compare(*runs: Source | Run | str | Path) -> Comparison:
    """Compare runs with the first of them: the same probe, seed by seed where seeds are the same.

    Args:
        *runs: Two or more runs, their folders, or files `card.json`.

    Returns:
        Differences with their errors: `.table()`, `.to_pandas()`, `.write("compare.html")`.

    >>> penchant.compare("runs/before", "runs/after")              # doctest: +SKIP
    """
    if len(runs) < 2:
        raise Error(f"a comparison takes two runs or more, found {len(runs)}")
    compared = [source_of(run) for run in runs]
    names = _names(compared)
    cells = [cells_of(source.entries) for source in compared]

    # Each run against the first.
    rows: list[Row] = []
    changes: dict[str, list[str]] = {}
    alone: dict[str, list[str]] = {}
    for name, other in zip(names[1:], cells[1:]):
        both = (names[0], name)
        pairs, lacking = matched(cells[0], other, both)
        for probe, text in lacking:
            texts = alone.setdefault(probe, [])
            texts.append(text)
        for label, first, second in pairs:
            probe = first[0].probe
            listed = changes.setdefault(probe, [])
            changed = _changes(first[0], second[0])
            listed += [text for text in changed if text not in listed]
            rows += _rows(label, name, first, second)
    answers = _answers(names, cells)
    return Comparison(names, rows, answers, changes, alone)


def _names(sources: Sequence[Source]) -> tuple[str, ...]:
    """The folders' names, or their paths where these are the same."""
    short = [source.name for source in sources]
    distinct = set(short)
    if len(distinct) == len(short):
        return tuple(short)
    paths = [str(source.path) for source in sources]
    return tuple(paths)


def _answers(names: Sequence[str], cells: Sequence[dict[Cell, list[Entry]]]) -> list[Answer]:
    """Everything together, with the run as one more axis."""
    entries = []
    every = itertools.chain.from_iterable(cells)
    once = dict.fromkeys(every)
    # Runs of one cell stand under each other.
    for key in once:
        for name, found in zip(names, cells):
            for entry in found.get(key, []):
                labels = {**entry.labels, "run": name}
                labelled = attrs.evolve(entry, labels=labels)
                entries.append(labelled)

    return answers(entries)


def _changes(first: Entry, second: Entry) -> list[str]:
    """Settings that differ, as text."""
    changes = []
    names = dict.fromkeys((*first.settings, *second.settings))
    for name in names:
        before = first.settings.get(name)
        after = second.settings.get(name)
        if before == after:
            continue
        old = setting_text(before)
        new = setting_text(after)
        changes.append(f"{name}: {old} against {new}")

    rest = len(changes) - MOST_SETTINGS
    if rest > 0:
        changes = changes[:MOST_SETTINGS]
        changes.append(f"and {rest} more settings")
    return changes


def _rows(label: str, run: str, first: list[Entry], second: list[Entry]) -> Iterator[Row]:
    """Every quantity that both have."""
    # Conventions, units and meanings are the same for every seed.
    before, after = first[0], second[0]
    reason = ""
    differing = clashes(before.conventions, after.conventions)
    if differing:
        texts = [f"{name} ({one} against {other})" for name, (one, other) in differing.items()]
        reason = f"conventions differ: {'; '.join(texts)}"
    for name, quantity in before.quantities.items():
        counterpart = after.quantities.get(name)
        if counterpart is None:
            continue
        left = _by_seed(first, name)
        right = _by_seed(second, name)
        shared = [seed for seed in left if seed in right]
        why = reason
        if not why and quantity.unit != counterpart.unit:
            why = f"units differ: {quantity.unit!r} against {counterpart.unit!r}"
        yield Row(
            probe=before.probe,
            cell=label,
            run=run,
            quantity=name,
            meaning=before.meanings.get(name, ""),
            first=_pooled(left, before),
            second=_pooled(right, after),
            pairs=len(shared),
            difference=None if why else _apart(left, right, shared, (before, after)),
            reason=why,
        )


def _by_seed(entries: Sequence[Entry], name: str) -> dict[Any, Quantity]:
    quantities = {}
    for entry in entries:
        if name in entry.quantities:
            quantities[entry.labels.get("seed")] = entry.quantities[name]
    return quantities


def _pooled(by_seed: dict[Any, Quantity], entry: Entry) -> Pooled:
    quantities = list(by_seed.values())
    return pooled(quantities, shared=entry.own_samples)


def _apart(
    left: dict[Any, Quantity],
    right: dict[Any, Quantity],
    shared: Sequence[Any],
    entries: tuple[Entry, Entry],
) -> Difference | None:
    """Pair by pair where all seeds are shared, else mean against mean."""
    if len(shared) == len(left) == len(right):
        first = [left[seed] for seed in shared]
        second = [right[seed] for seed in shared]
        return paired_difference(first, second)
    before = _pooled(left, entries[0])
    after = _pooled(right, entries[1])
    return difference(before, after)


# ---- the page


def _page(found: Comparison) -> dict[str, Any]:
    first, *others = found.names
    listed = ", ".join(others)
    sections = [_section(found, answer) for answer in found.answers]
    # What can be compared comes first.
    sections.sort(key=lambda section: not section["compared"])
    alone = [f"{section['probe']}: {text}" for section in sections for text in section["alone"]]
    return {
        "title": f"{first} against {listed}",
        "names": found.names,
        "several": len(others) > 1,
        "sections": [section for section in sections if section["rows"]],
        "alone": alone,
        "legend": _LEGEND,
    }


def _section(found: Comparison, answer: Answer) -> dict[str, Any]:
    probe = answer.probe
    own = [row for row in found.rows if row.probe == probe]
    differing = [row for row in own if found.is_significant(row)]
    compared = [row for row in own if row.difference is not None]
    sentences = [_sentence(row) for row in differing[:MOST_SENTENCES]]

    # Every reason once, however many quantities it is of.
    reasons: dict[str, None] = {}
    for row in own:
        if row.reason:
            reasons[f"{row.cell} in {row.run}: {row.reason}"] = None
    return {
        "probe": probe,
        "anchor": f"answer-{probe}",
        "question": answer.question,
        "found": sentences,
        "compared": bool(compared),
        "level": level_text(found.comparisons(probe)),
        "reasons": list(reasons),
        "changes": found.changes.get(probe, []),
        "alone": found.alone.get(probe, []),
        "panels": panels(answer),
        "rows": [_row_values(found, row) for row in own],
    }


def _sentence(row: Row) -> str:
    apart = row.difference
    assert apart is not None
    more = "larger" if apart.value > 0 else "smaller"
    # The word already gives the sign.
    unsigned = dataclasses.replace(apart, value=abs(apart.value))
    by = str(unsigned).removeprefix("+")
    z = z_text(unsigned)
    beside = f" ({z})" if z else ""
    what = f"{row.quantity} of {row.cell}"
    return f"{what} is {more} in {row.run}, by {by}{beside}."


def _row_values(found: Comparison, row: Row) -> dict[str, Any]:
    apart = row.difference
    first = row.first.quantity
    second = row.second.quantity
    return {
        "quantity": row.quantity,
        "about": row.meaning,
        "cell": row.cell,
        "run": row.run,
        "first": value_text(first),
        "first_sort": repr(first.value),
        "second": value_text(second),
        "second_sort": repr(second.value),
        "difference": "not compared" if apart is None else str(apart),
        "sort": "" if apart is None else repr(apart.value),
        "z": z_text(apart),
        "significant": found.is_significant(row),
        "pairs": f"{row.pairs} paired" if row.pairs else "none shared",
    }
