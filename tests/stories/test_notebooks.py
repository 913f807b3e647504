"""The notebooks of the site run from beginning to end, and every job in them is done."""

from pathlib import Path

import penchant
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs/notebooks"
# What each leaves behind: a run folder, and a file.
LEFT = {
    "your-network": ("my-cnn", "eigenvalues.pdf"),
    "trajectory": ("while-it-learns", "checkpoints/step-300.pt"),
}


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
    folder, file = LEFT[name]
    run = penchant.read(tmp_path / folder)
    assert run.jobs and all(job["status"] == "done" for job in run.jobs)
    assert (tmp_path / file).is_file()
    # Figures are shown, not only drawn.
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any({"image/png", "image/svg+xml"} & output.get("data", {}).keys() for output in outputs)


def test_every_notebook_is_tested_and_stored_without_outputs():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    paths = list(NOTEBOOKS.glob("*.ipynb"))
    assert {path.stem for path in paths} == LEFT.keys()
    for path in paths:
        book = nbformat.read(path, as_version=4)
        assert not any(cell.get("outputs") for cell in book.cells), path.name
