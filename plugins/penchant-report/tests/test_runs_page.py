"""The page of all runs in a folder."""

import json
import shutil

import penchant
import pytest
from click.testing import CliRunner
from penchant.cli import main
from penchant_report.runs_page import write_index

EXPERIMENT = {
    "executor": "serial",
    "shape": [1, 4, 4],
    "architectures": [{"name": "mlp", "label": "<b>wide</b>", "widths": [4]}],
    "probes": [{"name": "nad", "networks": 4}],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all") / "runs"
    penchant.run({**EXPERIMENT, "title": "First & best"}, out=folder / "first")
    shutil.copytree(folder / "first", folder / "second # copy")
    (folder / "second # copy" / "report.html").unlink()
    (folder / "newer").mkdir()
    (folder / "newer" / "run.json").write_text(json.dumps({"schema": 99}))
    return folder


def test_the_command_writes_a_page_of_all_runs_with_links_to_their_reports(runs):
    done = CliRunner().invoke(main, ["report", str(runs)])
    assert done.exit_code == 0, done.output
    assert done.output.strip() == str(runs / "index.html")
    page = (runs / "index.html").read_text()
    assert '<a href="first/report.html">First &amp; best</a>' in page
    assert "3 runs in runs" in page
    assert "&lt;b&gt;wide&lt;/b&gt;" in page and "<b>wide" not in page
    assert "1 job: 1 done" in page


def test_a_run_without_report_or_that_cannot_be_read_hides_no_other(runs):
    page = write_index(runs).read_text()
    assert "second # copy: no report yet" in page
    assert "cannot be read" in page and "newer" in page


def test_a_run_is_still_a_run(runs):
    done = CliRunner().invoke(main, ["report", str(runs / "first")])
    assert done.output.strip().endswith("report.html")
    assert not (runs / "first" / "index.html").exists()


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(penchant.Error, match="neither a run folder nor a folder of runs"):
        write_index(tmp_path)
