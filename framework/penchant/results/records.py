"""What `run.json` and `result.json` hold: schema 1.

Readers accept unknown keys, and results of older versions lack some of these.
"""

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
    time_limit: NotRequired[float]  # seconds for each job, figures included
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


class AccuracyRecord(TypedDict):
    """How often a network of the user's is right, where labels are classes."""

    value: float
    samples: int  # of the training split
    chance: float  # of guessing the most frequent class


def accuracy_text(accuracy: AccuracyRecord) -> str:
    """How often a network is right, in a sentence without its subject.

    >>> accuracy_text({"value": 0.381, "samples": 256, "chance": 0.1})
    'right on 0.38 of 256 training samples (guessing: 0.10)'
    """
    samples = f"{accuracy['samples']} training samples"
    return f"right on {accuracy['value']:.2f} of {samples} (guessing: {accuracy['chance']:.2f})"


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
    headline: dict[str, str]  # the quantity, and the sentences of which it chooses one
    figures: Any  # target of the function that draws them; in Python it may be the function


class ResultRecord(JobRecord, total=False):
    """`result.json` without the numbers of the probe."""

    status: str
    id: str
    key: str
    shape: list[int]
    outputs: int
    accuracy: AccuracyRecord  # of the user's own network
    policy: dict[str, str]
    error: str | None
    traceback: str | None
    cost: Cost
    arrays_sha256: str
    killed_workers: bool
