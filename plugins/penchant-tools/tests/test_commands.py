"""Commands as a user types them, and what they import."""

import json
import re
import subprocess
import sys

import penchant
import pytest
from click.testing import CliRunner
from penchant.cli import main
from penchant.plugins import listing

PROBE = ("probe", "output-spread", "-a", "perceptron", "-d", "two-blobs", "-o", "networks=8")


def test_probe_prints_quantities_and_writes_a_report(command, tmp_path):
    done = command(*PROBE, "--executor", "serial", "--out", "runs/here")
    assert done.returncode == 0, done.stderr
    assert re.search(r"spread +0\.\d+ ± 0\.\d+", done.stdout)
    page = (tmp_path / "runs" / "here" / "report.html").read_text()
    assert "Outputs of fresh networks" in page
    assert "data:image/svg+xml;base64," in page
    again = command(*PROBE, "--executor", "serial", "--out", "runs/here")
    assert "1 job, 1 already done" in again.stderr


def test_the_default_folder_says_what_is_measured_on_what(command, tmp_path):
    assert command(*PROBE, "--executor", "serial", "--set", "figures=false").returncode == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"output-spread-perceptron-two-blobs-[0-9a-f]{8}", folder.name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probe", "output-spred"), "unknown probe 'output-spred'; did you mean 'output-spread'?"),
        (
            (*PROBE, "-o", "networks=1"),
            "networks must be at least 2, found 1 (command line, probes[0].networks)",
        ),
        ((*PROBE, "-o", "networks"), "expected option=value, found 'networks'"),
        ((*PROBE, "-p", "fig-1"), "output-spread has no preset 'fig-1'"),
        ((*PROBE, "-e", "spread"), "-e takes ROLE=ESTIMATOR, found 'spread'"),
        ((*PROBE, "--set", "probes.nad.x=1"), "--set probes.nad.x: nothing is called 'nad'"),
        ((*PROBE, "--device", "cuda:9"), "is not available:"),
        ((*PROBE, "--executor", "cluster"), "unknown executor 'cluster'"),
        (("run", "none.toml"), "none.toml cannot be read"),
        (("report", "nowhere"), "nowhere is not a run folder"),
        (("explain", "lennet"), "no component is called 'lennet'; did you mean 'lenet'"),
        (("list", "networks"), "kind must be one of probe, architecture, dataset"),
        (
            ("probe", "output-spread", "-d", "two-blobs"),
            "output-spread needs an architecture: add -a ARCHITECTURE",
        ),
        ((*PROBE, "-o", "trainig=3"), "has no option 'trainig'; did you mean 'training'?"),
        (("probe", "nad", "-a", "resnet50"), "Or 'timm:model=resnet50'?"),
        (("--without", "nothing", "list"), "unknown plugin 'nothing'"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(command, arguments, message):
    done = command(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failed_job_is_exit_code_1_with_its_reason_and_the_others_go_on(command, tmp_path):
    (tmp_path / "two.toml").write_text(
        'executor = "serial"\nfigures = false\n[[architectures]]\nname = "perceptron"\n[[architectures]]\nname = "lenet"\n'
        '[[datasets]]\nname = "two-blobs"\n[[probes]]\nname = "output-spread"\nnetworks = 8\n'
    )
    done = command("run", "two.toml", "--verbose")
    assert done.returncode == 1
    assert "lenet needs" in done.stderr
    assert "spread" in done.stdout
    assert {job["status"] for job in penchant.read(tmp_path / "runs" / "two").jobs} == {
        "done",
        "failed",
    }


def test_set_and_options_reach_the_experiment(command, tmp_path):
    done = command(
        *PROBE,
        "--set",
        "probes.output-spread.networks=9",
        "--set",
        "figures=false",
        "--threads",
        "1",
        "--executor",
        "serial",
        "--out",
        "x",
        "--seed",
        "3",
        "--seed",
        "4",
    )
    assert done.returncode == 0, done.stderr
    results = penchant.read(tmp_path / "x").results()
    assert [result.seed for result in results] == [3, 4]
    assert results[0].options == {"networks": 9}


def test_lists_are_machine_readable(command):
    rows = json.loads(command("list", "probe", "--json").stdout)
    assert {
        "kind": "probe",
        "name": "output-spread",
        "plugin": "penchant-example",
        "version": "0.2.0",
    }.items() <= next(row for row in rows if row["name"] == "output-spread").items()
    plugins = json.loads(command("plugins", "--json").stdout)
    assert next(each for each in plugins if each["name"] == "example")["status"] == "loaded"


@pytest.mark.parametrize("kind", [None, "probes", "architecture", "roles"])
def test_lists_have_headings_and_fit_a_terminal(kind):
    done = CliRunner().invoke(main, ["list", *([kind] if kind else [])], env={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line for line in lines if line and not line.startswith(" ")]
    every = ["probes", "architectures", "datasets", "estimators", "executors"]
    assert headings == (every if kind is None else [f"{kind.removesuffix('s')}s"])
    assert any(line.endswith("…") for line in lines)


def test_lists_that_nobody_looks_at_have_whole_lines(command, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "…" not in command("list", "probes").stdout


def test_options_have_long_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "probe output-spread --architecture perceptron --dataset two-blobs --preset quick"
    more = "--option networks=8 --estimator spread=standard-deviation --executor serial --out run"
    done = CliRunner().invoke(main, [*line.split(), *more.split(), "--set", "figures=false"])
    assert done.exit_code == 0, done.output
    (found,) = penchant.read(tmp_path / "run").results()
    assert found.record["probe"]["options"]["networks"] == 8


def test_explain_shows_everything_a_user_can_set(command):
    shown = command("explain", "directional-accuracy").stdout
    for text in (
        "Reference:",
        "margin: paper: +-epsilon",
        '(text; paper | code; default "paper")',
        "Presets:",
        "quick:",
        "test-accuracy:",
        "test-accuracy:",
    ):
        assert text in shown


@pytest.mark.parametrize(
    "arguments", [["list"], ["explain", "nad"], ["plugins"], ["list", "roles"]]
)
def test_listing_and_explaining_import_nothing_heavy(arguments):
    code = (
        "import sys; sys.argv = ['penchant', *sys.argv[1:]]\n"
        "from penchant.cli import main\n"
        "try: main()\nexcept SystemExit as left: assert not left.code, left.code\n"
        "print('HEAVY', sorted({'torch', 'scipy', 'matplotlib', 'numpy', 'jinja2', 'timm', 'sklearn', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.stdout.strip().endswith("HEAVY []"), done.stdout[-300:] + done.stderr


def test_reports_escape_what_users_wrote(tmp_path):
    raw = {
        "title": "<script>alert(1)</script>",
        "architectures": [{"name": "perceptron", "label": "<b>bold</b>"}],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": 8}],
        "executor": "serial",
    }
    penchant.run(raw, out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<script>alert" not in page and page.count("<script>") == 1
    assert "<b>bold" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "http" not in page.replace("http-equiv", ""), "the page needs nothing from elsewhere"


def test_help_has_no_marks_of_the_library_that_prints_it():
    found = CliRunner().invoke(main, ["--help"])
    assert "\\b" not in found.output and "\b" not in found.output
    assert '\n    eval "$(_PENCHANT_COMPLETE=bash_source penchant)"\n' in found.output


def test_lists_never_cut_a_name():
    rows = [
        {"kind": "probe", "name": "a-name-that-is-long", "summary": "What it measures."},
        {"kind": "probe", "name": "a-name-that-is-longer", "summary": "What it measures."},
    ]
    for width in (5, 20, 30):
        first, second = listing.lines(rows, width)[1:]
        assert first.startswith("  a-name-that-is-long  ")
        assert second.startswith("  a-name-that-is-longer  ")


BAD_FIGURE = """
import attrs
import penchant

@attrs.frozen
class BadFigure(penchant.Probe):
    \"\"\"Has a number, and a figure that cannot be drawn.\"\"\"
    name = "bad-figure"
    target = "penchant_bad_figure:run"
    figures = "penchant_bad_figure:draw"
    quantities = {"one": "a number"}
    presets = {"quick": {}}

def run(options, context):
    return penchant.Result({"one": penchant.Quantity(1, exact=True)})

def draw(result):
    return {"figure": result.arrays["missing"]}

@penchant.hookimpl
def penchant_probes():
    return [BadFigure]
"""


def test_a_figure_that_raises_is_a_warning_in_the_terminal_and_in_json(install, command, tmp_path):
    install("bad-figure", BAD_FIGURE)
    line = "probe bad-figure --executor serial --out"
    shown = command(*line.split(), "run")
    assert shown.returncode == 0
    assert "warning: figures could not be drawn: KeyError: 'missing'" in shown.stderr
    told = command(*line.split(), "other", "--json-lines")
    assert "figures could not be drawn" in told.stdout
