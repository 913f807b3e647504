"""Which jobs of an experiment a command runs: those that were named, or all."""

import fnmatch
from collections.abc import Sequence

from penchant.errors import Error, suggestion
from penchant.experiments.jobs import Job


def selected(jobs: Sequence[Job], only: Sequence[str] = ()) -> list[Job]:
    """The jobs whose id, or label of probe, architecture or dataset, is like one of the patterns.

    Patterns are such as `nad` or `*-lenet-*`; without any, all jobs are selected.
    """
    for pattern in only:
        # A mistyped name would look like a run without jobs.
        if not any(_is_like(job, pattern) for job in jobs):
            near = suggestion(pattern, {label for job in jobs for label in _labels(job)})
            raise Error(f"no job matches {pattern!r}{near}")
    return [job for job in jobs if not only or any(_is_like(job, each) for each in only)]


def _labels(job: Job) -> list[str]:
    """Those of its probe, architecture and dataset."""
    return [str(label) for axis, label in job.labels.items() if axis != "seed"]


def _is_like(job: Job, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in [job.id, *_labels(job)])
