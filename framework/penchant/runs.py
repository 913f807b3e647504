"""The run folder: where jobs leave their results, and how a run is read again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error, suggestion
from penchant.results import (
    SCHEMA,
    Result,
    read_arrays,
    read_json,
    read_result,
    write_json,
    writing_failed,
)

SECONDS_BETWEEN_WRITES = 3.0


class Run:
    """A run folder: `title`, `jobs` (id, status, labels, path), and the results of those that ended."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.folder, self.record = folder, record
        self._written = 0.0

    @property
    def title(self) -> str:
        return str(self.record.get("title") or self.folder.name)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return list(self.record["jobs"])

    @property
    def done(self) -> bool:
        """Did every job end well?"""
        return all(job["status"] == "done" for job in self.jobs)

    def mark(self, job: str, status: str) -> None:
        """Note a job's status; `run.json` is written at most every few seconds."""
        next(each for each in self.record["jobs"] if each["id"] == job)["status"] = status
        if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        write_json(self.folder / "run.json", {"schema": SCHEMA, **self.record})
        self._written = time.monotonic()

    def result(self, job: str) -> Result:
        """The result of the job with this id."""
        return read_result(self.folder / "jobs" / job)

    def results(self, **labels: Any) -> list[Result]:
        """Results whose labels match, e.g. `run.results(probe="nad", architecture="lenet")`, in the order of jobs."""
        for label in labels:
            if label not in ("probe", "architecture", "dataset", "seed"):
                raise Error(
                    f"results are chosen by probe, architecture, dataset and seed, found {label!r}"
                )
        return [self.result(job["id"]) for job in self._matching(labels)]

    def _matching(self, labels: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for job in self.jobs:
            if job["status"] in ("done", "failed") and all(
                job["labels"].get(key) == value for key, value in labels.items()
            ):
                yield job

    def table(self) -> list[dict[str, Any]]:
        """One row per job and quantity, ready for `pandas.DataFrame`."""
        rows = []
        for job in self._matching({}):
            for name, quantity in self.result(job["id"]).quantities.items():
                rows.append(
                    {"job": job["id"], **job["labels"], "quantity": name, **attrs.asdict(quantity)}
                )
        return rows


def read(folder: str | Path) -> Run:
    """The run in a folder; statuses are those of the results that are there, which are the truth."""
    folder = Path(folder)
    if not (folder / "run.json").is_file():
        raise Error(f"{folder} is not a run folder: it has no run.json")
    record = read_json(folder / "run.json")
    for job in record.get("jobs", []):
        path = folder / job["path"] / "result.json"
        job["status"] = read_json(path)["status"] if path.is_file() else "pending"
    return Run(folder, record)


def make_folder(folder: Path) -> None:
    """Create a run folder, or say why it cannot be."""
    try:
        (folder / "jobs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise writing_failed(folder, error) from error


def with_arrays(component: Any) -> Any:
    """The component with every array option read: code is handed arrays, never names of files."""
    found = {}
    for field in attrs.fields(type(component)):
        value = getattr(component, field.name)
        if field.metadata["array"] and isinstance(value, str):
            found[field.name] = _read_array(value, f"{component.name}.{field.name}")
    return attrs.evolve(component, **found) if found else component


def _read_array(source: str, what: str) -> Any:
    if source.startswith("run:"):
        folder, _, name = source[4:].partition("#")
        return _stored_array(Path(folder), name, what)
    import numpy as np

    if not source.endswith(".npy"):
        raise Error(
            f"{what} must be an array, a file ending in .npy or run:FOLDER#array, found {source!r}"
        )
    try:
        return np.load(source, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise Error(f"{what}: {source} cannot be read: {error}") from error


def _stored_array(folder: Path, name: str, what: str) -> Any:
    """The array of this name in a run folder, or in a job's folder where the run has several."""
    if not name:
        raise Error(f"{what} must name an array, as in run:{folder}#directions")
    if (folder / "run.json").is_file():
        holders = [folder / job["path"] for job in read(folder).jobs if job["status"] == "done"]
        holders = [
            each for each in holders if name in read_json(each / "result.json").get("arrays", {})
        ]
        if len(holders) != 1:
            where = (
                "; name one of them: " + ", ".join(f"run:{each}#{name}" for each in holders)
                if holders
                else ""
            )
            raise Error(
                f"{what}: {len(holders)} jobs of {folder} have an array {name!r}, expected one{where}"
            )
        folder = holders[0]
    arrays = read_arrays(folder / "arrays.npz")
    if name not in arrays:
        raise Error(f"{what}: {folder} has no array {name!r}{suggestion(name, arrays)}")
    return arrays[name]
