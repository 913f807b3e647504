"""Pages of runs: report.html with its figures, comparisons, notebook views, pandas and xarray."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penchant

if TYPE_CHECKING:
    import click

__all__ = ["penchant_commands", "penchant_result_stored", "penchant_run_finished"]


@penchant.hookimpl
def penchant_commands(cli: click.Group) -> None:
    """`penchant report`, `penchant compare` and `penchant cite`."""
    from penchant_report import commands

    cli.add_command(commands.report)
    cli.add_command(commands.compare)
    cli.add_command(commands.cite)


@penchant.hookimpl
def penchant_result_stored(job: Any, folder: Path, result: Any) -> str | None:
    """Draw the figures of a job where its result was computed; returns what went wrong."""
    target = type(job.probe.component).figures
    if not job.settings.figures or not (target or result.tables):
        return None
    from penchant_report import drawing

    if drawing.is_drawn(folder):
        return None
    return drawing.draw(folder, target, result) or None


@penchant.hookimpl
def penchant_run_finished(run: Any) -> None:
    """Write report.html, and figures of jobs that were stopped before they had them."""
    if run.temporary:
        return
    from penchant_report.drawing import draw_missing_in_time
    from penchant_report.report import write_report

    if run.record.get("figures", True):
        for job in run.jobs:
            problem = draw_missing_in_time(run, job["id"], run.record.get("time_limit"))
            if problem:
                warnings.warn(f"{job['id']}: {problem}", stacklevel=2)
    write_report(run)
