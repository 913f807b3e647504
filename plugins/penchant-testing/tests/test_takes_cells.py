"""A declaration that says what is not so is caught, in every column of the catalogue's table."""

from unittest import mock

import pytest
from penchant.components.taking import taken
from penchant.plugins import discovery
from penchant_testing.takes import CELLS, check_cell

SHORT = {"training": {"steps": 2}}
# Arguments with which each probe passes, and other declarations: the cell, and what it would say.
SMALL = {
    "hessian-spectrum": {**SHORT, "matrices": ["hessian"]},
    "tangent-kernel": {**SHORT, "samples": 12, "groups": 4},
    "nad": {"shape": [4], "networks": 8},
    "tangent-training": {**SHORT, "samples": 8, "trainings": 2, "evaluations": 2},
    "pooling-theory": {
        "inputs": 8,
        "simulations": 10,
        "every": 4,
        "curves": 1,
        "steps": 2,
        "trainings": 2,
        "batch": 4,
    },
    "cross-class": SHORT,
    "neural-collapse": SHORT,
}
WRONG = [
    ("hessian-spectrum", "sequences", {"accepts": ()}, "no"),
    ("cross-class", "sequences", {"accepts": ("sequences",)}, "yes"),
    ("neural-collapse", "sequences", {"accepts": ("sequences",)}, "yes"),
    ("tangent-kernel", "tokens", {"needs": "+continuous-inputs"}, "no"),
    ("nad", "tokens", {"needs": "-continuous-inputs"}, "yes"),
    ("hessian-spectrum", "trained", {"takes": ("fresh",)}, "no"),
    ("hessian-spectrum", "trajectory", {"takes": ("fresh",)}, "no"),
    ("hessian-spectrum", "trajectory", {"takes": ("fresh", "trained", "trajectory")}, "yes"),
    ("neural-collapse", "trajectory", {"takes": ("fresh", "trained")}, "by state"),
    ("tangent-training", "trained", {"takes": ("fresh", "trained", "trajectory")}, "yes"),
    ("tangent-training", "trajectory", {"takes": ("fresh",)}, "no"),
    (
        "tangent-kernel",
        "data",
        {"needs": "-dataset", "accepts": ("sequences", "dataset")},
        "if given",
    ),
    ("nad", "data", {"needs": "+dataset"}, "yes"),
    ("pooling-theory", "data", {"accepts": ("dataset",)}, "if given"),
    ("pooling-theory", "fresh", {"accepts": ("architecture",)}, "yes"),
    ("nad", "fresh", {"needs": "-architecture", "takes": ()}, "no"),
]


def probe(name):
    return discovery.load().find("probe", name).component


def changed(needs, change):
    sign, name = change[0], change[1:]
    return (*needs, name) if sign == "+" else tuple(each for each in needs if each != name)


@pytest.mark.parametrize("name", sorted({each[0] for each in WRONG}))
def test_what_these_probes_say_is_so(name, tmp_path):
    cells = {each[1] for each in WRONG if each[0] == name}
    for cell in sorted(cells):
        folder = tmp_path / cell
        folder.mkdir()
        check_cell(probe(name), cell, SMALL[name], folder)


@pytest.mark.parametrize(
    ("name", "cell", "declared", "says"),
    WRONG,
    ids=[f"{name}-{cell}-{says}" for name, cell, _, says in WRONG],
)
def test_what_is_not_so_is_caught(name, cell, declared, says, tmp_path):
    cls = probe(name)
    if "needs" in declared:
        declared = {**declared, "needs": changed(cls.needs, declared["needs"])}
    before = taken(cls)[cell]
    with mock.patch.multiple(cls, **declared):
        assert taken(cls)[cell] == says != before
        with pytest.raises(AssertionError):
            check_cell(cls, cell, SMALL[name], tmp_path)
    assert taken(cls)[cell] == before


def test_every_cell_of_the_table_is_checked():
    assert tuple(taken(probe("nad"))) == CELLS
