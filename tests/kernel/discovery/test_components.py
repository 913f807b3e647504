"""Options: one validated path, strict types, messages that name what was found and what is allowed."""

import attrs
import penchant
import pytest
from penchant.components.targets import check_parameters, resolve


@attrs.frozen
class Everything(penchant.Probe):
    """Has an option of every type."""

    name = "everything"
    target = "penchant_testing:tiny_network"

    count: int = penchant.option(3, "a count", at_least=1, at_most=10)
    rate: float = penchant.option(0.5, "a rate", above=0, below=1)
    flag: bool = penchant.option(False, "a flag")
    word: str = penchant.option("red", "a colour", choices=("red", "green"))
    widths: tuple[int, ...] = penchant.option((1, 2), "widths", at_least=1)
    pair: tuple[float, float] | None = penchant.option(None, "a pair")
    matrix: object = penchant.option(None, "a matrix", array=True)


def test_defaults_and_lists_become_tuples():
    bound = Everything.bind({"widths": [4, 5], "pair": [1, 2.5]})
    assert bound.widths == (4, 5)
    assert bound.pair == (1.0, 2.5)
    assert bound.count == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"count": 3.7},
            "count must be a whole number, found 3.7 (float) (nad.toml, probes[0].count)",
        ),
        (
            {"count": True},
            "count must be a whole number, found True (bool) (nad.toml, probes[0].count)",
        ),
        ({"count": 0}, "count must be at least 1, found 0 (nad.toml, probes[0].count)"),
        ({"count": 11}, "count must be at most 10, found 11"),
        ({"rate": 0}, "rate must be above 0, found 0.0"),
        ({"rate": float("nan")}, "rate must be a number, found nan"),
        ({"rate": "0.1"}, "rate must be a number, found '0.1' (str)"),
        ({"flag": "no"}, "flag must be true or false, found 'no' (str)"),
        ({"flag": 1}, "flag must be true or false, found 1 (int)"),
        ({"word": "gren"}, "word must be one of red, green, found 'gren'; did you mean 'green'?"),
        ({"widths": [1, 0]}, "widths must be at least 1, found 0"),
        ({"widths": 3}, "widths must be a list, each a whole number, found 3 (int)"),
        ({"pair": [1.0]}, "pair must be a list of 2, each a number or none, found [1.0] (list)"),
        (
            {"cuont": 2},
            "everything has no option 'cuont'; did you mean 'count'? (nad.toml, probes[0].cuont)",
        ),
        ({"matrix": [[1.0, float("inf")]]}, "matrix must be finite, found 1 values that are not"),
    ],
)
def test_bad_values_are_refused_with_what_was_found_and_what_is_allowed(values, message):
    with pytest.raises(penchant.Error) as caught:
        Everything.bind(values, "nad.toml, probes[0]")
    assert message in str(caught.value)


def test_python_construction_takes_the_same_path():
    with pytest.raises(penchant.Error, match="count must be at least 1, found 0"):
        Everything(count=0)


def test_training_takes_epochs_or_steps():
    with pytest.raises(penchant.Error, match="found both"):
        penchant.Training(epochs=1, steps=2)
    assert penchant.Training(epochs=2, batch=30).total_steps(100) == 8
    assert penchant.Training(batch=0).total_steps(100) == 10


def test_targets_are_resolved_or_explained():
    assert resolve("os.path:join", "x") is __import__("os").path.join
    for target, message in (
        ("os.path", "must be 'package.module:function'"),
        ("no.such:thing", "cannot be loaded"),
        ("os:sep", "must be callable"),
    ):
        with pytest.raises(penchant.Error, match=message):
            resolve(target, "x")
    with pytest.raises(penchant.Error, match=r"must take \(options, context\), found \(a, b\)"):
        check_parameters(lambda a, b: None, ("options", "context"), "x")


def test_the_help_of_an_executor_names_public_modules_only():
    assert "penchant_testing.check_executor" in penchant.Executor.__doc__
    assert "penchant.execution" not in penchant.Executor.__doc__
