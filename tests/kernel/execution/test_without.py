"""Plugins that a command leaves out with `--without` are left out wherever its jobs run."""

import pickle

import penchant
import pytest
from penchant.plugins import discovery

EXPERIMENT = """
seeds = [0, 1]
[[architectures]]
name = "perceptron"
[[datasets]]
name = "two-blobs"
[[probes]]
name = "output-spread"
networks = 4
"""


def drawn(folder):
    return [path for part in ("figures", "tables") for path in folder.glob(f"jobs/*/{part}")]


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_no_figures_are_drawn_without_the_plugin_that_draws(tmp_path, command, executor):
    (tmp_path / "spread.toml").write_text(EXPERIMENT)
    call = ["run", tmp_path / "spread.toml", "--executor", executor, "--workers", 2]
    done = command("--without", "report", *call, "--out", tmp_path / "bare")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "bare").glob("jobs/*/result.json"))) == 2
    assert not drawn(tmp_path / "bare") and not (tmp_path / "bare" / "report.html").exists()
    # The same folder with the plugin has all of it, so the assertion above can fail.
    done = command(*call, "--out", tmp_path / "bare")
    assert done.returncode == 0, done.stderr
    assert drawn(tmp_path / "bare") and (tmp_path / "bare" / "report.html").exists()


def test_jobs_are_plain_lines_without_the_plugin_that_has_bars(tmp_path, command):
    (tmp_path / "spread.toml").write_text(EXPERIMENT)
    call = ["run", tmp_path / "spread.toml", "--executor", "serial", "--out", tmp_path / "run"]
    done = command("--without", "tools", *call)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("  done   output-spread-") == 2
    (again,) = [command(*call[:-1], tmp_path / "other")]
    assert "  done   output-spread-" not in again.stderr


def test_another_process_loads_only_the_plugins_that_listen(tmp_path, install):
    install("listener")
    points = discovery.load(("report",)).listening("penchant_result_stored")
    assert [point.name for point in points] == ["listener"]
    there = discovery.load_only(pickle.loads(pickle.dumps(points)))
    assert [plugin.name for plugin in there.plugins] == ["listener"]
    answers = there.announce("penchant_result_stored", job=None, folder=tmp_path, result=None)
    assert answers == ["a listener warns of this"]
    assert (tmp_path / "heard").exists()


def test_what_a_listener_returns_is_a_warning_of_the_stored_result(tmp_path, install):
    install("listener")
    axes = {"architectures": [{"name": "perceptron"}], "datasets": [{"name": "two-blobs"}]}
    raw = {"probes": [{"name": "output-spread", "networks": 2}], **axes, "executor": "serial"}
    (result,) = penchant.run(raw, out=tmp_path / "run").results()
    assert result.warnings == ("a listener warns of this",)
    assert result.arrays["means"].shape == (2,)
