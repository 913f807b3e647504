"""The run folder: its jobs, and the results of those that ended."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from penchant.errors import Error
from penchant.extras import extra
from penchant.plugins.discovery import Plugins
from penchant.results.checked import check_run
from penchant.results.files import SCHEMA, NewerSchemaError, read_json, write_json
from penchant.results.inside import inside
from penchant.results.job_folder import JobFolder
from penchant.results.records import JobEntry, RunRecord
from penchant.results.result import Result
from penchant_numerics.statistics import counted

SECONDS_BETWEEN_WRITES = 3.0
LEAST_PAUSE = 20.0  # times what a write took: of many jobs it takes long
MOST_FAILURES = 5  # whose reasons are shown
_LABELS = ("probe", "architecture", "dataset", "seed")


class Run:
    """A run folder: `title`, `jobs` (id, status, labels, path), and results of those that ended."""

    def __init__(
        self,
        folder: Path,
        record: RunRecord,
        *,
        selected: set[str] | None = None,
        temporary: bool = False,
        plugins: Plugins | None = None,
    ) -> None:
        self.folder = folder
        self.temporary = temporary  # the folder is deleted when the run ends
        self.plugins = plugins  # whose probes were run; None: those that are installed
        self.record = record
        self._selected = selected  # ids of the jobs to be run; None: all
        self._next_write = 0.0  # not before this time
        self.others: list[str] = []  # commands that work in the folder as well
        # The entries themselves, not copies: `mark` changes what `write` writes.
        self._entries = {job["id"]: job for job in record["jobs"]}

    def __repr__(self) -> str:
        statuses = [job["status"] for job in self.jobs]
        done = statuses.count("done")
        jobs = counted(len(statuses), "job")
        lines = [f"Run {self.title!r} in {self.folder}: {done} of {jobs} done"]
        failed = [job for job in self.jobs if job["status"] == "failed"]
        for job in failed[:MOST_FAILURES]:
            why = job.get("error") or self.result(job["id"], arrays=False).error
            lines.append(f"  failed: {job['id']}: {why}")
        if len(failed) > MOST_FAILURES:
            lines.append(f"  and {len(failed) - MOST_FAILURES} more")
        return "\n".join(lines)

    @property
    def title(self) -> str:
        """What the run is about."""
        return str(self.record.get("title") or self.folder.name)

    @property
    def jobs(self) -> list[JobEntry]:
        """Every job: id, status, labels, path."""
        return list(self._entries.values())

    @property
    def selected(self) -> list[JobEntry]:
        """The jobs to be run: all, or those that `only` selects."""
        return [job for job in self.jobs if self._selected is None or job["id"] in self._selected]

    @property
    def done(self) -> bool:
        """Did every selected job end well?"""
        return all(job["status"] == "done" for job in self.selected)

    @property
    def ended(self) -> list[JobEntry]:
        """The jobs that are done or failed: those with a result."""
        return [job for job in self.jobs if job["status"] in ("done", "failed")]

    def mark(self, job: str, status: str, error: str = "") -> None:
        """Note a job's status, and why it failed; `run.json` is written every few seconds."""
        entry = self._entries[job]
        entry["status"] = status
        entry.pop("error", None)
        if error:
            entry["error"] = error.partition("\n")[0]
        # Written rarely: readers take the status from the results.
        if time.monotonic() > self._next_write:
            self.write()

    def write(self) -> None:
        """Write `run.json`."""
        began = time.monotonic()
        # A listener may have changed the record, but not the entries.
        write_json(self.folder / "run.json", {"schema": SCHEMA, **self.record, "jobs": self.jobs})
        ended = time.monotonic()
        self._next_write = ended + max(SECONDS_BETWEEN_WRITES, LEAST_PAUSE * (ended - began))

    def result(self, job: str, *, arrays: bool = True) -> Result:
        """The result of the job with this id; without arrays only its numbers are read."""
        return JobFolder.of(self.folder, job).read(arrays=arrays)

    def results(self, **labels: Any) -> list[Result]:
        """Results whose labels match, in the order of jobs.

        >>> run.results(probe="nad", architecture="lenet")       # doctest: +SKIP
        """
        # Misspelt labels would match nothing, and look like a run without results.
        for label in labels:
            if label not in _LABELS:
                listed = "probe, architecture, dataset and seed"
                raise Error(f"results are chosen by {listed}, found {label!r}")
        return [
            self.result(job["id"])
            for job in self.ended
            if all(job["labels"].get(key) == value for key, value in labels.items())
        ]

    def table(self, *, options: bool = False) -> list[dict[str, Any]]:
        """One row per job and quantity, ready for `pandas.DataFrame`.

        Where every state of a trajectory was measured, one row per quantity and `step`.
        `p` is the two-sided p-value against the null, and `z` the same as a normal deviate. With
        `options` every option of the probe is a column, named `option.networks`.
        """
        rows: list[dict[str, Any]] = extra("run as rows")(self, options)
        return rows

    def to_pandas(self, *, options: bool = False, long: bool = False) -> Any:
        """The table as a `pandas.DataFrame`, where pandas is installed.

        With `long`, one row for each number of the tables of all results: a column for each axis.
        """
        if long:
            return extra("run as long pandas")(self)
        return extra("run as pandas")(self.table(options=options))

    def to_xarray(self, probe: str | None = None) -> Any:
        """Quantities of a probe as an `xarray.Dataset` over architecture, dataset and seed.

        Where every state of a trajectory was measured, also over `step`.
        The error of `x` is `x-stderr`, its null `x-null`. `probe` is the probe's label; it may be
        left out where there is only one.
        """
        return extra("run as xarray")(self.table(), probe)

    def to_markdown(self, quantities: Sequence[str] | None = None) -> str:
        """A table for each probe, values rounded to their errors and pooled over seeds.

        Its rows are the quantities of these names, in this order, or all.
        """
        return str(extra("run as markdown")(self, quantities))

    def to_latex(self, quantities: Sequence[str] | None = None) -> str:
        """The same tables as LaTeX; they need the package booktabs."""
        return str(extra("run as latex")(self, quantities))

    def _repr_html_(self) -> str:
        return str(extra("run as html")(self))


def read(folder: str | Path) -> Run:
    """The run in a folder, with the status of every job from its result.

    A `run.json` that is damaged or missing is made again from the results.
    """
    folder = Path(folder)
    try:
        record = run_record(folder)
        if record is None:
            raise Error(f"{folder} is not a run folder: it has neither run.json nor results")
        for job in record["jobs"]:
            job["status"] = JobFolder.of(folder, job["id"]).status()
    except OSError as error:
        raise Error(f"{folder} cannot be read: {error}") from error
    return Run(folder, record)


def run_record(folder: Path) -> RunRecord | None:
    """The content of `run.json`, else made from the results; None where there is neither."""
    path = inside(folder, "run.json")
    if path.is_file():
        try:
            record = read_json(path)
            check_run(record)
        except NewerSchemaError:
            raise
        except Error:
            return _rebuilt(folder)  # it is damaged
        for job in record["jobs"]:
            job["path"] = f"jobs/{job['id']}"
        return cast("RunRecord", record)
    return _rebuilt(folder)


def _rebuilt(folder: Path) -> RunRecord | None:
    """A run's record from its results."""
    entries: list[JobEntry] = []
    for path in sorted(inside(folder, "jobs").glob("*/result.json")):
        name = path.parent.name
        try:
            record = JobFolder.of(folder, name).read(arrays=False).record
            labels, status = record["labels"], record["status"]
        except (Error, KeyError):
            continue
        entries.append({"id": name, "status": status, "labels": labels, "path": f"jobs/{name}"})
    if not entries:
        return None
    seeds = sorted({entry["labels"].get("seed", 0) for entry in entries})
    return {"title": "", "seeds": seeds, "jobs": entries}
