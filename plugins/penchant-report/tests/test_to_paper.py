"""From a run to a paper: tables, citations, figures of a given width, and what a run lacks."""

import json
import re
import shutil
import subprocess

import matplotlib
import penchant
import pytest
import torch
from click.testing import CliRunner
from penchant.cli import main
from penchant_report.citations import bibtex
from penchant_report.figure_faults import faults
from penchant_report.text_tables import _latex_text

EXPERIMENT = {
    "title": "Two widths",
    "shape": [1, 4, 4],
    "architectures": [
        {"name": "mlp", "label": "a_b", "widths": [4]},
        {"name": "mlp", "label": "wide", "widths": [8]},
    ],
    "probes": [{"name": "nad", "networks": 8}],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper") / "run"
    return penchant.run({**EXPERIMENT, "executor": "serial"}, out=folder)


def test_a_markdown_table_has_the_rounded_values(run):
    text = run.to_markdown()
    assert "| quantity | a_b | wide |" in text
    value = run.results(architecture="wide")[0].quantities["effective-rank"]
    shown = re.search(r"\| effective-rank \| .* \| ([\d.]+) ± ([\d.]+) \(null", text)
    assert float(shown[1]) == pytest.approx(value.value, abs=value.stderr / 10)
    assert float(shown[2]) == pytest.approx(value.stderr, rel=0.06)


def test_a_latex_table_compiles(run, tmp_path):
    text = run.to_latex()
    assert r"quantity & a\_b & wide \\" in text
    assert text.count(r"\begin{tabular}{lrr}") == text.count(r"\end{tabular}") == 1
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex")
    lines = [r"\documentclass{article}", r"\let\toprule\hline\let\midrule\hline"]
    lines += [r"\let\bottomrule\hline\begin{document}", text, r"\end{document}"]
    (tmp_path / "table.tex").write_text("\n".join(lines), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-800:]


def test_numbers_with_powers_of_ten_are_mathematics():
    assert _latex_text("1.23e−7 ± 3.0e-9") == r"$1.23 \times 10^{-7} \pm 3.0 \times 10^{-9}$"
    assert _latex_text("effective-rank_1") == r"effective-rank\_1"
    assert _latex_text("–") == "--"


def test_a_run_names_the_papers_behind_its_probes(run):
    found = CliRunner().invoke(main, ["cite", str(run.folder)])
    assert found.exit_code == 0, found.output
    assert "@inproceedings{ortizjimenez2020neural," in found.output
    assert "@software{penchant," in found.output
    assert found.output.count("@") == 2 and found.output.count("{") == found.output.count("}")


def test_a_plugin_of_a_single_module_has_no_papers_and_is_named(tmp_path, install):
    install("good")
    run = penchant.read(_renamed(tmp_path, "found"))
    assert bibtex(run).startswith("% probe found: no reference")
    run = penchant.read(_renamed(tmp_path, "gone\n@evil{}"))
    assert bibtex(run).startswith("% probe gone @evil{}: not installed here\n")


def _renamed(folder, name):
    """A run of a probe of this name, which has not begun."""
    labels = {"probe": name, "seed": 0}
    record = {
        "schema": 1,
        "seeds": [0],
        "jobs": [{"id": "a", "status": "pending", "labels": labels}],
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_every_measurement_plugin_has_its_papers(run):
    import importlib.resources

    from penchant.plugins import discovery

    for registration in discovery.load().registrations("probe"):
        package = registration.component.__module__.partition(".")[0]
        if package in ("penchant_example",):
            continue
        file = importlib.resources.files(package) / "references.bib"
        assert file.is_file(), f"{package} has no references.bib"
        text = file.read_text(encoding="utf-8")
        assert text.count("{") == text.count("}") and re.search(r"^@\w+\{\w+,$", text, re.M)


def test_tables_say_which_jobs_they_lack(run, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run.folder, folder)
    jobs = sorted((folder / "jobs").iterdir())
    shutil.rmtree(jobs[0])
    assert penchant.read(folder).to_markdown().startswith("**nad** (1 job pending)\n\n| quantity |")
    shutil.rmtree(jobs[1])
    assert penchant.read(folder).to_markdown() == "**nad** (2 jobs pending)"
    assert penchant.read(folder).to_latex() == "% nad: 2 jobs pending"


def test_rows_of_tables_are_chosen_by_name(run):
    text = run.to_latex(["trace", "effective-rank"])
    rows = [line.partition(" &")[0] for line in text.splitlines() if " & " in line]
    assert rows == ["quantity", "trace", "effective-rank"]
    assert run.to_markdown(["trace"]).count("\n| ") == 3
    with pytest.raises(penchant.Error, match="no quantity 'trase'; did you mean 'trace'"):
        run.to_latex(["trase"])


def test_data_without_a_name_do_not_name_a_column(tmp_path):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    data = (torch.randn(12, 1, 4, 4), torch.arange(12) % 3)
    settings = {"architecture": network, "dataset": data, "label": "My CNN"}
    penchant.measure("nad", **settings, out=tmp_path / "own")
    assert "quantity & My CNN \\\\" in penchant.read(tmp_path / "own").to_latex()


def test_a_figure_has_the_width_of_a_column(run):
    result = run.results()[0]
    column = result.figure("eigenvalues", width="column")
    assert column.get_size_inches()[0] == 3.25
    assert not faults(column)
    with pytest.raises(penchant.Error, match="width must be inches, 'column' or 'text', found 'x'"):
        result.figure("eigenvalues", width="x")


def test_a_user_s_own_settings_are_respected_where_asked_for(run):
    result = run.results()[0]
    with matplotlib.rc_context({"axes.labelsize": 31}):
        own = result.figure("eigenvalues", style=False)
        ours = result.figure("eigenvalues")
    assert own.axes[0].xaxis.label.get_size() == 31
    assert ours.axes[0].xaxis.label.get_size() != 31


def test_the_status_of_a_run_names_what_it_lacks(run, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "copy"
    shutil.copytree(run.folder, folder)
    lost = next((folder / "jobs").iterdir())
    shutil.rmtree(lost)
    monkeypatch.chdir(tmp_path)
    one = CliRunner().invoke(main, ["status", "runs/copy"])
    assert one.output.splitlines() == [
        "Two widths: 1 of 2 jobs done, 1 pending",
        f"  pending  {lost.name}",
    ]
    every = CliRunner().invoke(main, ["status"])
    assert re.fullmatch(
        r"runs/copy  \d{4}-\d\d-\d\d \d\d:\d\d  1 of 2 jobs done, 1 pending  Two widths\n",
        every.output,
    )


def test_status_without_runs_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, ["status"])
    assert found.exit_code != 0 and "there is no run folder in runs" in str(found.output)
