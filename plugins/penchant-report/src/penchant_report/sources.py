"""What is compared: the jobs of a run folder, or those that a `card.json` holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error
from penchant.results.files import read_json
from penchant.results.quantities import Quantity
from penchant.results.runs import Run, read

from penchant_report.answers import Entry, entries_of

CARD = "card.json"


@attrs.frozen(eq=False)
class Source:
    """Jobs that were measured, and where they are stored.

    Attributes:
        path: The run folder, or the file.
        entries: The jobs.
    """

    path: Path
    entries: list[Entry]

    @property
    def name(self) -> str:
        """The name of the folder; of another file its own."""
        return self.path.absolute().parent.name if self.path.name == CARD else self.path.name


def source_of(run: Source | Run | str | Path) -> Source:
    """The jobs of a run, of a run folder, or of a file that holds them.

    Raises:
        Error: It is none of these.
    """
    if isinstance(run, Source):
        return run
    if isinstance(run, Run):
        return Source(run.folder, entries_of(run))
    path = Path(run)
    if not path.is_file():
        return Source(path, entries_of(read(path)))
    record = read_json(path)
    if not isinstance(record.get("jobs"), list) or not isinstance(record.get("network"), dict):
        raise Error(f"{path} is not a card: expected a run folder, or the card.json of one")
    try:
        return Source(path, [_entry(each) for each in record["jobs"]])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Error(f"{path} is damaged: {type(error).__name__}: {error}") from error


def to_records(
    entries: Iterable[Entry], shown: Mapping[str, tuple[str, ...]]
) -> list[dict[str, Any]]:
    """Jobs as a card stores them.

    Args:
        entries: The jobs.
        shown: Names of the quantities to store, by the label of the probe.

    Returns:
        Tables of JSON.
    """
    records = []
    for entry in entries:
        names = shown.get(str(entry.labels["probe"]), ())
        kept = {name: entry.quantities[name] for name in names if name in entry.quantities}
        record = attrs.asdict(entry, recurse=False)
        record["warnings"] = list(entry.warnings)
        record["meanings"] = {name: entry.meanings.get(name, "") for name in kept}
        record["quantities"] = {name: to_json(quantity) for name, quantity in kept.items()}
        records.append(record)
    return records


def to_json(quantity: Quantity) -> dict[str, Any]:
    """A quantity as JSON: what is unknown is left out, a missing value is null."""
    values = attrs.asdict(quantity)
    known = {}
    for name, value in values.items():
        # A number that is 0 is known.
        if value is not None and value is not False and value != "":
            known[name] = value
    return {**known, "value": None if quantity.missing else quantity.value}


def quantity_of(record: Mapping[str, Any]) -> Quantity:
    """A quantity from JSON as `to_json` makes it."""
    value = record["value"]
    return Quantity(**{**record, "value": math.nan if value is None else value})


def _entry(record: Mapping[str, Any]) -> Entry:
    known = {field.name for field in attrs.fields(Entry)}
    values = {name: value for name, value in record.items() if name in known}
    values["warnings"] = tuple(record["warnings"])
    quantities = record["quantities"].items()
    values["quantities"] = {name: quantity_of(each) for name, each in quantities}
    return Entry(**values)
