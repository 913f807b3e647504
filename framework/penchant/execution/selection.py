"""Which jobs of an experiment a command runs: those that were named, or its part of all."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import attrs
from penchant.errors import Error, suggestion
from penchant.experiments.jobs import Job


@attrs.frozen
class Part:
    """Part `number` of `count`, counted from 1: what one job of a cluster's array computes."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}-of-{self.count}"


def part_of(text: str) -> Part:
    """The part that `K/N` means.

    >>> part_of("2/8")
    Part(number=2, count=8)
    """
    number, slash, count = text.partition("/")
    if slash and number.isdecimal() and count.isdecimal():
        part = Part(int(number), int(count))
        if 1 <= part.number <= part.count:
            return part
    raise Error(f"expected part K/N of the jobs with K from 1 to N, such as 2/8, found {text!r}")


def selected(
    jobs: Sequence[Job],
    only: Sequence[str] = (),
    part: Part | None = None,
) -> list[Job]:
    """The jobs that were asked for.

    Args:
        jobs: All jobs of an experiment.
        only: Patterns such as `nad` or `*-lenet-*`; a job whose id, or the label of whose probe,
            architecture or dataset, is like one of them is chosen. None: all jobs.
        part: Which part of these.

    Returns:
        Those chosen, in order.
    """
    for pattern in only:
        # A mistyped name would look like a run without jobs.
        if not any(_is_like(job, pattern) for job in jobs):
            known: set[str] = set()
            for job in jobs:
                known.update(_labels(job))
            near = suggestion(pattern, known)
            raise Error(f"no job is like {pattern!r}{near}")
    chosen = list(jobs)
    if only:
        chosen = [job for job in jobs if _is_chosen(job, only)]
    if part is not None:
        # Every n-th one: neighbours take about as long, so all parts do.
        chosen = chosen[part.number - 1 :: part.count]
    return chosen


def _labels(job: Job) -> list[str]:
    """Those of its probe, architecture and dataset."""
    labels = job.labels
    return [str(labels[axis]) for axis in labels if axis != "seed"]


def _is_chosen(job: Job, only: Sequence[str]) -> bool:
    return any(_is_like(job, pattern) for pattern in only)


def _is_like(job: Job, pattern: str) -> bool:
    names = [job.id, *_labels(job)]
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)
