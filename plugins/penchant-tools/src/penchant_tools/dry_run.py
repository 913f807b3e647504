"""`--dry-run`: what a run would cost, and what of it is refused; writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penchant.execution.selection import selected
from penchant.plugins.discovery import Plugins
from penchant.terminal import say
from penchant_numerics.statistics import counted

from penchant_tools.forecast import forecast
from penchant_tools.planning import plan
from penchant_tools.power import could_see


def print_forecast(
    raw: Mapping[str, Any], where: str, folder: Path, plugins: Plugins, only: Sequence[str]
) -> bool:
    """Print the forecast of an experiment.

    Args:
        raw: Its tables.
        where: What messages call it.
        folder: Its run folder.
        plugins: Where its components are found.
        only: Patterns of the jobs to run; none: all of them.

    Returns:
        Whether anything of it can run, or is done.
    """
    planned = plan(raw, plugins, where)
    chosen = selected(planned.jobs, only)
    predicted = forecast(planned.experiment, folder, chosen, planned.refused)
    counts = f"{counted(predicted.jobs, 'job')}, {predicted.done} already done"
    title = planned.experiment.settings.title or where
    say(f"{title}: {counts} -> {folder} (dry run)")
    for line in [*predicted.lines(), *could_see(chosen)]:
        say(line)
    return bool(predicted.planned or predicted.done)
