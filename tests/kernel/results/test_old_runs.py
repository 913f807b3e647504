"""Run folders of every schema are read for ever."""

import penchant
import pytest
from penchant_report.report import write_report


def test_a_run_of_schema_1_is_read(root):
    run = penchant.read(root / "tests" / "fixtures" / "run-schema-1")
    assert run.title == "A run of schema 1"
    assert [job["status"] for job in run.jobs] == ["done", "done"]
    first = run.results(seed=0)[0]
    assert first.arrays["means"].shape == (8,)
    assert first.quantities["spread"].value == pytest.approx(first.arrays["means"].std(ddof=1))
    assert [row["quantity"] for row in run.table()] == ["spread", "spread"]


@pytest.mark.parametrize("record", [{}, {"probe": {"name": "p"}}])
def test_what_an_older_result_lacks_is_empty(record):
    result = penchant.Result(record=record)
    assert (result.options, result.cost, result.meanings, result.shape) == ({}, {}, {}, None)


def test_its_report_can_be_written_again(root, tmp_path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(root / "tests" / "fixtures" / "run-schema-1", folder)
    assert "A run of schema 1" in write_report(penchant.read(folder)).read_text()
