"""Tables as people read and copy them (`penchant_report.table_views`), and in pandas and xarray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penchant
import pytest
from penchant.results.files import read_json, write_json
from penchant.results.job_folder import JobFolder
from penchant_report import table_views
from penchant_report.drawing import draw, draw_missing
from penchant_report.report import write_report

AXES = {"frequency": (0.1, 0.5), "step": (0, 10, 20)}


@pytest.fixture
def loss() -> penchant.Table:
    stderr = np.full((2, 3), 0.1)
    values = [[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]]
    return penchant.Table(values, AXES, stderr=stderr, null=2.5, over="trainings", count=4, df=3)


def test_a_grid_has_the_last_axis_across(loss: penchant.Table) -> None:
    head, first, second = table_views.grid(loss)
    assert head == ["frequency", "step 0", "step 10", "step 20"]
    assert first[:2] == ["0.1", "1.00 ± 0.10 (null 2.5)"]
    assert second[-1] == "−6.00 ± 0.10 (null 2.5)"


def test_csv_has_every_number_unrounded(loss: penchant.Table) -> None:
    lines = table_views.to_csv(loss).splitlines()
    assert lines[0] == "frequency,step,value,stderr,null,df"
    assert lines[-1] == "0.5,20,-6.0,0.1,2.5,3.0"
    assert len(lines) == 7


def test_latex_has_errors_in_mathematics(loss: penchant.Table) -> None:
    text = table_views.to_latex(loss)
    assert r"\begin{tabular}{lrrr}" in text
    assert r"$1.00 \pm 0.10$ (null $2.5$)" in text


def test_csv_has_the_digits_of_the_type_of_a_number() -> None:
    single = penchant.Table(np.array([0.1], dtype=np.float32), {"layer": ("conv, first",)})
    assert table_views.to_csv(single) == 'layer,value\n"conv, first",0.1\n'


def test_of_a_large_table_the_first_rows_are_shown() -> None:
    large = penchant.Table(np.arange(1500.0).reshape(500, 3), {"step": range(500), "kind": "abc"})
    page = table_views.to_html(large)
    assert "<p>The first 20 of 500 rows.</p>" in page
    assert "<td>59</td></tr></tbody>" in page
    assert len(table_views.grid(large)) == 21
    assert table_views.to_csv(large).count("\n") == 1501


def _run(folder: Path, tables: dict[str, Any]) -> penchant.Result:
    labels = {"probe": "noise", "seed": 0}
    record: Any = {"id": "noise-s0", "status": "done", "labels": labels, "probe": {"name": "noise"}}
    result = penchant.Result({"size": penchant.Quantity(1.0)}, tables=tables, record=record)
    job = JobFolder.of(folder, "noise-s0").write(result)
    entry = {"id": "noise-s0", "status": "done", "labels": labels, "path": "jobs/noise-s0"}
    write_json(folder / "run.json", {"schema": 1, "title": "t", "seeds": [0], "jobs": [entry]})
    return job


def test_the_report_shows_tables_with_csv_and_latex_to_copy(
    tmp_path: Path, loss: penchant.Table
) -> None:
    _run(tmp_path, {"loss": loss})
    write_report(penchant.read(tmp_path))
    page = (tmp_path / "report.html").read_text()
    assert "<td>1.00 ± 0.10 (null 2.5)</td>" in page
    assert "0.5,20,-6.0,0.1,2.5,3.0" in page
    assert r"$1.00 \pm 0.10$ (null $2.5$)" in page


def test_the_report_links_to_the_numbers_of_a_large_table(tmp_path: Path) -> None:
    large = penchant.Table(np.arange(500.0), {"step": range(0, 1000, 2)}, null=0.5)
    job = _run(tmp_path, {"loss": large})
    assert draw(tmp_path / "jobs" / "noise-s0", None, job) == ""
    write_report(penchant.read(tmp_path))
    page = (tmp_path / "report.html").read_text()
    file = "jobs/noise-s0/tables/loss.csv"
    assert "The first 20 of 500 rows." in page and f'href="{file}"' in page
    lines = (tmp_path / file).read_text().splitlines()
    assert lines[0] == "step,value,null" and lines[-1] == "998,499.0,0.5"


def test_what_an_older_version_stored_is_read_and_says_why_it_is_not_drawn(
    tmp_path: Path, loss: penchant.Table
) -> None:
    names = ("validation-loss", "training-loss", "best-loss", "shuffled-best-loss")
    job = _run(tmp_path, dict.fromkeys(names, loss))
    # Older versions stored arrays only.
    path = tmp_path / "jobs" / "noise-s0" / "result.json"
    record = read_json(path)
    record["arrays"] = {
        name: {key: each[key] for key in ("shape", "dtype", "about")}
        for name, each in record["arrays"].items()
    }
    record |= {"axes": {}, "probe": {"name": "target-noise"}, "figures": "stored"}
    write_json(path, record)
    run = penchant.read(tmp_path)
    (result,) = run.results()
    assert not result.tables
    np.testing.assert_array_equal(result.arrays["best-loss-stderr"], loss.stderr)
    assert job.tables["best-loss"].axes == loss.axes
    with pytest.raises(penchant.Error, match="stored 'validation-loss' without its axes: measure"):
        result.figures()
    assert "without its axes" in draw_missing(run, "noise-s0")


def test_a_long_data_frame_has_a_column_for_each_axis(tmp_path: Path, loss: penchant.Table) -> None:
    pytest.importorskip("pandas")
    _run(tmp_path, {"loss": loss, "last": loss.at(step=20)})
    frame = penchant.read(tmp_path).to_pandas(long=True)
    assert len(frame) == 8
    row = frame[(frame.table == "loss") & (frame.frequency == 0.5) & (frame.step == 10)]
    assert row.value.item() == 5.0
    assert row.probe.item() == "noise"


def test_axes_are_those_that_are_stored_not_guessed_by_length(
    tmp_path: Path, loss: penchant.Table
) -> None:
    pytest.importorskip("xarray")
    # Two axes of one length cannot be told apart by it.
    square = penchant.Table(np.arange(4.0).reshape(2, 2), {"a": ("x", "y"), "b": ("u", "v")})
    _run(tmp_path, {"loss": loss, "square": square})
    (result,) = penchant.read(tmp_path).results()
    dataset = result.to_xarray()
    assert dataset["square"].dims == ("a", "b")
    assert dataset["square"].sel(a="y", b="u").item() == 2.0
    assert dataset["loss-stderr"].dims == ("frequency", "step")
    assert dataset["loss"].sel(frequency=0.5, step=20).item() == -6.0
