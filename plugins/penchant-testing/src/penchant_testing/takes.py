"""What a probe says that it takes: each cell of its row in the catalogue is tried.

What it says that it takes, it is run on. What it says that it does not take is refused with a
sentence; and run all the same, with a declaration that says otherwise, it must fail, or not use
what it is given, so that neither a "yes" nor a "no" can be wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from unittest import mock

from penchant.components.taking import taken
from penchant.errors import Error
from penchant.execution.job import attempts
from penchant.execution.job.attempts import run_job
from penchant.execution.job.context import Context
from penchant.execution.job.networks import BoundArchitecture
from penchant.results.result import Result

from penchant_testing import builders
from penchant_testing.builders import only_job
from penchant_testing.tiny import READER, SAMPLES, SEQUENCES, TAGGER, TINY, TOKENS

CELLS = ("fresh", "trained", "trajectory", "tokens", "sequences", "data")
STATES = (0, 5)  # steps of the trajectory
_AXES = ("architecture", "dataset", "shape", "outputs")
_MOVED = ("continuous-inputs", "images")  # needs that tokens do not fulfil


class Used(Exception):  # noqa: N818 - raised where a probe first uses what is watched
    """The probe used what a test watches, or draws networks beside the one it is given."""


def check_cell(
    cls: Any,
    cell: str,
    arguments: Mapping[str, Any],
    folder: Path,
    others: Sequence[Mapping[str, Any]] = (),
) -> None:
    """See that a probe takes what it says, and nothing else.

    Args:
        cls: The probe.
        cell: One of `CELLS`.
        arguments: The arguments of a small run.
        folder: Where it may write.
        others: Those of other small runs, one of which may be what uses samples.
    """
    says = taken(cls)[cell]
    if cell == "fresh":
        _check_fresh(cls, says, arguments, folder)
    elif cell == "data":
        _check_samples(cls, says, [arguments, *others], folder)
    elif cell in ("trained", "trajectory"):
        _check_own(cls, says, cell, arguments, folder)
    else:
        _check_whole_numbers(cls, says, cell, arguments, folder)


# ---- networks that the probe builds, and samples


def _check_fresh(cls: Any, says: str, arguments: Mapping[str, Any], folder: Path) -> None:
    """A network is built where it says so, and nowhere else."""
    if says == "no":
        own = _without(arguments, "architecture", "shape", "outputs")
        own["architecture"] = {"name": "import", "factory": TINY}
        _refused(cls, own, "architecture")
        with _declared(cls, accepts=(*cls.accepts, "architecture"), takes=("fresh",)):
            used = _uses(cls, own, folder, _watched_networks())
        assert not used, f"{cls.name} builds networks, and says that it takes none"
        return
    own = dict(arguments)
    if "architecture" not in cls.needs and "architecture" not in own:
        own = {**own, "architecture": {"name": "import", "factory": TINY}}
        own["dataset"] = {"name": "import", "factory": SAMPLES}
    used = _uses(cls, own, folder, _watched_networks())
    assert used, f"{cls.name} builds no network, and says that it does"


def _check_samples(cls: Any, says: str, runs: list[Mapping[str, Any]], folder: Path) -> None:
    """Samples are used where it says so, and needed where it says so."""
    arguments = runs[0]
    own = _without(arguments, *_AXES)
    with_samples = {**own, "dataset": {"name": "import", "factory": SAMPLES}}
    if cls.has_axis("architecture"):
        with_samples["architecture"] = {"name": "import", "factory": TINY}
    if says == "no":
        _refused(cls, with_samples, "dataset")
        with_samples = {**arguments, **with_samples}
        with _declared(cls, accepts=(*cls.accepts, "dataset")):
            used = _uses(cls, with_samples, folder / "with", _watched_samples())
        assert not used, f"{cls.name} uses samples, and says that it takes none"
        return
    used = any(
        _uses(cls, way, folder / "with", _watched_samples())
        for way in _ways_with_samples(cls, runs, with_samples, folder)
    )
    assert used, f"{cls.name} does not use samples, and says {says!r}"
    if says == "if given":
        # Networks that are given need sizes of their own then.
        _run(cls.name, _without_samples(cls, arguments), folder / "without")
        return
    _refused(cls, {**own, "dataset": None}, "dataset")
    others = tuple(each for each in cls.needs if each != "dataset")
    with _declared(cls, needs=others, accepts=(*cls.accepts, "dataset")):
        result = _tried(cls.name, _without_samples(cls, arguments), folder / "without")
    assert result.status != "done", f"{cls.name} does without samples, and says {says!r}"


def _ways_with_samples(
    cls: Any, runs: list[Mapping[str, Any]], with_samples: Mapping[str, Any], folder: Path
) -> Iterator[Mapping[str, Any]]:
    """Its small runs, tiny samples, and a trained network, for which alone some take samples."""
    yield from runs
    yield with_samples
    if "trained" in cls.takes:
        own = _with_networks(cls, with_samples)
        yield _with_weights(own, _saved(cls.name, own, folder)[-1])


def _without_samples(cls: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a run without samples."""
    if not {"dataset", "architecture"} & ({*cls.needs} | {*arguments}):
        return {**arguments, "figures": False}
    own = {**_without(arguments, "dataset"), "dataset": None, "figures": False}
    if cls.has_axis("architecture") and "shape" not in own:
        own = {**own, "shape": [4], "outputs": own.get("outputs", 1)}
        own["architecture"] = {"name": "import", "factory": TINY}
    return own


def _uses(cls: Any, arguments: Mapping[str, Any], folder: Path, watched: Any) -> bool:
    """Whether a run comes to what is watched, apart from the check before it."""
    unchecked = mock.patch.object(attempts, "check_fit", lambda job, context: None)
    with unchecked, watched:
        result = _tried(cls.name, {**arguments, "figures": False}, folder)
    return Used.__name__ in (result.error or "")


def _watched_networks() -> Any:
    """Where every network is made."""

    def build(self: BoundArchitecture, seed: int) -> Any:
        raise Used("a network")

    return mock.patch.object(BoundArchitecture, "build", build)


def _watched_samples() -> Any:
    """Samples of the dataset; their shape, which networks are made for, are no use of them."""
    data = cast("Any", Context.data)

    class Sizes:
        def __init__(self, whole: Any) -> None:
            self.shape, self.outputs = whole.shape, whole.outputs
            self.classes, self.positions = whole.classes, whole.positions
            self.has_tokens = whole.has_tokens

        def __getattr__(self, name: str) -> Any:
            raise Used("samples")

    return mock.patch.object(Context, "data", property(lambda self: Sizes(data.fget(self))))


# ---- networks of the user's


def _check_own(cls: Any, says: str, kind: str, arguments: Mapping[str, Any], folder: Path) -> None:
    """Her weights are measured, and nothing else; a trajectory has steps."""
    if not cls.has_axis("architecture"):
        own = {**_without(arguments, *_AXES), "architecture": {"name": "import", "factory": TINY}}
        _refused(cls, own, "architecture")
        return
    own = _with_networks(cls, arguments)
    files = _saved(cls.name, own, folder)
    # State by state, one state shows as much as many.
    some: Any = files[-1] if kind == "trained" else files[-1:] if says == "by state" else files
    given = _with_weights(own, some)
    if says == "no":
        what = "a trajectory" if kind == "trajectory" else "a trained network"
        _refused(cls, given, f"probes that take {what}: ")
    else:
        result = _measured(cls.name, given, folder / "own", alone=False)
        assert result.status == "done", f"{cls.name}, {kind} {says!r}: {result.error}"
        if kind == "trajectory":
            assert _steps(result) == STATES[-len(some) :], f"{cls.name}: {_steps(result)}"
    for other, takes in _other_ways(cls, says, kind).items():
        given = _with_weights(own, files if other == "trajectory" else files[-1])
        with _declared(cls, takes=takes):
            result = _measured(cls.name, given, folder / f"as {other}", alone=True)
        fits = result.status == "done" and (other == "trained" or _steps(result) == STATES)
        assert not fits, f"{cls.name} measures {other} networks, and says {says!r} of {kind}"


def _other_ways(cls: Any, says: str, kind: str) -> dict[str, tuple[str, ...]]:
    """How it might take networks beyond what it says, and the declarations of that."""
    ways = {each: (*cls.takes, each) for each in ("trained", "trajectory")}
    if says == "by state":
        return {"trajectory": ways["trajectory"]}
    if says == "yes":
        return {}
    # A trajectory may be measured state by state, where one trained network is.
    return ways if kind == "trajectory" else {kind: ways[kind]}


def _measured(name: str, arguments: Mapping[str, Any], folder: Path, *, alone: bool) -> Result:
    """A run that fails where files are not read, or fresh networks are built beside them."""
    from penchant_import import state_files

    read = []

    def reading(*given: Any, **named: Any) -> Any:
        read.append(given)
        return load_weights(*given, **named)

    def seed_of(self: BoundArchitecture, index: int) -> int:
        if self.first + index:
            raise Used("another network")
        return first_seed(self, index)

    def others(*given: Any, **named: Any) -> Any:
        raise Used("another network")

    load_weights, first_seed = state_files.load_weights, BoundArchitecture.seed_of
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(state_files, "load_weights", reading))
        # Their accuracy is measured beside every probe: it is not the probe that reads them.
        stack.enter_context(mock.patch.object(attempts, "_accuracy", lambda job, context: {}))
        if alone:
            stack.enter_context(mock.patch.object(BoundArchitecture, "seed_of", seed_of))
            stack.enter_context(mock.patch.object(BoundArchitecture, "with_seed", others))
            stack.enter_context(mock.patch.object(Context, "train", others))
        result = _tried(name, arguments, folder)
    if result.status == "done" and not read:
        return Result(record={"status": "failed", "error": "the files were not read"})
    return result


def _steps(result: Result) -> tuple[int, ...] | None:
    steps = result.arrays.get("steps") if result.status == "done" else None
    return None if steps is None else tuple(steps)


def _with_networks(cls: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with networks, and with data, which measurements of a trained network need."""
    own = dict(arguments)
    lacking = "trained" in cls.takes and cls.has_axis("dataset") and "dataset" not in own
    if lacking or "architecture" not in own:
        own = {name: value for name, value in own.items() if name not in _AXES or name in arguments}
        own.setdefault("architecture", {"name": "import", "factory": TINY})
    if lacking:
        own = _without(own, "shape", "outputs")
        own["architecture"] = {"name": "import", "factory": TINY}
        own["dataset"] = {"name": "import", "factory": SAMPLES}
    return own


def _with_weights(arguments: Mapping[str, Any], weights: Any) -> dict[str, Any]:
    """The same with weights; a training and its steps are not those of the files."""
    from penchant.api import component_table

    own = _without(arguments, "training", "eval_steps", "eval_every")
    table = {**component_table(arguments["architecture"]), "weights": weights}
    return {**own, "architecture": table, "figures": False}


def _saved(name: str, arguments: Mapping[str, Any], folder: Path) -> list[str]:
    """Files of two networks of the architecture, which stand for states of a training."""
    import torch

    fresh = builders.context(name, folder / "fresh", **arguments)
    files = []
    for number, step in enumerate(STATES):
        path = folder / f"step-{step}.pt"
        torch.save(fresh.network(number).state_dict(), path)
        files.append(str(path))
    return files


# ---- tokens, and sequences of them


def _check_whole_numbers(
    cls: Any, says: str, cell: str, arguments: Mapping[str, Any], folder: Path
) -> None:
    """Samples of whole numbers, with one label each or one for every position."""
    tokens = cell == "tokens"
    own = _without(arguments, *_AXES)
    own["dataset"] = {"name": "import", "factory": TOKENS if tokens else SEQUENCES}
    own["figures"] = False
    if cls.has_axis("architecture"):
        own["architecture"] = {"name": "import", "factory": READER if tokens else TAGGER}
    if not cls.has_axis("dataset"):
        _refused(cls, own, "dataset")
        return
    if says == "yes":
        _run(cls.name, own, folder / "as it is")
        return
    refusal = _tried(cls.name, own, folder / "as it is").error or ""
    # A sequence of tokens may be refused for either reason.
    words = ("continuous-inputs",) if tokens else ("continuous-inputs", "one label")
    assert any(word in refusal for word in words), f"{cls.name}: {refusal or 'taken'}"
    needs = tuple(each for each in cls.needs if each not in _MOVED)
    accepts = cls.accepts if tokens else (*cls.accepts, "sequences")
    with _declared(cls, needs=needs, accepts=accepts):
        result = _tried(cls.name, own, folder / "all the same")
    assert result.status != "done", f"{cls.name} takes {cell}, and says that it does not"


# ---- runs


@contextlib.contextmanager
def _declared(cls: Any, **attributes: tuple[str, ...]) -> Iterator[None]:
    """Another declaration of the probe."""
    with contextlib.ExitStack() as stack:
        for name, value in attributes.items():
            stack.enter_context(mock.patch.object(cls, name, value))
        yield


def _without(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def _refused(cls: Any, arguments: Mapping[str, Any], words: str) -> None:
    """See that an experiment is refused before it runs, in these words."""
    try:
        only_job(cls.name, arguments)
    except Error as error:
        assert words in str(error), str(error)
        return
    raise AssertionError(f"{cls.name} takes what it says it does not: expected {words!r}")


def _tried(name: str, arguments: Mapping[str, Any], folder: Path) -> Result:
    """A run that may fail, also before it begins."""
    try:
        job = only_job(name, arguments)
    except Error as error:
        return Result(record={"status": "failed", "error": str(error)})
    return run_job(Context(job, folder))


def _run(name: str, arguments: Mapping[str, Any], folder: Path) -> Result:
    result = _tried(name, arguments, folder)
    assert result.status == "done", f"{name} failed: {result.error}"
    return result
