"""What a probe says that it takes: each is run, and everything else is refused with a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penchant.components.taking import how_taken, takes_data, takes_sequences, takes_tokens
from penchant.errors import Error
from penchant.execution.attempts import run_job
from penchant.execution.context import Context
from penchant.results.result import Result

from penchant_testing.builders import context, only_job
from penchant_testing.tiny import READER, SAMPLES, SEQUENCES, TAGGER, TINY, TOKENS

STATES = (0, 5)  # steps of the trajectory
_AXES = ("architecture", "dataset", "shape", "outputs")


def check_takes(cls: Any, arguments: Mapping[str, Any], folder: Path) -> None:
    """Run a probe on a trained network, on a trajectory and on tokens, or see it refuse them.

    Args:
        cls: The probe.
        arguments: The arguments of a small run.
        folder: Where it may write.
    """
    check_data_cell(cls, arguments)
    if cls.has_axis("architecture"):
        own = _with_networks(cls, arguments)
        files = _saved(cls.name, own, folder)
        _check(cls, own, {"weights": files[-1]}, "trained", folder)
        # State by state, one state shows as much as many.
        some = files[-1:] if how_taken(cls, "trajectory") == "by state" else files
        _check(cls, own, {"weights": some}, "trajectory", folder)
    if cls.has_axis("dataset"):
        _check_data(
            cls, arguments, TOKENS, "continuous-inputs", takes=takes_tokens(cls), folder=folder
        )
        sequences = takes_sequences(cls)
        _check_data(cls, arguments, SEQUENCES, "one label", takes=sequences, folder=folder)


def check_data_cell(cls: Any, arguments: Mapping[str, Any]) -> None:
    """See that a probe is given samples, or can do without, or refuses them, as it says.

    Args:
        cls: The probe.
        arguments: The arguments of a small run.
    """
    bare = {name: value for name, value in arguments.items() if name not in _AXES}
    with_data = {**bare, "dataset": {"name": "import", "factory": SAMPLES}}
    without = {**bare, "dataset": None}
    how = takes_data(cls)
    for own, expected in ((with_data, how != "no"), (without, how != "yes")):
        try:
            only_job(cls.name, own)
        except Error as error:
            assert not expected, f"{cls.name}, data {how!r}: {error}"
            assert "dataset" in str(error), str(error)
        else:
            what = "takes" if own is with_data else "does without"
            assert expected, f"{cls.name} {what} samples, and says {how!r}"


def _with_networks(cls: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with networks, and with data, which measurements of a trained network need."""
    own = dict(arguments)
    lacking = "trained" in cls.takes and cls.has_axis("dataset") and "dataset" not in own
    if lacking or "architecture" not in own:
        own = {name: value for name, value in own.items() if name not in _AXES or name in arguments}
        own.setdefault("architecture", {"name": "import", "factory": TINY})
    if lacking:
        own = {name: value for name, value in own.items() if name not in ("shape", "outputs")}
        own["architecture"] = {"name": "import", "factory": TINY}
        own["dataset"] = {"name": "import", "factory": SAMPLES}
    return own


def _saved(name: str, arguments: Mapping[str, Any], folder: Path) -> list[str]:
    """Files of two networks of the architecture, which stand for states of a training."""
    import torch

    fresh = context(name, folder / "fresh", **arguments)
    files = []
    for number, step in enumerate(STATES):
        path = folder / f"step-{step}.pt"
        torch.save(fresh.network(number).state_dict(), path)
        files.append(str(path))
    return files


def _check(
    cls: Any, arguments: Mapping[str, Any], given: Mapping[str, Any], kind: str, folder: Path
) -> None:
    """Run a probe on the user's networks, or see that it refuses them."""
    from penchant.api import component_table

    table = {**component_table(arguments["architecture"]), **given}
    own = {**arguments, "architecture": table, "figures": False}
    # A training and its steps are not those of the files.
    for name in ("training", "eval_steps", "eval_every"):
        own.pop(name, None)
    if how_taken(cls, kind) == "no":
        try:
            only_job(cls.name, own)
        except Error as error:
            what = "a trajectory" if kind == "trajectory" else "a trained network"
            assert f"probes that take {what}: " in str(error), str(error)
            return
        raise AssertionError(f"{cls.name} does not say that it takes {kind} networks, and does")
    result = _run(cls.name, own, folder / kind)
    if kind == "trajectory":
        steps = result.arrays.get("steps")
        assert steps is not None, f"{cls.name} gives no array steps for a trajectory"
        expected = STATES[-len(given["weights"]) :]
        assert tuple(steps) == expected, f"{cls.name} measured the steps {list(steps)}"


def _check_data(
    cls: Any, arguments: Mapping[str, Any], factory: str, word: str, *, takes: bool, folder: Path
) -> None:
    """Run a probe on such samples, or see that it refuses them with a word."""
    own = {name: value for name, value in arguments.items() if name not in _AXES}
    own["dataset"] = {"name": "import", "factory": factory}
    if cls.has_axis("architecture"):
        network = TAGGER if factory == SEQUENCES and takes else READER
        own["architecture"] = {"name": "import", "factory": network}
    own["figures"] = False
    if takes:
        _run(cls.name, own, folder / word)
        return
    refused = run_job(Context(only_job(cls.name, own), folder / word)).error or ""
    # A sequence of tokens may be refused for either reason.
    assert word in refused or "continuous-inputs" in refused, f"{cls.name}: {refused or 'taken'}"


def _run(name: str, arguments: Mapping[str, Any], folder: Path) -> Result:
    result = run_job(Context(only_job(name, arguments), folder))
    assert result.status == "done", f"{name} failed: {result.error}"
    return result
