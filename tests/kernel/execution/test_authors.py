"""Mistakes of a probe's author, said while the probe runs."""

from pathlib import Path

import numpy as np
import penchant
import pytest

SMALL = {"architecture": "mlp", "shape": (1, 4, 4), "executor": "serial"}


def probe(returned):
    @penchant.probe(needs="architecture", quantities={"size": "norm"}, arrays={"sizes": "norms"})
    def size(context, networks: int = 4):
        return returned

    return size


def warnings_of(returned):
    return list(penchant.measure(probe(returned), **SMALL).warnings)


def test_a_misspelt_name_is_said_with_the_nearest_one():
    sure = penchant.Quantity(1.0, exact=True)
    assert warnings_of(penchant.Result({"sise": sure}, {"sizs": np.zeros(2)})) == [
        "quantity 'sise' is not declared; did you mean 'size'?",
        "array 'sizs' is not declared; did you mean 'sizes'?",
    ]


def test_a_forgotten_standard_error_is_said():
    assert warnings_of(penchant.Result({"size": penchant.Quantity(1.0)})) == [
        "quantity 'size' has neither a standard error nor exact=True"
    ]


def test_what_is_declared_is_not_mentioned():
    of = penchant.Quantity.of([1.0, 2.0, 3.0], over="networks")
    arrays = {"sizes": np.zeros(2), "sizes-stderr": np.ones(2)}
    assert warnings_of(penchant.Result({"size": of}, arrays)) == []


@penchant.probe(needs="architecture", quantities={"size": "norm"})
def broken(context, networks: int = 4):
    return {}["nothing"]  # the line that is named


def test_an_error_names_the_author_s_own_line():
    with pytest.raises(penchant.Error) as caught:
        penchant.measure(broken, **SMALL)
    lines = Path(__file__).read_text().splitlines()
    line = lines.index('    return {}["nothing"]  # the line that is named') + 1
    assert f"KeyError: 'nothing' (at test_authors.py:{line})" in str(caught.value)
