"""The hook: every job that ends becomes a run of MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import penchant

if TYPE_CHECKING:
    from penchant.experiments.jobs import Job
    from penchant.results.runs import Run


@penchant.hookimpl
def penchant_job_finished(run: Run, job: Job, result: penchant.Result) -> None:
    """Send quantities, figures, warnings and conventions, where an experiment is named."""
    experiment = os.environ.get("PENCHANT_MLFLOW")
    if not experiment:
        return
    # Imported here, so that commands that run nothing stay fast.
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    existing = client.get_experiment_by_name(experiment)
    number = existing.experiment_id if existing else client.create_experiment(experiment)
    tracked = client.create_run(number, run_name=job.id).info.run_id
    for name, value in {**job.labels, **result.options}.items():
        client.log_param(tracked, name, value)
    for name, quantity in result.quantities.items():
        numbers = {"": quantity.value, "-stderr": quantity.stderr, "-null": quantity.null}
        for ending, value in numbers.items():
            if value is not None and not quantity.missing:
                client.log_metric(tracked, f"{name}{ending}", value)
    texts = {"status": result.status, "error": result.error or "", "run": run.folder.name}
    for name, text in {**texts, **_notes(result)}.items():
        client.set_tag(tracked, name, text)
    for picture in _figures(run, job):
        client.log_artifact(tracked, str(picture), "figures")
    client.set_terminated(tracked, "FINISHED" if result.status == "done" else "FAILED")


def _notes(result: penchant.Result) -> dict[str, str]:
    """Warnings and conventions as tags."""
    notes = {f"warning {number}": text for number, text in enumerate(result.warnings, 1)}
    return notes | {f"convention {name}": text for name, text in result.conventions.items()}


def _figures(run: Run, job: Job) -> list[Path]:
    """The figures that the report has drawn of a job."""
    folder = run.folder / "jobs" / job.id / "figures"
    return [path for path in sorted(folder.glob("*")) if path.suffix in (".svg", ".png")]
