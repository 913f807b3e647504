"""Which jobs of two runs belong together: those of one probe, architecture and dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penchant_report.answers import Entry

_AXES = ("probe", "architecture", "dataset")
Cell = tuple[Any, ...]


def cells_of(entries: Iterable[Entry]) -> dict[Cell, list[Entry]]:
    """Jobs that are done, by what they measured."""
    cells: dict[Cell, list[Entry]] = {}
    for entry in entries:
        if entry.status != "done":
            continue
        labels = [entry.labels.get(axis) for axis in _AXES]
        members = cells.setdefault(tuple(labels), [])
        members.append(entry)
    return cells


def matched(
    first: dict[Cell, list[Entry]], second: dict[Cell, list[Entry]], names: tuple[str, str]
) -> tuple[list[tuple[str, list[Entry], list[Entry]]], list[tuple[str, str]]]:
    """Cells of two runs that belong together, and those that stand alone.

    Args:
        first: Cells of the first run.
        second: Cells of the other.
        names: What the two runs are called.

    Returns:
        A label and the jobs of both runs for each pair; probe and sentence of each cell that has
        no counterpart.
    """
    # Cells that both have.
    pairs = []
    for key, entries in first.items():
        if key in second:
            label = _named(key, entries)
            pairs.append((label, entries, second[key]))
    # What is left, probe by probe.
    lacking: list[Any] = []
    probes = [key[0] for key in (*first, *second)]
    for probe in dict.fromkeys(probes):
        left = _only_in(first, second, probe)
        right = _only_in(second, first, probe)
        # One cell on each side: another architecture or dataset in the same position.
        if len(left) == len(right) == 1:
            one = first[left[0]]
            other = second[right[0]]
            before = _named(left[0], one)
            after = _named(right[0], other)
            pairs.append((f"{before} against {after}", one, other))
        else:
            lacking += _alone(left, first, names[0])
            lacking += _alone(right, second, names[1])
    return pairs, lacking


def _only_in(
    run: dict[Cell, list[Entry]], other: dict[Cell, list[Entry]], probe: str
) -> list[Cell]:
    own = [key for key in run if key[0] == probe]
    return [key for key in own if key not in other]


def _alone(
    keys: Sequence[Cell], cells: dict[Cell, list[Entry]], name: str
) -> Iterator[tuple[str, str]]:
    """Probe and sentence of each cell that has nothing to be compared with."""
    for key in keys:
        entries = cells[key]
        label = _named(key, entries)
        yield entries[0].probe, f"{label} is in {name} only"


def _named(cell: Cell, entries: Sequence[Entry]) -> str:
    """A cell in words; the probe's label only where it is not its name."""
    probe = entries[0].probe
    parts = []
    for part in cell:
        if part and part != probe:
            parts.append(str(part))
    return " · ".join(parts) or probe
