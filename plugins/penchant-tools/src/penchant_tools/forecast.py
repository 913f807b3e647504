"""What a run would cost, before it runs: cells of its grid are rehearsed on this machine.

A cell is a probe with an architecture and a dataset; its seeds cost the same. It is run in a folder
that is deleted, with some of its shards and the first steps of its trainings. What is left out is
counted as taking as long. So an early stop of a training is not foreseen, and a computation without
shards or trainings is done in full, for five seconds at most. As soon as rehearsing has taken as
long as the run would, the cells that are left are taken to be like those that were rehearsed.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.execution.attempts import run_job
from penchant.execution.environment import default_workers, peak_memory, place
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job, serial_reason
from penchant.plugins import discovery
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result
from penchant_numerics.rehearsal import Clock, rehearsed

from penchant_tools.refusals import refusal
from penchant_tools.rehearsing import RehearsingPool

LONGEST = 5.0  # seconds of a rehearsal that is then given up
AGAIN = 1.0  # seconds after which one that did not stop is told again
BETWEEN_LOOKS = 0.1  # seconds


@attrs.frozen
class Cell:
    """A probe with an architecture and a dataset: how many jobs, and what one of them costs.

    Attributes:
        name: Its labels.
        jobs: Jobs that are still to be done, one a seed.
        seconds: How long one of them takes on one worker.
        span: How long it takes at least, however many workers there are.
        networks: Networks that it draws, where its options say so.
        trainings: Networks that it trains.
        steps: Steps of all these trainings together.
        may_stop: A training may end before its last step, which is not foreseen.
        refused: Why it cannot run.
        unknown: Why `seconds` is only a lower bound.
        assumed: It was not rehearsed: `seconds` are those of other cells.
    """

    name: str
    jobs: int
    seconds: float = 0.0
    span: float = 0.0
    networks: int | None = None
    trainings: int = 0
    steps: int = 0
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
        memory: Largest memory of a process, in bytes.
    """

    cells: tuple[Cell, ...]
    jobs: int
    done: int
    workers: int
    starting: float
    memory: int

    @property
    def planned(self) -> list[Cell]:
        """The cells that can run."""
        return [cell for cell in self.cells if not cell.refused]

    @property
    def computing(self) -> float:
        """Seconds of all jobs together."""
        costs = [cell.jobs * cell.seconds for cell in self.cells]
        return sum(costs)

    @property
    def seconds(self) -> float:
        """Seconds from the beginning to the end."""
        # However many workers there are, no job ends before its span.
        spans = [cell.span for cell in self.planned]
        shared = self.computing / self.workers
        longest = max(shared, *spans, 0.0)
        # Workers load what they need once this process has told them what to do.
        loads = 1 if self.workers == 1 else 2
        return loads * self.starting + longest

    def lines(self) -> list[str]:
        """A line for every cell, and one for all of them."""
        widths = [len(cell.name) for cell in self.cells]
        width = max(widths, default=0)
        lines = []
        for cell in self.cells:
            lines.append(f"  {cell.name:{width}}  {_about(cell)}")
            if cell.unknown:
                lines.append(f"  {'':{width}}  {cell.unknown}")
        if not self.planned:
            return lines
        # All of them together.
        unknown = any(cell.unknown for cell in self.planned)
        sign = "more than" if unknown else "about"
        total = spoken(self.seconds)
        computing = spoken(self.computing)
        workers = "one worker" if self.workers == 1 else f"{self.workers} workers"
        megabytes = self.memory / 2**20
        memory = f"{megabytes:.0f} MB a process"
        lines.append(f"{sign} {total} with {workers} ({computing} of computing), {memory}")
        return lines


def _about(cell: Cell) -> str:
    """What is known of a cell."""
    if cell.refused:
        return f"refused: {cell.refused}"
    cost = spoken(cell.seconds)
    if cell.unknown:
        cost = f"more than {cost}"
    elif cell.assumed:
        cost = f"perhaps {cost}, not rehearsed"
    elif cell.may_stop:
        cost = f"at most {cost}"
    if cell.jobs > 1:
        cost = f"{cell.jobs} jobs, {cost} each"
    facts = [cost]
    if cell.networks:
        facts.append(f"{cell.networks} networks drawn")
    if cell.trainings:
        facts.append(f"{cell.trainings} trained, {cell.steps} steps in all")
    return ", ".join(facts)


def spoken(seconds: float) -> str:
    """A time as people say it.

    >>> spoken(3.21), spoken(75), spoken(7300)
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
    experiment: Experiment,
    folder: Path,
    jobs: Sequence[Job],
    refused: Sequence[Cell] = (),
) -> Forecast:
    """Rehearse cells while the run would last; nothing is written into the run folder.

    Args:
        experiment: What would be run.
        folder: The run folder; what is done there already costs nothing.
        jobs: The jobs that were asked for.
        refused: Cells that are known to be refused.

    Returns:
        What it would cost.
    """
    starting = _loading()
    waiting = [job for job in jobs if not JobFolder.of(folder, job.id).is_current(job.key)]
    workers = _workers(experiment, waiting)
    by_cell: dict[str, list[Job]] = {}
    for job in waiting:
        name = name_of(job.labels)
        by_cell.setdefault(name, []).append(job)
    found = Forecast(
        tuple(refused),
        jobs=len(jobs),
        done=len(jobs) - len(waiting),
        workers=workers,
        starting=starting,
        memory=0,
    )
    began = time.perf_counter()
    # One folder for all: cells that share a trained network train it once.
    with tempfile.TemporaryDirectory() as temporary:
        for name, same in by_cell.items():
            whole = _with_assumed(found, by_cell)
            # This command has loaded what a run would load as well.
            spent = starting + time.perf_counter() - began
            if found.planned and spent > whole.seconds:
                found = _without_refused(whole, by_cell, Path(temporary))
                break
            cell = _rehearsed(name, same[0], Path(temporary), workers)
            cell = attrs.evolve(cell, jobs=len(same))
            found = attrs.evolve(found, cells=(*found.cells, cell))
    return attrs.evolve(found, memory=peak_memory())


def _with_assumed(found: Forecast, by_cell: Mapping[str, Sequence[Job]]) -> Forecast:
    """The forecast with cells that were not rehearsed: each takes as long as the others do.

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
    found: Forecast,
    by_cell: Mapping[str, Sequence[Job]],
    folder: Path,
) -> Forecast:
    """The forecast, with the reason where a cell that was not rehearsed cannot even begin.

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
    import torch  # noqa: F401

    return time.process_time()


def _workers(experiment: Experiment, jobs: Sequence[Job]) -> int:
    """How many jobs or shards are done at a time."""
    executor = experiment.executor
    alone = executor is not None and executor.name == "serial"
    if alone or any(map(serial_reason, jobs)):
        return 1
    settings = experiment.settings
    return settings.workers or default_workers(settings)


def _rehearsed(name: str, job: Job, folder: Path, workers: int) -> Cell:
    """Run one job of a cell in short.

    Args:
        name: The cell's.
        job: One of its jobs.
        folder: Where it may write.
        workers: How many would share its shards.

    Returns:
        What the job costs.
    """
    clock = Clock(_passed(job))
    # The limit of a rehearsal is another one.
    settings = attrs.evolve(job.settings, time_limit=None)
    job = attrs.evolve(job, settings=settings)
    pool = RehearsingPool(clock)
    began = clock.now()
    try:
        with rehearsed(clock), _given_up(clock, LONGEST), warnings.catch_warnings():
            # Numbers that stand for others may well not be finite.
            warnings.simplefilter("ignore")
            listeners = discovery.load().listening("penchant_result_stored")
            result = run_job(job, folder, pool=pool, listeners=listeners)
    except GivenUpError as error:
        # It was raised outside of the probe: while a result was kept, or a figure drawn.
        result = Result(record={"error": type(error).__name__})
    seconds = clock.now() - began
    problem = result.error or ""
    left_out = pool.stood_in > 0 or clock.left_out > 0
    # Some code tells of whatever is raised in words of its own.
    too_long = GivenUpError.__name__ in problem
    # What fails although nothing was left out would fail in a run as well.
    if problem and not left_out and not too_long:
        return Cell(name, 1, refused=problem)
    unknown = f"not rehearsed to its end: {problem}" if problem else ""
    if too_long:
        # What a probe has said of its cost before is all that is known.
        given_up = f"the rehearsal was given up after {LONGEST:g} s"
        unknown = "; ".join([given_up, *result.warnings])
    # Its shards are shared by workers, all else is done by one of them.
    shared = min(workers, pool.items) or 1
    span = seconds - pool.seconds + pool.seconds / shared
    return Cell(
        name,
        1,
        seconds=seconds,
        span=span,
        networks=job.probe.component.options().get("networks"),
        trainings=clock.loops,
        steps=clock.turns,
        may_stop=clock.loops > 0 and _may_stop(job),
        unknown=unknown,
    )


def tried(job: Job, folder: Path, seconds: float) -> str:
    """Why a job is refused: by the kernel, or by the probe within some seconds of a rehearsal.

    Args:
        job: What would be measured.
        folder: Where it may write.
        seconds: How long the probe may run.

    Returns:
        What the job would fail with; empty where it began well.
    """
    clock = Clock(_passed(job))
    pool = RehearsingPool(clock)
    try:
        with rehearsed(clock), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            limit = _given_up(clock, seconds)
            reason = refusal(job, folder, pool=pool, limit=limit)
    except GivenUpError:
        return ""
    # Numbers that stand for others may fail where those of a run do not.
    left_out = pool.stood_in > 0 or clock.left_out > 0
    return "" if left_out or GivenUpError.__name__ in reason else reason


class GivenUpError(BaseException):
    """A rehearsal took too long; no probe can catch it by accident."""


@contextlib.contextmanager
def _given_up(clock: Clock, longest: float) -> Iterator[None]:
    """Raise in the middle of a rehearsal that takes too long by its own clock.

    More than once, because what is raised in a destructor goes no further.
    """
    # Signals reach the main thread only, and not every system has timers.
    in_main = threading.current_thread() is threading.main_thread()
    able = in_main and hasattr(signal, "setitimer")
    if not able:
        yield
        return
    until = [clock.passed() + longest]

    def look(signum: int, frame: Any) -> None:
        now = clock.passed()
        if now > until[0]:
            until[0] = now + AGAIN
            raise GivenUpError

    def unraisable(lost: Any) -> None:
        if not isinstance(lost.exc_value, GivenUpError):
            shown(lost)

    before = signal.signal(signal.SIGALRM, look)
    shown, sys.unraisablehook = sys.unraisablehook, unraisable
    try:
        signal.setitimer(signal.ITIMER_REAL, BETWEEN_LOOKS, BETWEEN_LOOKS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = shown


def _may_stop(job: Job) -> bool:
    training = job.probe.training
    return training is not None and training.until_loss is not None


def _passed(job: Job) -> Callable[[], float]:
    """How time passes for a job: a single thread of a CPU knows its own, on a busy machine too."""
    device = place(job.settings.device)
    if device == "cpu" and job.settings.threads == 1:
        return time.process_time
    return time.perf_counter
