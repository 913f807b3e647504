"""What `run.json` and `result.json` hold: schema 1.

Readers accept unknown keys, and results of older versions lack some of these.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Labels = dict[str, Any]  # of the probe, architecture and dataset, and the seed


class JobEntry(TypedDict):
    """A job in `run.json`."""

    id: str
    status: str  # pending, running, done or failed
    labels: Labels
    path: str
    error: NotRequired[str]


class RunRecord(TypedDict):
    """`run.json`."""

    title: str
    seeds: list[int]
    jobs: list[JobEntry]
    threads: NotRequired[int]
    environment: NotRequired[dict[str, str]]
    reduced: NotRequired[str]  # what `--quick` says of the numbers
    figures: NotRequired[bool]  # false where none are drawn
    stopped: NotRequired[str]  # why the run ended early


class ComponentRecord(TypedDict):
    """A component with its options."""

    name: str
    options: dict[str, Any]
    plugin: str
    version: str
    weights: NotRequired[str | list[str]]
    strict: NotRequired[bool]


class Cost(TypedDict, total=False):
    """What a job took."""

    seconds: float
    peak_memory_bytes: int


class JobRecord(TypedDict, total=False):
    """What is measured on what: the part of `result.json` that is known before a job runs."""

    probe: ComponentRecord
    architecture: ComponentRecord | None
    dataset: ComponentRecord | None
    estimators: dict[str, ComponentRecord | list[ComponentRecord]]
    training: dict[str, Any] | None
    dtype: str
    threads: int
    precision: str
    memory: float
    seed: int
    device: str
    preset: str
    summary: str
    question: str
    labels: Labels
    versions: dict[str, str]
    code: dict[str, str]
    gpu: dict[str, str]
    about: dict[str, str]  # name of an array to its meaning
    meanings: dict[str, str]
    figures: Any  # target of the function that draws them; in Python it may be the function


class ResultRecord(JobRecord, total=False):
    """`result.json` without the numbers of the probe."""

    status: str
    id: str
    key: str
    shape: list[int]
    outputs: int
    policy: dict[str, str]
    error: str | None
    traceback: str | None
    cost: Cost
    arrays_sha256: str
    killed_workers: bool
