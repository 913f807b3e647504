"""What fits into the minutes: one job of every probe is timed in short, then they are chosen."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from penchant.execution.job.devices import default_workers
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job, serial_reason
from penchant_tools.timing import estimated

LONGEST = 5.0  # seconds for which a probe is timed
SHORTEST = 1.5
# What torch says where this process has taken gradients before: then nothing can be timed in a fork
# of it. Probes are begun while there are minutes left.
NOT_FORKED = "Autograd-and-Fork"
SHARE = 0.15  # of the minutes that may be used for timing


@attrs.frozen
class Costs:
    """What the jobs of each probe take.

    Attributes:
        seconds: Of one job, by the label of its probe.
        refused: Why a probe cannot run, by its label.
        workers: How many jobs run at a time.
        least: Probes of which only a lower bound is known.
    """

    seconds: dict[str, float]
    refused: dict[str, str]
    workers: int
    least: frozenset[str] = frozenset()

    def of(self, jobs: Sequence[Job]) -> float:
        """Seconds that jobs take together."""
        return sum(self.seconds.get(job.probe.label, 0.0) for job in jobs) / self.workers


def costs(experiment: Experiment, jobs: Sequence[Job], seconds: float) -> Costs:
    """Time one job of every probe.

    Args:
        experiment: The card's.
        jobs: All its jobs.
        seconds: That the card may take.

    Returns:
        What they cost.
    """
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.probe.label, job)
    each = min(LONGEST, max(SHORTEST, SHARE * seconds / len(first)))
    known: dict[str, float] = {}
    refused: dict[str, str] = {}
    least: set[str] = set()
    began, computed = time.monotonic(), _computed()
    with tempfile.TemporaryDirectory() as folder:
        for name, job in first.items():
            cost = estimated(job, Path(folder), each)
            if NOT_FORKED in cost.error:
                known[name] = SHORTEST
                least.add(name)
                continue
            if cost.ended and cost.error and not cost.skipped:
                refused[name] = cost.error
                continue
            known[name] = cost.seconds
            if not cost.ended:
                least.add(name)
    # On a busy machine a second of computing takes longer than a second.
    slower = max(1.0, (time.monotonic() - began) / max(_computed() - computed, 0.1))
    slowed = {name: slower * cost for name, cost in known.items()}
    return Costs(slowed, refused, _workers(experiment, jobs), frozenset(least))


def _computed() -> float:
    """Seconds of the processor that this process and its children have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _workers(experiment: Experiment, jobs: Sequence[Job]) -> int:
    executor = experiment.executor
    if (executor is not None and executor.name == "serial") or any(map(serial_reason, jobs)):
        return 1
    return experiment.settings.workers or default_workers(experiment.settings)


def fitting(
    jobs: Sequence[Job], found: Costs, seconds: float, done: Mapping[str, bool]
) -> list[Job]:
    """The jobs that fit into some seconds, in their order; those that are done cost nothing.

    A probe whose first job does not fit is left out; cheaper ones after it may still fit.
    """
    chosen: list[Job] = []
    left = seconds
    for job in jobs:
        if job.probe.label in found.refused:
            continue
        cost = 0.0 if done.get(job.id) else found.of([job])
        if cost <= left:
            chosen.append(job)
            left -= cost
    return chosen


class Clock:
    """The minutes of a card: how many are used, and how many are left."""

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self._began = time.monotonic()

    @property
    def used(self) -> float:
        """Minutes since the card began."""
        return (time.monotonic() - self._began) / 60

    @property
    def left(self) -> float:
        """Seconds that are left; 0 where there are none."""
        return max(0.0, 60 * (self.minutes - self.used))

    def text(self) -> str:
        """The minutes left, as they are printed."""
        return f"{max(0.0, self.minutes - self.used):.1f} of {self.minutes:g} minutes left"
