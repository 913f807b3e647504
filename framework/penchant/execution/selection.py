"""Which jobs of an experiment a command runs: those that were named, or all."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from penchant.errors import Error, suggestion
from penchant.experiments.jobs import Job


def selected(jobs: Sequence[Job], only: Sequence[str] = ()) -> list[Job]:
    """The jobs that were asked for.

    Args:
        jobs: All jobs of an experiment.
        only: Patterns such as `nad` or `*-lenet-*`; a job whose id, or the label of whose probe,
            architecture or dataset, is like one of them is chosen. None: all jobs.

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
