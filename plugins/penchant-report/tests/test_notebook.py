"""Results in notebooks and tables: what they show, what they hand to pandas and xarray."""

import sys

import numpy as np
import penchant
import pytest
from penchant import Quantity, Result

ASKED = {
    "architectures": [{"name": "perceptron", "width": 4}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 8}],
    "seeds": [0, 1],
    "executor": "serial",
    "figures": False,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return penchant.run(ASKED, out=tmp_path_factory.mktemp("notebook") / "run")


CELLS = (
    """
    import penchant
    result = penchant.measure(
        "output-spread", architecture="perceptron", dataset="two-blobs", networks=16,
        executor="serial",
    )
    result
    """,
    'result.figure("means")',
    "result.show()",
    "penchant.read(FOLDER)",
)


def executed(cells):
    """Outputs of each cell, in a kernel of its own."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import textwrap

    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in cells]
    nbclient.NotebookClient(book, timeout=240, kernel_name="python3").execute()
    return book


def test_a_notebook_shows_results_and_figures(run):
    *first, last = CELLS
    book = executed([*first, last.replace("FOLDER", repr(str(run.folder)))])
    shown = []
    for cell in book.cells:
        outputs = [output for output in cell.outputs if "data" in output]
        shown.append(outputs[-1]["data"])
    table, figure, both, whole = shown
    assert "How much do the outputs of fresh networks differ?" in table["text/html"]
    assert "standard deviation of the mean output over networks" in table["text/html"]
    assert "</svg>" in figure["image/svg+xml"]
    assert "data:image/svg+xml;base64," in both["text/html"]
    assert "their standard deviation is" in both["text/html"], "the caption"
    assert "2 of 2 jobs done" in whole["text/html"]


def test_html_is_escaped():
    result = Result({"x": Quantity(1.0, exact=True)}, warnings=("<script>alert(1)</script>",))
    assert "<script>" not in result._repr_html_()


def test_a_measurement_draws_nothing_until_asked(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "penchant_report.figures.resolve", lambda target, what: drawn.append(target)
    )
    result = penchant.measure(
        "output-spread",
        architecture="perceptron",
        dataset="two-blobs",
        networks=4,
        executor="serial",
    )
    assert drawn == []
    with pytest.raises(penchant.Error, match="must be a dict|not callable|figures"):
        monkeypatch.setattr(
            "penchant_report.figures.resolve", lambda target, what: lambda result: []
        )
        result.figures()


def test_figures_are_had_by_name(run, capsys):
    result = run.results(seed=0)[0]
    figure = result.figure("means")
    assert figure.get_suptitle() == "Outputs of fresh networks"
    with pytest.raises(penchant.Error, match="no figure 'meens'; did you mean 'means'"):
        result.figure("meens")
    with pytest.raises(penchant.Error, match="read without its arrays"):
        run.result(run.jobs[0]["id"], arrays=False).figures()
    with pytest.raises(penchant.Error, match="draws none"):
        Result().figures()
    result.show()
    assert "figures: means" in capsys.readouterr().out


def test_a_result_is_short_in_a_terminal(run):
    text = repr(run.results(seed=0)[0])
    assert len(text.splitlines()) <= 4 and max(map(len, text.splitlines())) < 80
    assert "arrays: means [8]" in text


def test_a_run_is_a_table(run):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = run.to_pandas(options=True)
    assert list(frame["seed"]) == [0, 1]
    assert list(frame["option.networks"]) == [8, 8]
    assert list(frame["value"]) == [row["value"] for row in run.table()]
    assert "option.networks" not in run.to_pandas().columns


def test_a_run_is_a_dataset(run):
    pytest.importorskip("xarray", reason="xarray is not installed")
    found = run.to_xarray()
    expected = run.results(seed=1)[0].quantities["spread"]
    cell = found.sel(architecture="perceptron", dataset="two-blobs", seed=1)
    assert float(cell["spread"]) == expected.value
    assert float(cell["spread-stderr"]) == expected.stderr
    with pytest.raises(penchant.Error, match="label of a probe, found 'nad'"):
        run.to_xarray("nad")


def test_axes_of_arrays_are_not_guessed_by_their_length():
    pytest.importorskip("xarray", reason="xarray is not installed")
    result = Result(
        {"loss": Quantity(0.5, stderr=0.1, over="samples")},
        {"norms": np.arange(6.0).reshape(2, 3), "norms-stderr": np.ones((2, 3))},
        labels={"layers": ("conv", "fc")},
    )
    found = result.to_xarray()
    assert found["norms"].dims == ("norms-0", "norms-1")
    assert found["norms-stderr"].dims == ("norms-0", "norms-1")
    assert "layers" not in found.coords
    assert float(found["loss"]) == 0.5 and found["loss"].attrs["stderr"] == 0.1


@pytest.mark.parametrize(("name", "method"), [("pandas", "to_pandas"), ("xarray", "to_xarray")])
def test_what_is_not_installed_is_named(run, monkeypatch, name, method):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(penchant.Error, match=f"{name} is not installed: pip install {name}"):
        getattr(run, method)()


def test_everything_public_is_offered_and_typed():
    offered = dir(penchant)
    assert {"measure", "run", "read", "compare"} <= set(offered)
    assert {"measure", "run", "read", "compare"} <= set(penchant.__all__)
