"""Runs side by side: the same probe in several of them, differences with their errors.

Jobs are matched by the labels of probe, architecture and dataset. Where a probe has one cell in
each run that the other lacks, these two are taken for each other and the page says so. Seeds that
both runs have are paired. Numbers whose conventions differ are shown, and not compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error
from penchant.results.answers import Answer, Entry, answers, clashes, entries_of
from penchant.results.dots import panels
from penchant.results.evidence import Difference, Pooled, difference, paired_difference, pooled
from penchant.results.labelled import data_frame
from penchant.results.pages import write_page
from penchant.results.quantities import Quantity
from penchant.results.report import setting_text, value_text
from penchant.results.runs import Run, read

MOST_SETTINGS = 8  # that are listed where two runs asked for different things
_AXES = ("probe", "architecture", "dataset")
Cell = tuple[Any, ...]


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

    def looks(self, probe: str) -> int:
        """How many differences of a probe are looked at together."""
        own = [row for row in self.rows if row.probe == probe]
        return sum(row.difference is not None for row in own)

    def exceeds(self, row: Row) -> bool:
        """Is this difference beyond its error, among those of its probe?"""
        return row.difference is not None and row.difference.exceeds(self.looks(row.probe))

    def table(self) -> list[dict[str, Any]]:
        """One row per cell, quantity and other run, ready for `pandas.DataFrame`."""
        found = []
        for row in self.rows:
            apart = row.difference
            found.append(
                {
                    "probe": row.probe,
                    "cell": row.cell,
                    "quantity": row.quantity,
                    "first": self.names[0],
                    "second": row.run,
                    "first_value": row.first.quantity.value,
                    "first_stderr": row.first.quantity.stderr,
                    "second_value": row.second.quantity.value,
                    "second_stderr": row.second.quantity.stderr,
                    "pairs": row.pairs,
                    "difference": apart.value if apart else None,
                    "stderr": apart.error if apart else None,
                    "exceeds": self.exceeds(row),
                    "reason": row.reason,
                }
            )
        return found

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`, where pandas is installed."""
        return data_frame(self.table())

    def lines(self) -> list[str]:
        """What a terminal shows: differences under each other, marked where they exceed errors."""
        lines = []
        for (probe, cell, run), group in itertools.groupby(self.rows, _place):
            rows = list(group)
            lines.append(f"{probe}: {cell}, {self.names[0]} -> {run}")
            if rows[0].reason:
                lines.append(f"  not compared: {rows[0].reason}")
            texts = [self._texts(row) for row in rows]
            widths = [max(map(len, column)) for column in zip(*texts)]
            for text in texts:
                cells = [f"{part:{width}}" for part, width in zip(text, widths)]
                lines.append("  " + "  ".join(cells).rstrip())
        for probe, cells in self.alone.items():
            lines += [f"{probe}: {cell}" for cell in cells]
        return lines

    def _texts(self, row: Row) -> tuple[str, str, str, str]:
        first, second = value_text(row.first.quantity), value_text(row.second.quantity)
        if row.difference is None:
            return row.quantity, first, second, ""
        mark = " *" if self.exceeds(row) else ""
        return row.quantity, first, second, f"{row.difference}{mark}"

    def write(self, path: str | Path) -> Path:
        """Write the page, which looks like a report."""
        return write_page(Path(path), "compare.html.jinja", _page(self))

    def __repr__(self) -> str:
        return "\n".join([f"Comparison of {', '.join(self.names)}", *self.lines()])


def _place(row: Row) -> tuple[str, str, str]:
    return row.probe, row.cell, row.run


def compare(*runs: Run | str | Path) -> Comparison:
    """Compare runs with the first of them: the same probe, seed by seed where seeds are the same.

    Args:
        *runs: Two or more runs, or their folders.

    Returns:
        Differences with their errors: `.table()`, `.to_pandas()`, `.write("compare.html")`.

    >>> penchant.compare("runs/before", "runs/after")              # doctest: +SKIP
    """
    if len(runs) < 2:
        raise Error(f"a comparison takes two runs or more, found {len(runs)}")
    found = [run if isinstance(run, Run) else read(run) for run in runs]
    names = _names(found)
    cells = [_cells(run) for run in found]
    rows: list[Row] = []
    changes: dict[str, list[str]] = {}
    alone: dict[str, list[str]] = {}
    for name, other in zip(names[1:], cells[1:]):
        pairs, lacking = _matched(cells[0], other, (names[0], name))
        for probe, text in lacking:
            alone.setdefault(probe, []).append(text)
        for label, first, second in pairs:
            probe = first[0].probe
            listed = changes.setdefault(probe, [])
            listed += [text for text in _changes(first[0], second[0]) if text not in listed]
            rows += _rows(label, name, first, second)
    return Comparison(names, rows, _answers(names, cells), changes, alone)


def _names(runs: Sequence[Run]) -> tuple[str, ...]:
    """The folders' names, or their paths where these are the same."""
    short = [run.folder.name for run in runs]
    if len(set(short)) == len(short):
        return tuple(short)
    return tuple(str(run.folder) for run in runs)


def _cells(run: Run) -> dict[Cell, list[Entry]]:
    """Jobs that are done, by what they measured."""
    found: dict[Cell, list[Entry]] = {}
    for entry in entries_of(run):
        if entry.status == "done":
            key = tuple(entry.labels.get(axis) for axis in _AXES)
            found.setdefault(key, []).append(entry)
    return found


def _answers(names: Sequence[str], cells: Sequence[dict[Cell, list[Entry]]]) -> list[Answer]:
    """Everything together, with the run as one more axis."""
    entries = []
    # Runs of one cell stand under each other.
    for key in dict.fromkeys(itertools.chain.from_iterable(cells)):
        for name, found in zip(names, cells):
            for entry in found.get(key, []):
                labels = {**entry.labels, "run": name}
                entries.append(attrs.evolve(entry, labels=labels))
    return answers(entries)


def _matched(
    first: dict[Cell, list[Entry]], second: dict[Cell, list[Entry]], names: tuple[str, str]
) -> tuple[list[tuple[str, list[Entry], list[Entry]]], list[tuple[str, str]]]:
    """Cells of two runs that belong together, and the probes and names of those that have none."""
    pairs = []
    for key, entries in first.items():
        if key in second:
            pairs.append((_named(key, entries), entries, second[key]))
    lacking: list[Any] = []
    for probe in dict.fromkeys(key[0] for key in (*first, *second)):
        left = _only_in(first, second, probe)
        right = _only_in(second, first, probe)
        # One cell on each side: another architecture or dataset in the same place.
        if len(left) == len(right) == 1:
            one, other = first[left[0]], second[right[0]]
            label = f"{_named(left[0], one)} against {_named(right[0], other)}"
            pairs.append((label, one, other))
        else:
            lacking += _alone(left, first, names[0])
            lacking += _alone(right, second, names[1])
    return pairs, lacking


def _only_in(
    run: dict[Cell, list[Entry]], other: dict[Cell, list[Entry]], probe: str
) -> list[Cell]:
    return [key for key in run if key[0] == probe and key not in other]


def _alone(
    keys: Sequence[Cell], cells: dict[Cell, list[Entry]], name: str
) -> Iterator[tuple[str, str]]:
    """Probe and sentence of each cell that has nothing to be compared with."""
    for key in keys:
        entries = cells[key]
        yield entries[0].probe, f"{_named(key, entries)} is in {name} only"


def _named(cell: Cell, entries: Sequence[Entry]) -> str:
    """A cell in words; the probe's label only where it is not its name."""
    probe = entries[0].probe
    parts = [str(part) for part in cell if part and part != probe]
    return " · ".join(parts) or probe


def _changes(first: Entry, second: Entry) -> list[str]:
    """Settings that differ, as text."""
    found = []
    for name in dict.fromkeys((*first.settings, *second.settings)):
        before, after = first.settings.get(name), second.settings.get(name)
        if before != after:
            found.append(f"{name}: {setting_text(before)} against {setting_text(after)}")
    if len(found) > MOST_SETTINGS:
        rest = len(found) - MOST_SETTINGS
        found = [*found[:MOST_SETTINGS], f"and {rest} more settings"]
    return found


def _rows(label: str, run: str, first: list[Entry], second: list[Entry]) -> Iterator[Row]:
    """Every quantity that both have."""
    differing = clashes(first[0].conventions, second[0].conventions)
    reason = ""
    if differing:
        texts = [f"{name} ({one} against {other})" for name, (one, other) in differing.items()]
        reason = f"conventions differ: {'; '.join(texts)}"
    for name, quantity in first[0].quantities.items():
        if name not in second[0].quantities:
            continue
        left = _by_seed(first, name)
        right = _by_seed(second, name)
        shared = [seed for seed in left if seed in right]
        why = reason
        if not why and quantity.unit != second[0].quantities[name].unit:
            why = f"units differ: {quantity.unit!r} against {second[0].quantities[name].unit!r}"
        yield Row(
            probe=first[0].probe,
            cell=label,
            run=run,
            quantity=name,
            meaning=first[0].meanings.get(name, ""),
            first=pooled(list(left.values())),
            second=pooled(list(right.values())),
            pairs=len(shared),
            difference=None if why else _apart(left, right, shared),
            reason=why,
        )


def _by_seed(entries: Sequence[Entry], name: str) -> dict[Any, Quantity]:
    found = {}
    for entry in entries:
        if name in entry.quantities:
            found[entry.labels.get("seed")] = entry.quantities[name]
    return found


def _apart(
    left: dict[Any, Quantity], right: dict[Any, Quantity], shared: Sequence[Any]
) -> Difference | None:
    """Pair by pair where all seeds are shared, else mean against mean."""
    if len(shared) == len(left) == len(right):
        first = [left[seed] for seed in shared]
        second = [right[seed] for seed in shared]
        return paired_difference(first, second)
    return difference(pooled(list(left.values())), pooled(list(right.values())))


# ---- the page


def _page(found: Comparison) -> dict[str, Any]:
    sections = [_section(found, answer) for answer in found.answers]
    title = f"{found.names[0]} against {', '.join(found.names[1:])}"
    several = len(found.names) > 2
    return {"title": title, "names": found.names, "several": several, "sections": sections}


def _section(found: Comparison, answer: Answer) -> dict[str, Any]:
    own = [row for row in found.rows if row.probe == answer.probe]
    exceeding = [row for row in own if found.exceeds(row)]
    compared = [row for row in own if row.difference is not None]
    reasons = [_reason(row) for row in own if row.reason]
    sentences = [_sentence(found, row) for row in exceeding[:6]]
    return {
        "probe": answer.probe,
        "anchor": f"answer-{answer.probe}",
        "question": answer.question,
        "found": sentences,
        "compared": bool(compared),
        "reasons": list(dict.fromkeys(reasons)),
        "changes": found.changes.get(answer.probe, []),
        "alone": found.alone.get(answer.probe, []),
        "panels": panels(answer),
        "rows": [_row_values(found, row) for row in own],
    }


def _reason(row: Row) -> str:
    return f"{row.cell} in {row.run}: {row.reason}"


def _sentence(found: Comparison, row: Row) -> str:
    apart = row.difference
    assert apart is not None
    errors = f" ({abs(apart.errors):.2g} errors)" if apart.errors is not None else ""
    more = "more" if apart.value > 0 else "less"
    size = str(attrs.evolve(apart, value=abs(apart.value))).removeprefix("+")
    return f"{row.quantity} of {row.cell} is {more} in {row.run}, by {size}{errors}."


def _row_values(found: Comparison, row: Row) -> dict[str, Any]:
    apart = row.difference
    return {
        "quantity": row.quantity,
        "about": row.meaning,
        "cell": row.cell,
        "run": row.run,
        "first": value_text(row.first.quantity),
        "first_sort": repr(row.first.quantity.value),
        "second": value_text(row.second.quantity),
        "second_sort": repr(row.second.quantity.value),
        "difference": "not compared" if apart is None else str(apart),
        "sort": "" if apart is None else repr(apart.value),
        "exceeds": found.exceeds(row),
        "pairs": f"{row.pairs} paired" if row.pairs else "none shared",
    }
