"""What a run would cost, before it runs: one job of every cell is timed on this machine.

A cell is a probe with an architecture and a dataset; its seeds cost the same. A cell is given five
seconds at most (`timing`). As soon as that has taken as long as the run would, the cells that are
left are taken to be like those that were timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.execution.job.devices import default_workers
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job, serial_reason
from penchant.results.job_folder import JobFolder

from penchant_tools.refusals import refusal
from penchant_tools.timing import estimated

LONGEST = 5.0  # seconds that are spent on a cell


@attrs.frozen
class Cell:
    """A probe with an architecture and a dataset: how many jobs, and what one of them costs.

    Attributes:
        name: Its labels.
        jobs: Jobs that are still to be done, one per seed.
        seconds: How long one of them takes on one worker.
        span: How long it takes at least, however many workers there are.
        networks: Networks that it samples, where its options say so.
        steps: Steps of each of its trainings, where options say so.
        memory: Largest memory of its process, in bytes.
        may_stop: A training may end before its last step, which is not foreseen.
        refused: Why it cannot run.
        unknown: Why `seconds` is only a lower bound.
        assumed: It was not timed: `seconds` are those of other cells.
    """

    name: str
    jobs: int
    seconds: float = 0.0
    span: float = 0.0
    networks: int | None = None
    steps: int = 0
    memory: int = 0
    may_stop: bool = False
    refused: str = ""
    unknown: str = ""
    assumed: bool = False


@attrs.frozen
class Forecast:
    """What a run would cost.

    Attributes:
        cells: All cells with jobs that are still to be done, and those that are refused.
        jobs: How many jobs there are in all.
        done: How many of them have a result already.
        workers: How many run at a time.
        starting: Seconds until a process has loaded what every job needs.
    """

    cells: tuple[Cell, ...]
    jobs: int
    done: int
    workers: int
    starting: float

    @property
    def planned(self) -> list[Cell]:
        """The cells that can run."""
        return [cell for cell in self.cells if not cell.refused]

    @property
    def computing(self) -> float:
        """Seconds of all jobs together."""
        return sum(cell.jobs * cell.seconds for cell in self.cells)

    @property
    def seconds(self) -> float:
        """Seconds from the beginning to the end."""
        # However many workers there are, no job ends before its span.
        spans = [cell.span for cell in self.planned]
        longest = max(self.computing / self.workers, *spans, 0.0)
        # Workers load what they need once this process has told them what to do.
        loads = 1 if self.workers == 1 else 2
        return loads * self.starting + longest

    def lines(self) -> list[str]:
        """A line for every cell, and one for all of them."""
        width = max((len(cell.name) for cell in self.cells), default=0)
        lines = []
        for cell in self.cells:
            lines.append(f"  {cell.name:{width}}  {_about(cell)}")
            if cell.unknown:
                lines.append(f"  {'':{width}}  {cell.unknown}")
        if not self.planned:
            return lines
        unknown = any(cell.unknown for cell in self.planned)
        sign = "more than" if unknown else "about"
        workers = "one worker" if self.workers == 1 else f"{self.workers} workers"
        megabytes = max(cell.memory for cell in self.planned) / 2**20
        total, computing = duration(self.seconds), duration(self.computing)
        cost = f"{sign} {total} with {workers} ({computing} of computing)"
        # Nothing is known of the memory where no job came as far as its first report.
        memory = f", {megabytes:.0f} MB per process" if megabytes else ""
        return [*lines, f"{cost}{memory}"]


def _about(cell: Cell) -> str:
    """What is known of a cell."""
    if cell.refused:
        return f"refused: {cell.refused}"
    cost = duration(cell.seconds)
    if cell.unknown:
        cost = f"more than {cost}"
    elif cell.assumed:
        cost = f"perhaps {cost}, not timed"
    elif cell.may_stop:
        cost = f"at most {cost}"
    facts = [f"{cell.jobs} jobs, {cost} each" if cell.jobs > 1 else cost]
    if cell.networks:
        facts.append(f"{cell.networks} networks")
    if cell.steps:
        facts.append(f"trainings of {cell.steps} steps")
    return ", ".join(facts)


def duration(seconds: float) -> str:
    """A time as people write it.

    >>> duration(3.21), duration(75), duration(7300)
    ('3.2 s', '1:15 min', '2:01 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02} h"


def forecast(
    experiment: Experiment, folder: Path, jobs: Sequence[Job], refused: Sequence[Cell] = ()
) -> Forecast:
    """Time cells while the run would last; nothing is written into the run folder.

    Args:
        experiment: What would be run.
        folder: The run folder; what is done there already costs nothing.
        jobs: The jobs that were asked for.
        refused: Cells that are known to be refused.

    Returns:
        What it would cost.
    """
    starting = _loading()
    states = [JobFolder.of(folder, job.id).state(job.key) for job in jobs]
    waiting = [job for job, (done, _) in zip(jobs, states) if not done]
    workers = _workers(experiment, waiting)
    by_cell: dict[str, list[Job]] = {}
    for job in waiting:
        by_cell.setdefault(name_of(job.labels), []).append(job)
    found = Forecast(tuple(refused), len(jobs), len(jobs) - len(waiting), workers, starting)
    began = time.perf_counter()
    # One folder for all: cells that share a trained network train it once.
    with tempfile.TemporaryDirectory() as temporary:
        for name, same in by_cell.items():
            whole = _with_assumed(found, by_cell)
            # This command has loaded what a run would load as well.
            spent = starting + time.perf_counter() - began
            if found.planned and spent > whole.seconds:
                return _without_refused(whole, by_cell, Path(temporary))
            cell = _timed(name, same, Path(temporary), workers)
            found = attrs.evolve(found, cells=(*found.cells, cell))
    return found


def _timed(name: str, jobs: Sequence[Job], folder: Path, workers: int) -> Cell:
    """Time one job of a cell.

    Args:
        name: The cell's.
        jobs: Its jobs, which cost the same.
        folder: Where they may write.
        workers: How many would share the shards of a job.

    Returns:
        What a job costs.
    """
    job = jobs[0]
    cost = estimated(job, folder, LONGEST)
    # What fails although nothing was left out would fail in a run as well.
    if cost.ended and cost.error and not cost.skipped:
        return Cell(name, len(jobs), refused=cost.error)
    unknown = ""
    if not cost.ended:
        # What a probe has warned of before may tell of its cost.
        stopped = cost.error or f"stopped after {LONGEST:g} s"
        unknown = "; ".join([stopped, *cost.warnings])
    elif cost.error:
        unknown = f"not timed to its end: {cost.error}"
    # Its shards are shared by workers, all else is done by one of them.
    shared = min(workers, cost.shards) or 1
    training = job.probe.training
    return Cell(
        name,
        len(jobs),
        seconds=cost.seconds,
        span=cost.seconds - cost.mapped + cost.mapped / shared,
        networks=job.probe.component.options().get("networks"),
        steps=cost.steps,
        memory=cost.memory,
        may_stop=training is not None and training.until_loss is not None,
        unknown=unknown,
    )


def _with_assumed(found: Forecast, by_cell: Mapping[str, Sequence[Job]]) -> Forecast:
    """The forecast with cells that were not timed: each takes as long as the others do.

    Args:
        found: What is known so far.
        by_cell: Jobs of all cells, by the cell's name.

    Returns:
        A forecast of all cells.
    """
    known = {cell.name for cell in found.cells}
    cells = list(found.cells)
    for name, jobs in by_cell.items():
        if name in known:
            continue
        # Those of the same probe cost the like of it, if any is known.
        like = [cell for cell in found.planned if cell.name.split()[0] == name.split()[0]]
        like = like or found.planned
        if not like:
            break
        seconds = sum(cell.seconds for cell in like) / len(like)
        span = sum(cell.span for cell in like) / len(like)
        cells.append(Cell(name, len(jobs), seconds=seconds, span=span, assumed=True))
    return attrs.evolve(found, cells=tuple(cells))


def _without_refused(
    found: Forecast, by_cell: Mapping[str, Sequence[Job]], folder: Path
) -> Forecast:
    """The forecast, with the reason where a cell that was not timed cannot even begin.

    Args:
        found: A forecast of all cells.
        by_cell: Their jobs, by the cell's name.
        folder: Where they may write.

    Returns:
        The same, with refused cells.
    """
    cells = []
    for cell in found.cells:
        reason = refusal(by_cell[cell.name][0], folder) if cell.assumed else ""
        cells.append(Cell(cell.name, cell.jobs, refused=reason) if reason else cell)
    return attrs.evolve(found, cells=tuple(cells))


def name_of(labels: dict[str, Any]) -> str:
    """A cell as people speak of it."""
    axes = ("probe", "architecture", "dataset")
    given = [str(labels[axis]) for axis in axes if axis in labels]
    return " ".join(given)


def _loading() -> float:
    """Seconds of the processor that this command has used to load what every job needs."""
    import matplotlib.figure  # noqa: F401
    import scipy.linalg  # noqa: F401
    import torch._dynamo  # noqa: F401  # which the first optimiser asks for

    return time.process_time()


def _workers(experiment: Experiment, jobs: Sequence[Job]) -> int:
    """How many jobs or shards are done at a time."""
    executor = experiment.executor
    alone = executor is not None and executor.name == "serial"
    if alone or any(map(serial_reason, jobs)):
        return 1
    settings = experiment.settings
    return settings.workers or default_workers(settings)
