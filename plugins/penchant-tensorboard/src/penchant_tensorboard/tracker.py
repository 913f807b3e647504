"""The hooks: every job writes events into a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import penchant

_folder: list[Path] = []  # where the run that goes on writes; empty: nowhere
_writers: dict[str, Any] = {}  # of jobs that have not ended


@penchant.hookimpl
def penchant_run_started(run: Any) -> None:
    """Note where to write, if anywhere."""
    # A run before this one may have written elsewhere.
    _folder.clear()
    log_folder = os.environ.get("PENCHANT_TENSORBOARD")
    if log_folder:
        _folder.append(Path(log_folder) / run.folder.name)


def _writer(job: str) -> Any:
    # Loaded when it is needed: commands that run nothing stay fast.
    from tensorboardX import SummaryWriter

    if job not in _writers:
        log_folder = _folder[0] / job
        _writers[job] = SummaryWriter(str(log_folder))
    return _writers[job]


@penchant.hookimpl
def penchant_progress(job: str, what: str, done: int, total: int) -> None:
    """The share that is done, over the steps."""
    if not _folder:
        return
    share = done / max(total, 1)
    writer = _writer(job)
    writer.add_scalar(f"progress/{what}", share, done)


@penchant.hookimpl
def penchant_job_finished(run: Any, job: Any, result: Any) -> None:
    """The result, or why there is none."""
    if not _folder:
        return
    writer = _writer(job.id)
    # A quantity with its error and its null, one curve each.
    for name, quantity in result.quantities.items():
        numbers = {"": quantity.value, "-stderr": quantity.stderr, "-null": quantity.null}
        for ending, number in numbers.items():
            if number is not None:
                writer.add_scalar(f"{name}{ending}", number)
    # How it went, and what the numbers mean.
    lines = [result.error or result.status, *result.warnings]
    lines += [f"{name}: {text}" for name, text in result.conventions.items()]
    writer.add_text("about", "  \n".join(lines))
    if result.status == "done" and result.record.get("figures"):
        for name, figure in result.figures().items():
            writer.add_figure(name, figure)
    _writers.pop(job.id).close()


@penchant.hookimpl
def penchant_run_finished(run: Any) -> None:
    """Complete the files of jobs that were stopped."""
    while _writers:
        _, writer = _writers.popitem()
        writer.close()
