"""What a run shows: bars to whoever watches, lines to a file, events to machines."""

import datetime
import io
import json
import re
import sys
import types

import numpy as np
import penchant
import pytest
from click.testing import CliRunner
from penchant.cli import main
from penchant.results.quantities import Quantity
from penchant.results.result import Result
from penchant_tools import bars
from penchant_tools.display import Display
from penchant_tools.quantity_lines import quantity_lines

PROBE = ("probe", "output-spread", "-a", "perceptron", "-d", "two-blobs", "-o", "networks=8")
SMALL = ("--executor", "serial", "--set", "figures=false", "--out", "run")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, [*PROBE, *SMALL, *arguments])


def test_quiet_prints_where_the_report_is_and_nothing_else(invoke, tmp_path):
    done = invoke("--quiet")
    assert done.exit_code == 0
    assert done.output == f"{tmp_path / 'run' / 'report.html'}\n"


def test_every_event_is_a_line_of_json(invoke, tmp_path):
    done = invoke("--json-lines", "--seed", "0", "--seed", "1")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    names = [event["event"] for event in events]
    times = [datetime.datetime.fromisoformat(event["time"]) for event in events]
    assert times == sorted(times) and times[0].tzinfo is not None
    assert names[0] == "run-started" and names[-1] == "run-finished"
    assert names.count("job-started") == names.count("job-finished") == 2
    progress = next(event for event in events if event["event"] == "progress")
    assert progress["done"] <= progress["total"]
    found = next(event for event in events if event["event"] == "job-finished")
    assert found["status"] == "done" and found["quantities"]["spread"]["stderr"] > 0
    assert events[-1]["report"] == str(tmp_path / "run" / "report.html")


def test_a_grid_has_one_line_for_each_job_and_the_report_last(invoke):
    done = invoke("--seed", "0", "--seed", "1")
    first, *jobs, report = done.output.splitlines()
    assert report.endswith("report.html") and done.stdout.endswith(f"{report}\n")
    assert "2 jobs, 0 already done" in first and len(jobs) == 2
    clock = r"  \d\d:\d\d:\d\d done   \[{}/2\] output-spread-perceptron-two-blobs-s\d-[0-9a-f]{{8}}  [\d.]+ s"
    for number, line in enumerate(jobs, 1):
        assert re.fullmatch(clock.format(number), line), line


def test_a_verbose_grid_tells_each_job_as_soon_as_it_ends(invoke):
    done = invoke("--seed", "0", "--seed", "1", "--verbose")
    lines = done.output.splitlines()
    ends = [number for number, line in enumerate(lines) if " done   [" in line]
    found = [number for number, line in enumerate(lines) if line.startswith("  spread ")]
    assert ends[0] < found[0] < ends[1] < found[1]
    assert lines[-1].endswith("report.html")
    assert "\x1b" not in done.output


def test_a_terminal_has_a_bar_for_every_running_job_which_is_gone_at_the_end(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(bars._Terminal, "pause", 0)
    display = Display()
    run = two_jobs()
    display.penchant_run_started(run)
    for job in ("a", "b"):
        display.penchant_job_started(run, job)
        display.penchant_progress(job, "shards", 1, 4)
        display.penchant_progress(job, "steps", 7, 9)
        display.penchant_progress(job, "shards", 2, 4)
    frame = terminal.getvalue()
    assert "1/4 shards" in frame and "2/4 shards" in frame and "left" in frame
    assert "7/9 steps" not in frame
    display.penchant_run_finished(run)
    # The last thing written moves up and clears every line of the bars.
    assert terminal.getvalue().rstrip().endswith("\x1b[1A\x1b[2K")
    assert all(len(line) < 600 for line in frame.splitlines())


def two_jobs():
    jobs = []
    for name in ("a", "b"):
        labels = {"probe": f"nad-{name}", "architecture": "x" * 60, "seed": 0}
        jobs.append({"id": name, "status": "pending", "labels": labels})
    return types.SimpleNamespace(title="t", folder="runs/t", others=[], jobs=jobs, selected=jobs)


def test_a_notebook_has_one_output_that_is_replaced_and_empty_at_the_end(monkeypatch):
    shown = []
    display = pytest.importorskip("IPython.display")

    class Handle:
        def update(self, page):
            shown.append(page.data)

    monkeypatch.setattr(display, "display", lambda page, display_id: Handle())
    monkeypatch.setattr(bars, "in_notebook", lambda: True)
    monkeypatch.setattr(bars._NotebookScreen, "pause", 0)
    listener = Display(lines=False)
    run = two_jobs()
    listener.penchant_run_started(run)
    listener.penchant_progress("a", "training steps", 3, 12)
    assert "3/12 training steps" in shown[-1] and "nad-a" in shown[-1]
    listener.penchant_run_finished(run)
    assert shown[-1] == ""


def test_python_shows_nothing_where_nobody_watches(tmp_path, capfd):
    penchant.measure("output-spread", architecture="perceptron", dataset="two-blobs", networks=8)
    assert capfd.readouterr() == ("", "")


def test_a_script_prints_a_line_for_each_job_on_stderr_and_nothing_on_stdout(tmp_path, capfd):
    two = [{"name": "perceptron"}, {"name": "import", "factory": no_network, "label": "mine"}]
    raw = {
        "architectures": two,
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": 8}],
        "executor": "serial",
    }
    run = penchant.run(raw, out=tmp_path / "run")
    out, lines = capfd.readouterr()
    assert out == ""
    _, done, failed, why = lines.splitlines()
    assert "done   [1/2] output-spread-perceptron" in done
    assert "failed [2/2] output-spread-mine" in failed and "no network today" in why
    first, reason = repr(run).splitlines()
    assert first.endswith("1 of 2 jobs done")
    assert reason.startswith("  failed: output-spread-mine") and "no network today" in reason
    with pytest.raises(penchant.Error, match=r"this job failed, so .* no network today"):
        run.results(architecture="mine")[0].figures()
    penchant.run(raw, out=tmp_path / "run", progress=False)
    assert capfd.readouterr() == ("", "")


def no_network(shape, outputs):
    raise RuntimeError("no network today")


def test_lines_show_z():
    found = {"rank": penchant.Quantity(74.5, stderr=2.3, null=125.3, null_spread=0.4)}
    assert quantity_lines(found) == ["  rank  74.5 ± 2.3  null 125.30 ± 0.40  z = −22"]


def test_an_array_that_is_declared_and_lacks_is_named(capsys):
    job = types.SimpleNamespace(id="a-job", record={"about": {"kept": "", "sizes": ""}})
    result = Result({"size": Quantity(1.0, exact=True)}, {"kept": np.zeros(2)})
    display = Display(quantities=True)
    display.penchant_job_finished(run=None, job=job, result=result)
    assert "not measured here: array sizes\n" in capsys.readouterr().err
