"""Silly and hostile input: a clear line, nothing leaked, nothing lost."""

import json
import os
import time

import penchant
import pytest
from penchant.execution.queue import limits

EXAMPLE = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 8}],
    "executor": "serial",
}


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_a_job_that_takes_too_long_fails_and_the_others_go_on(tmp_path, install, executor):
    install("sleeps")
    probes = [
        {"name": "sleeps", "label": "long", "seconds": 600.0},
        {"name": "sleeps", "label": "short"},
    ]
    started = time.monotonic()
    raw = {"probes": probes, "time_limit": 0.5, "executor": executor, "workers": 2}
    run = penchant.run(raw, out=tmp_path / "run")
    assert time.monotonic() - started < 300  # starting workers takes long on a busy machine
    assert [job["status"] for job in run.jobs] == ["failed", "done"]
    assert "longer than its time_limit of 0.5 seconds" in run.results(probe="long")[0].error


IMPATIENT = "from penchant.execution.queue import limits\nlimits.GRACE = 0.5\n"


def test_a_call_that_never_returns_is_stopped_with_its_worker_and_says_where(
    tmp_path, install, monkeypatch
):
    # A plugin is how a setting gets into a worker; monkeypatch puts back that of this process.
    monkeypatch.setattr(limits, "GRACE", 0.5)
    install("sleeps", prefix=IMPATIENT)
    probes = [
        {"name": "sleeps", "label": "endless", "seconds": 1e9},
        {"name": "sleeps", "label": "short"},
    ]
    raw = {"probes": probes, "time_limit": 0.5, "executor": "processes", "workers": 2}
    run = penchant.run(raw, out=tmp_path / "run")
    assert [job["status"] for job in run.jobs] == ["failed", "done"]
    failed = run.results(probe="endless")[0]
    limit = "the job took longer than its time_limit of 0.5 seconds"
    assert failed.error == f"{limit}, and could not be interrupted"
    assert "penchant_sleeps.py" in failed.record["traceback"]
    assert not list(run.folder.rglob("overdue.txt"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [10**300]}, "seeds must be at most"),
        ({"time_limit": -1.0}, "time_limit must be above 0"),
        ({"architectures": [{"name": "perceptron", "label": "x" * 300}]}, "shorter labels"),
    ],
)
def test_what_no_file_system_takes_is_refused_before_anything_runs(tmp_path, change, message):
    with pytest.raises(penchant.Error, match=message):
        penchant.run({**EXAMPLE, **change}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_whose_name_is_too_long_is_one_line(tmp_path, command):
    done = command(
        "probe", "output-spread", "-a", "perceptron", "-d", "two-blobs", "--out", "x" * 300
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "File name too long" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "seeds = [" + "9" * 5000 + "]",
        "x = " + "[" * 3000 + "]" * 3000,
        "x = " + "{a = " * 3000 + "1" + "}" * 3000,
        "[[probes]]\nname = 'nad'\nnetworks = 1" + "0" * 400,
    ],
)
def test_toml_of_silly_depth_or_size_is_one_line(tmp_path, command, text):
    (tmp_path / "silly.toml").write_text(text)
    done = command("run", "silly.toml")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("penchant: ")


def test_a_huge_file_is_refused_unread(tmp_path, command):
    (tmp_path / "huge.toml").write_text("# " + "x" * 11_000_000)
    done = command("run", "huge.toml")
    assert done.returncode == 2 and "expected at most 10000000" in done.stderr


@pytest.mark.parametrize(
    "factory", ["builtins:abs", ".x:y", "no.such:thing", "json:dumps", "raises_on_import:make"]
)
def test_a_factory_that_cannot_be_one_is_one_line(tmp_path, command, factory):
    (tmp_path / "raises_on_import.py").write_text("1 / 0\n")
    done = command("probe", "output-spread", "-a", f"import:factory={factory}", "-d", "two-blobs")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_escapes_in_texts_do_not_reach_the_terminal(tmp_path, install, command):
    install("sleeps")
    text = "\x1b[31mred\x07"
    done = command("probe", "sleeps", "-o", f"text='{text}'", "--executor", "serial")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "\\x1b[31mred" in done.stderr


@pytest.mark.usefixtures("with_report")
def test_surrogates_reach_the_report_and_nobody_dies(tmp_path, install):
    install("sleeps")
    raw = {"probes": [{"name": "sleeps", "text": "bad \udce9 name"}], "executor": "serial"}
    run = penchant.run(raw, out=tmp_path / "run")
    assert run.done
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.usefixtures("with_report")
def test_a_folder_whose_name_is_no_text_has_a_report(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    assert penchant.run(EXAMPLE, out=folder).done
    assert (folder / "report.html").is_file()


def test_a_linked_figure_is_not_put_into_the_report(tmp_path, command):
    run = penchant.run(EXAMPLE, out=tmp_path / "run")
    secret = tmp_path / "secret.txt"
    secret.write_text("my password")
    figure = run.folder / "jobs" / run.jobs[0]["id"] / "figures" / "means.svg"
    figure.unlink()
    figure.symlink_to(secret)
    assert command("report", run.folder).returncode == 0
    import base64

    page = (run.folder / "report.html").read_text()
    assert base64.b64encode(b"my password").decode() not in page


def test_a_closed_stderr_stops_nothing(tmp_path, command):
    done = command(
        "probe", "output-spread", "-a", "perceptron", "-d", "two-blobs", "-o", "networks=8",
        "--executor", "serial", "--out", "run", closed=[2],
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["jobs"][0]["status"] == "done"


def test_complex_arrays_are_refused():
    import numpy as np

    with pytest.raises(penchant.Error, match="must hold real numbers, found complex"):
        penchant.measure(
            "directional-accuracy", architecture="logistic", directions=np.eye(4) * 1j, shape=(4,)
        )


def test_readme_and_explain_warn_of_files_from_strangers(root, command):
    assert "run only files you trust" in (root / "README.md").read_text()
    assert "run only files you trust" in " ".join(command("explain", "import").stdout.split())


def test_a_local_module_is_found_where_the_command_is_typed(tmp_path, command):
    (tmp_path / "own_nets.py").write_text(
        "from torch import nn\n\ndef make(shape, outputs):\n    return nn.Linear(*shape, outputs)\n"
    )
    done = command(
        "probe", "output-spread", "-a", "import:factory=own_nets:make", "-d", "two-blobs",
        "-o", "networks=8", "--set", "figures=false", "--executor", "serial",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_endless_plan_is_refused(tmp_path):
    raw = {**EXAMPLE, "probes": [{"name": "output-spread", "networks": 10**12}]}
    run = penchant.run(raw, out=tmp_path / "run")
    assert "expected at most 1000000 shards" in run.results()[0].error
