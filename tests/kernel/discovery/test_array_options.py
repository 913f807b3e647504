"""Options with arrays by name, and arrays that stand for networks and data."""

import attrs
import numpy as np
import penchant
import pytest


@attrs.frozen
class Sizes(penchant.Probe):
    """Sizes of what it is given."""

    name = "sizes"
    target = "array_options_case:run"
    needs = ("architecture", "dataset", "classes")
    instead = ("rows",)
    quantities = {"size": "numbers in all arrays"}

    rows: object = penchant.option(None, "arrays", arrays=True)


def run(options, context):
    """The size of all arrays."""
    assert all(each.dtype == np.float64 for each in options.rows.values())
    assert not context.has("training")
    size = sum(each.size for each in options.rows.values())
    return penchant.Result(
        {"size": penchant.Quantity(size, exact=True)}, labels={"rows": tuple(options.rows)}
    )


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "array_options_case", sys.modules[__name__])


def test_arrays_by_name_come_from_memory_and_files(tmp_path):
    np.save(tmp_path / "b.npy", np.ones(3, dtype=np.float32))
    np.savez(tmp_path / "both.npz", a=np.ones((2, 2)), b=np.ones(3))
    stored = penchant.measure(Sizes, rows={"a": np.ones((2, 2))}, out=tmp_path / "run")
    assert stored.quantities["size"].value == 4
    ways = {
        "dict": {"a": [[1, 1], [1, 1]], "b": str(tmp_path / "b.npy")},
        "archive": str(tmp_path / "both.npz"),
    }
    for given in ways.values():
        result = penchant.measure(Sizes, rows=given)
        assert (result.quantities["size"].value, result.labels["rows"]) == (7, ("a", "b"))
    # one array has the name of the option
    one = penchant.measure(Sizes, rows=str(tmp_path / "b.npy"))
    assert one.labels["rows"] == ("rows",)


def test_they_stand_for_networks_and_data():
    with pytest.raises(penchant.Error, match="sizes needs an architecture"):
        penchant.measure(Sizes)
    with pytest.raises(penchant.Error, match="takes rows or an architecture, found rows and"):
        penchant.measure(Sizes, rows=[1.0], architecture="mlp")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "rows must have an array, found none"),
        ({"a": None}, "rows.a must be an array, found none"),
        ({1: [1.0]}, "the names of rows must be text, found 1"),
        ({"a": [1.0, float("nan")]}, "rows.a must be finite, found 1 values"),
        ({"a": [1j]}, "rows.a must hold real numbers"),
        ({"a": object()}, "rows.a must be an array, a file or run:FOLDER#array, found object"),
        ({"a": "x.txt"}, "sizes.rows.a must be an array, a file ending in .npy"),
        ("x.npz", "x.npz cannot be read"),
        ("x.txt", "sizes.rows.rows must be an array, a file ending in .npy"),
    ],
)
def test_what_is_no_array_is_named(given, message):
    with pytest.raises(penchant.Error, match=message):
        penchant.measure(Sizes, rows=given)


def test_nothing_in_a_file_of_strangers_is_run(tmp_path):
    np.savez(tmp_path / "bad.npz", a=np.array([{"x": 1}], dtype=object))
    with pytest.raises(penchant.Error, match="bad.npz cannot be read"):
        penchant.measure(Sizes, rows=str(tmp_path / "bad.npz"))


def test_a_name_that_is_no_option_is_refused():
    from penchant.plugins.declaration_checks import check_declaration

    misspelt = type("Misspelt", (Sizes,), {"__doc__": "A probe.", "instead": ("row",)})
    with pytest.raises(penchant.Error, match="instead has 'row'"):
        check_declaration(misspelt, penchant.Probe)
