"""The notebooks of the site run from beginning to end, and every job in them is done."""

import json
from pathlib import Path

import penchant
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs/notebooks"
# What each leaves behind: a run folder, and a file.
LEFT = {
    "your-network": ("my-cnn", "eigenvalues.pdf"),
    "trajectory": ("while-it-learns", "checkpoints/step-300.pt"),
    "card": ("card", "card/card.html"),
}
# A card takes its minutes.
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name == "card")) for name in LEFT]


# Cells one after the other, in a shell without a kernel; prints the kinds of what they show.
CELLS = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats

shell = InteractiveShell.instance()
select_figure_formats(shell, {"png"})
shown = []

def show(value):
    if value is not None:
        shown.extend(shell.display_formatter.format(value)[0])

shell.display_trap.hook = show
shell.display_pub.publish = lambda data, **rest: shown.extend(data)
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        shell.run_cell("".join(cell["source"])).raise_error()
print(json.dumps(shown))
"""
PICTURES = {"image/png", "image/svg+xml"}


def check_what_is_left(name, place):
    """Every job of the run that a notebook leaves is done, and its file is there."""
    folder, file = LEFT[name]
    run = penchant.read(place / folder)
    assert run.jobs and all(job["status"] == "done" for job in run.jobs)
    assert (place / file).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_the_cells_of_the_notebook_run(name, tmp_path, command):
    pytest.importorskip("IPython", reason="IPython is not installed")
    script = tmp_path / "cells.py"
    script.write_text(CELLS)
    done = command(script, NOTEBOOKS / f"{name}.ipynb", script=True)
    assert done.returncode == 0, done.stderr
    # Figures are shown, not only drawn.
    assert PICTURES & set(json.loads(done.stdout.splitlines()[-1]))
    check_what_is_left(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEFT)
def test_the_notebook_runs(name, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=300, startup_timeout=300, resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    check_what_is_left(name, tmp_path)
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any(PICTURES & output.get("data", {}).keys() for output in outputs)


def test_every_notebook_is_tested_and_stored_without_outputs():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    paths = list(NOTEBOOKS.glob("*.ipynb"))
    assert {path.stem for path in paths} == LEFT.keys()
    for path in paths:
        book = nbformat.read(path, as_version=4)
        assert not any(cell.get("outputs") for cell in book.cells), path.name
