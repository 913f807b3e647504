"""What fits into the minutes: every probe is timed in short, and begun while its time is left.

Minutes are of the processor, so that a busy machine gives the same card more slowly. On a GPU, and
where workers share the jobs, they are minutes of the clock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from penchant.execution.job.devices import default_workers, resolve_device
from penchant.execution.queue.limits import raising
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job, serial_reason
from penchant_tools.timing import estimated

LONGEST = 5.0  # seconds for which a probe is timed
SHORTEST = 1.0
ENDED = 1.1  # times what it was given that a probe has had when it is ended
BUSIEST = 10.0  # times that the clock may run ahead of the processor while a probe is timed
# What torch says where this process has taken gradients before: then nothing can be timed in a fork
# of it. Probes are begun while there are minutes left.
NOT_FORKED = "Autograd-and-Fork"
SHARE = 0.15  # of the minutes that may be used for timing
WRITING = 0.15  # of the minutes, for the report and the pages at the end
LONGEST_WRITING = 10.0  # seconds
OVERRUN = 3.0  # times its forecast that a probe may take
THIRD = 3.0  # of what is left, which it may take in any case


class OutOfMinutesError(KeyboardInterrupt):
    """The minutes are used: the run stops as on Ctrl-C, and what is done stays."""


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

    def with_measured(self, seconds: Mapping[str, float]) -> Costs:
        """The same with what the jobs of some probes have really taken."""
        known = {**self.seconds, **seconds}
        return attrs.evolve(self, seconds=known, least=self.least - seconds.keys())


class Clock:
    """The minutes of a card: how many are used, and how many are left.

    Args:
        minutes: To use.
        of_processor: Are they of the processor, this process and its children, or of the clock?
    """

    def __init__(self, minutes: float, *, of_processor: bool = True) -> None:
        self.minutes = minutes
        self.of_processor = of_processor
        self._began = self._now()
        self._began_on_the_clock = time.monotonic()

    def _now(self) -> float:
        return _computed() if self.of_processor else time.monotonic()

    @property
    def used(self) -> float:
        """Minutes since the card began."""
        return (self._now() - self._began) / 60

    @property
    def left(self) -> float:
        """Seconds that are left for measuring; 0 where there are none."""
        writing = min(LONGEST_WRITING, 60 * self.minutes * WRITING)
        return max(0.0, 60 * (self.minutes - self.used) - writing)

    @property
    def busy(self) -> float:
        """How many seconds of the clock one of these minutes' seconds takes."""
        passed = time.monotonic() - self._began_on_the_clock
        return min(BUSIEST, max(1.0, passed / max(60 * self.used, 1e-3)))

    def text(self) -> str:
        """The minutes left, as they are printed."""
        return f"{max(0.0, self.minutes - self.used):.1f} of {self.minutes:g} minutes left"

    @contextlib.contextmanager
    def ending_after(self, seconds: float) -> Iterator[None]:
        """Raise `OutOfMinutesError` in the middle of whatever runs when so many more are used."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        timer, number = signal.ITIMER_REAL, signal.SIGALRM
        if self.of_processor:
            timer, number = signal.ITIMER_PROF, signal.SIGPROF
        with raising(number, OutOfMinutesError("the minutes are used")):
            signal.setitimer(timer, max(seconds, 1e-3))
            try:
                yield
            finally:
                signal.setitimer(timer, 0)


def clock_for(minutes: float, *, device: str | None, workers: int | None) -> Clock:
    """The clock of a card: of the processor where one process computes on it."""
    on_processor = resolve_device(device or "auto").type == "cpu"
    return Clock(minutes, of_processor=on_processor and not (workers and workers > 1))


def costs(experiment: Experiment, jobs: Sequence[Job], clock: Clock) -> Costs:
    """Time one job of every probe.

    Args:
        experiment: The card's.
        jobs: All its jobs.
        clock: Of the card.

    Returns:
        What they cost.
    """
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.probe.label, job)
    each = min(LONGEST, max(SHORTEST, SHARE * clock.left / len(first)))
    known: dict[str, float] = {}
    refused: dict[str, str] = {}
    least: set[str] = set()
    began, computed = clock.used, _computed()
    with tempfile.TemporaryDirectory() as folder:
        for name, job in first.items():
            given = each * clock.busy
            cost = estimated(job, Path(folder), given)
            if NOT_FORKED in cost.error:
                known[name] = 0.0
                least.add(name)
                continue
            if cost.ended and cost.error and not cost.skipped:
                refused[name] = cost.error
                continue
            known[name] = cost.seconds
            if not cost.ended:
                least.add(name)
                # All that is known is how long it was given: on a busy machine it computed less.
                if cost.seconds < ENDED * given:
                    known[name] = each
    # On a busy machine a second of computing takes longer than a second of the clock.
    slower = max(1.0, 60 * (clock.used - began) / max(_computed() - computed, 0.1))
    slowed = {name: slower * cost for name, cost in known.items()}
    return Costs(slowed, refused, _workers(experiment, jobs), frozenset(least))


def _computed() -> float:
    """Seconds of the processor that this process and its children have used."""
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


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


def in_turn(jobs: Sequence[Job], found: Costs) -> list[Job]:
    """Jobs of known cost, then those of which only a lower bound is known: they may take it all."""
    return sorted(jobs, key=lambda job: job.probe.label in found.least)


def allowed(forecast: float, left: float) -> float:
    """Seconds after which a probe is ended: thrice its forecast, or a third of what is left.

    >>> allowed(10.0, 200.0), allowed(1.0, 21.0), allowed(10.0, 20.0)
    (66.66666666666667, 7.0, 20.0)
    """
    return min(left, max(OVERRUN * forecast, left / THIRD))
