"""`context.tables` (`penchant.execution.job.tables`): what shards return, along named axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
import pytest
from numpy.testing import assert_array_equal
from penchant_numerics.training import shard_of

STEPS = (0, 5, 9)


def wave(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Numbers that tell which item they are of."""
    size = item["amplitude"] * 10 + item["training"]
    flipped = item["flipped"]
    return {
        "loss": np.arange(3) + size * (-1 if flipped else 1),
        "size": context.shared["scale"].item() * size,
        "kernel": np.full((3, 2), size),
        "flipped": flipped,
        "by-other": np.arange(2),
    }


def returns(context: penchant.Context, item: dict[str, Any]) -> Any:
    number = item["number"]
    return {
        "text": {"found": "a word"},
        "shapes": {"found": np.zeros(number + 1)},
        "names": {"found": 1.0, f"found-{number}": 2.0},
        "axes": {"found": np.zeros((1, 2))},
    }[item["what"]]


def fails(context: penchant.Context, item: dict[str, Any]) -> Any:
    raise AssertionError("a shard was computed")


def several(context: penchant.Context, item: Any) -> dict[str, Any]:
    return shard_of(item, lambda items: [{"square": each["training"] ** 2} for each in items])


@penchant.probe(
    needs="architecture",
    quantities={"size": "of nothing"},
    tables={"by-other[flipped, amplitude, training, other]": "numbers"},
)
def mapped(context: penchant.Context, what: str = "good") -> penchant.Result:
    if what == "good":
        tables = context.tables(
            wave,
            inside={"step": STEPS, "other": range(2)},
            shared={"scale": np.array([2.0])},
            flipped=(False, True),
            amplitude=(1, 2),
            training=range(3),
        )
    elif what == "trainings":
        tables = context.tables(several, trainings=True, training=range(4))
    elif what == "empty":
        tables = context.tables(wave, training=())
    elif what == "twice":
        tables = context.tables(fails, training=(0, 1, 0))
    else:
        tables = context.tables(returns, inside=("step",), number=range(2), what=(what,))
    return penchant.Result(tables=tables)


def measure(what: str) -> penchant.Result:
    return penchant.measure(mapped, architecture="mlp", shape=(4,), outputs=1, what=what)


def test_the_last_axis_is_the_fastest_and_arrays_have_theirs_inside() -> None:
    tables = measure("good").tables
    loss = tables["loss"]
    assert list(loss.axes) == ["flipped", "amplitude", "training", "step"]
    assert loss.axes["step"] == STEPS
    assert_array_equal(loss.at(flipped=True, amplitude=2, training=1).values, np.arange(3) - 21)
    assert tables["size"].at(flipped=False, amplitude=1, training=2).values == 24
    assert list(tables["kernel"].axes) == ["flipped", "amplitude", "training", "step", "other"]


def test_an_array_of_fewer_axes_has_those_that_are_declared() -> None:
    table = measure("good").tables["by-other"]
    assert list(table.axes) == ["flipped", "amplitude", "training", "other"]


def test_trainings_of_one_shard_are_rows_of_the_table() -> None:
    assert_array_equal(measure("trainings").tables["square"].values, [0, 1, 4, 9])


@pytest.mark.parametrize(
    "what, message",
    [
        ("text", "returns returned 'found' of <U6, expected numbers"),
        ("shapes", r"of shape \(1,\) and of shape \(2,\), expected one shape"),
        ("names", r"returned 'found-0' in 1 of 2 shards, not in all"),
        ("axes", r"of shape \(1, 2\), expected a name in `inside`"),
        ("twice", r"coordinates of the axis 'training' must differ, found \[0, 1, 0\]"),
        ("empty", r"a coordinate for every axis, found none for \['training'\]"),
    ],
)
def test_what_is_no_table_is_refused(what: str, message: str) -> None:
    with pytest.raises(penchant.Error, match=message):
        measure(what)
