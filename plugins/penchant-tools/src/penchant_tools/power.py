"""What a run could see: how large an effect must be for its repetitions, before it starts."""

from __future__ import annotations

from collections.abc import Sequence

from penchant.experiments.jobs import Job
from penchant_numerics.statistics import significance

REPETITIONS = "trainings"  # the option that says how often a probe repeats itself
FEWEST_SEEDS = 3  # from which on their spread decides


def could_see(jobs: Sequence[Job]) -> list[str]:
    """A line per probe whose repetitions are so few that only large effects can be significant.

    Args:
        jobs: The jobs that were asked for.

    Returns:
        Lines about seeds, where there are three or more, else about trainings; none of a probe with
        enough of them. All quantities of a probe count as compared.
    """
    probes: dict[str, list[Job]] = {}
    for job in jobs:
        probes.setdefault(str(job.labels["probe"]), []).append(job)
    lines = []
    for name, own in probes.items():
        component = own[0].probe.component
        seeds = len({job.seed for job in own})
        over, count = REPETITIONS, component.options().get(REPETITIONS)
        if seeds >= FEWEST_SEEDS:
            over, count = "seeds", seeds
        if count is None:
            continue
        text = significance.could_see(count, over, len(component.quantities))
        if text:
            lines.append(f"  {name}: {text}")
    return lines
