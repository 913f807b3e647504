"""The hooks. Plugins are discovered through the entry-point group `penchant`.

A plugin implements those it needs; each example below is the body of such a function::

    @penchant.hookimpl
    def penchant_probes():
        return [Sharpness]
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pluggy
from penchant.components.component import Architecture, Dataset, Estimator, Executor, Probe

if TYPE_CHECKING:
    import click
    from penchant.experiments.jobs import Job
    from penchant.results.result import Result
    from penchant.results.runs import Run

hookspec = pluggy.HookspecMarker("penchant")
hookimpl = pluggy.HookimplMarker("penchant")

COMPONENT_HOOKS = {
    "penchant_architectures": Architecture,
    "penchant_datasets": Dataset,
    "penchant_estimators": Estimator,
    "penchant_probes": Probe,
    "penchant_executors": Executor,
}


@hookspec
def penchant_architectures() -> list[type[Architecture]]:
    """Architectures of this plugin. Example: `return [Perceptron]`."""


@hookspec
def penchant_datasets() -> list[type[Dataset]]:
    """Datasets of this plugin. Example: `return [TwoMoons]`."""


@hookspec
def penchant_estimators() -> list[type[Estimator]]:
    """Estimators of this plugin, each for one role. Example: `return [GradientCovariance]`."""


@hookspec
def penchant_probes() -> list[type[Probe]]:
    """Probes of this plugin. Example: `return [Sharpness]`."""


@hookspec
def penchant_executors() -> list[type[Executor]]:
    """Executors of this plugin: ways to start workers. Example: `return [Ray]`."""


@hookspec
def penchant_commands(cli: click.Group) -> None:
    """Commands this plugin adds, such as `penchant doctor`. Import what a command needs inside it.

    Example: `cli.add_command(commands.compare)`.
    """


@hookspec
def penchant_run_started(run: Run) -> None:
    """A run begins; `run.folder`, `run.title` and `run.jobs` (id, status, labels) describe it.

    Example: `tracker.start(run.title)`.
    """


@hookspec
def penchant_job_started(run: Run, job: str) -> None:
    """The job with this id begins, here or in a worker. Example: `tracker.log(job, "running")`."""


@hookspec
def penchant_progress(job: str, what: str, done: int, total: int) -> None:
    """A job got further, here or in a worker: `done` of `total` of `what`.

    Example: `print(f"{job}: {done}/{total} {what}")`.
    """


@hookspec
def penchant_job_finished(run: Run, job: Job, result: Result) -> None:
    """A job ended, well or not; `result.status` is done or failed.

    Example: `tracker.log(job.id, {name: q.value for name, q in result.quantities.items()})`.
    """


@hookspec
def penchant_result_stored(job: Job, folder: Path, result: Result) -> str | None:
    """A job that is done has its result in `folder`; called in the process that computed it.

    What it returns is a warning, which is stored with the result.

    Example: `return draw(folder, type(job.probe.component).figures, result) or None`.
    """


@hookspec
def penchant_run_finished(run: Run) -> None:
    """A run ends, whatever became of its jobs. Example: `tracker.close()`."""
