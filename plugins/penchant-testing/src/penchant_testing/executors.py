"""What every executor must do, wherever its workers run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import attrs
from penchant.components.builtin import Processes
from penchant.components.component import Executor, Probe
from penchant.components.hookspecs import hookimpl
from penchant.components.options import option
from penchant.execution.job.context import Context
from penchant.execution.queue.tasks import Queue
from penchant.execution.runner import run_experiment
from penchant.execution.workers.executors import Team
from penchant.execution.workers.worker import Assignment
from penchant.experiments.experiment import build
from penchant.experiments.jobs import Job
from penchant.plugins import discovery
from penchant.results.quantities import Quantity
from penchant.results.result import Result
from penchant.results.runs import Run

SECONDS_TO_START = 120.0  # that a busy machine may take to start a worker


def check_executor(
    executor: str | type[Executor], folder: Path, *, deaths: bool = True, **options: Any
) -> None:
    """Run jobs with an executor: bytes, failures, progress, sharing of shards, and deaths.

    Args:
        executor: Its name, or a class of your own.
        folder: An empty folder.
        deaths: Whether a worker is a process whose death does not affect the others.
        **options: Options of the executor.
    """
    chosen = _Chosen(executor, options, folder)
    check_bytes(chosen)
    if chosen.name != "serial":
        check_sharing(chosen)
        if deaths:
            check_a_death(chosen)


class _Chosen:
    """An executor with its options, and a folder for runs."""

    def __init__(
        self, executor: str | type[Executor], options: dict[str, Any], folder: Path
    ) -> None:
        plugins = discovery.load().with_component(WorkerCheck, Probe)
        if not isinstance(executor, str):
            plugins = plugins.with_component(executor, Executor)
        self.plugins = plugins
        self.name = executor if isinstance(executor, str) else executor.name
        self._table = {"name": self.name, **options}
        self._folder = folder

    def run(self, what: str, *probes: dict[str, Any], seeds: int = 1) -> Run:
        """Run probes of one kind in a folder of that name."""
        raw = {
            "probes": [{"name": WorkerCheck.name, **probe} for probe in probes],
            "seeds": list(range(seeds)),
            "executor": self._table,
            "workers": 2,
            "figures": False,
            "device": "cpu",
        }
        folder = self._folder / what
        events = _Recorder()
        plugins = self.plugins.with_listener("recorder", events)
        run = run_experiment(build(raw, plugins, "check_executor"), plugins, folder)
        left = folder / "queue"
        assert not left.exists(), f"{left} was left behind"
        for job in run.jobs:
            assert job["id"] in events.started, f"{job['id']} never started"
            assert job["id"] in events.finished, f"{job['id']} never finished"
        if "map" in [probe.get("what", "map") for probe in probes]:
            assert events.progress, "no progress was reported"
        return run


class _Recorder:
    """A listener: which jobs began and ended, and whether any reported progress."""

    def __init__(self) -> None:
        self.started: set[str] = set()
        self.finished: set[str] = set()
        self.progress = 0

    @hookimpl
    def penchant_job_started(self, run: Any, job: str) -> None:
        self.started.add(job)

    @hookimpl
    def penchant_progress(self, job: str, what: str, done: int, total: int) -> None:
        self.progress += 1

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        self.finished.add(job.id)


def check_bytes(chosen: _Chosen) -> None:
    """Jobs give the bytes of `serial`; one that fails hurts no other."""
    serial = _Chosen("serial", {}, chosen._folder)
    probes = ({"label": "maps"}, {"label": "raises", "what": "raise"})
    expected = serial.run("expected", *probes, seeds=2)
    run = chosen.run("found", *probes, seeds=2)
    assert _numbers(run, "maps") == _numbers(expected, "maps"), "numbers differ from serial"
    for result in run.results(probe="raises"):
        assert result.status == "failed"
        assert str(result.error).startswith("ValueError: 3 is refused"), result.error


def _numbers(run: Run, probe: str) -> list[bytes]:
    numbers = []
    for result in run.results(probe=probe):
        assert result.status == "done", result.error
        numbers.append(result.arrays["numbers"].tobytes())
    return numbers


def check_sharing(chosen: _Chosen) -> None:
    """The shards of a long job are done by several workers, and what one raises reaches the job."""
    probes = ({"label": "short", "shards": 1}, {"label": "long", "what": "share"})
    run = chosen.run("shared", *probes)
    (result,) = run.results(probe="long")
    assert result.status == "done", result.error
    assert result.quantities["workers"].value > 1, "one worker has done all shards"


def check_a_death(chosen: _Chosen) -> None:
    """A task whose worker dies is done again; one that always crashes its worker fails."""
    marker = chosen._folder / "died"
    once = {"label": "once", "what": "die", "path": str(marker)}
    always = {"label": "always", "what": "die"}
    run = chosen.run("died", once, always, {"label": "other"})
    assert marker.exists()
    for label in ("once", "other"):
        (result,) = run.results(probe=label)
        assert result.status == "done", f"{label}: {result.error}"
    (result,) = run.results(probe="always")
    attempts = discovery.load().find("executor", chosen.name, "test").component.attempts  # type: ignore[attr-defined]
    assert f"crashed its worker {attempts} times" in (result.error or ""), result.error


def run_in_processes(jobs: list[Job], folder: Path, workers: int = 2) -> None:
    """Run jobs in worker processes; their results are in the folder.

    Args:
        jobs: The jobs, which may be of several experiments.
        folder: The run folder.
        workers: How many workers.
    """
    queue = Queue(folder)
    queue.make()
    waiting = [job.id for job in jobs]
    assignment = Assignment(
        folder, "test", jobs, waiting, notes={}, devices=workers, threads=1, attempts=3
    )
    team = Team(Processes(), assignment, workers)
    try:
        while len(queue.names("ended")) < len(jobs):
            team.grow(workers)
            team.tend()
            time.sleep(0.05)
    finally:
        team.stop()
        queue.remove()


@attrs.frozen
class WorkerCheck(Probe):
    """Does what a test of an executor asks for."""

    name = "worker-check"
    target = "penchant_testing.executors:run_check"
    quantities = {"workers": "how many processes or threads did the shards"}
    arrays = {"numbers": "one per shard"}
    presets = {"quick": {}}

    what: str = option("map", "what happens", choices=("map", "raise", "share", "die"))
    shards: int = option(6, "how many", at_least=1)
    path: str = option("", "a file that is made before the first death")


def run_check(options: Any, context: Context) -> Result:
    """Map shards, and say by how many workers they were done.

    Args:
        options: What happens.
        context: The context.

    Returns:
        A number from each shard.
    """
    died = bool(options.path) and Path(options.path).exists()
    if options.what == "die" and not died:
        if options.path:
            Path(options.path).touch()
        os._exit(9)
    workers: set[str] = set()
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        answers = list(context.map(check_shard, list(range(options.shards))))
        workers.update(answer["worker"] for answer in answers)
        # Other workers may still be starting.
        enough = options.what != "share" or len(workers) > 1
        if enough or time.monotonic() > deadline:
            break
    numbers = [answer["number"] for answer in answers]
    return Result({"workers": Quantity(len(workers), exact=True)}, {"numbers": numbers})


def check_shard(context: Context, item: int) -> dict[str, Any]:
    """A number of this shard, and who made it.

    Args:
        context: The context.
        item: Number of the shard.

    Returns:
        Both.
    """
    import threading

    import torch

    options = context.options
    if options.what == "raise" and item == 3:
        raise ValueError(f"{item} is refused")
    if options.what == "share":
        time.sleep(0.1)
    number = torch.rand((), generator=context.generator("shard", item), device="cpu")
    return {"number": number.item(), "worker": f"{os.getpid()} {threading.get_ident()}"}
