"""Every experiment of examples/ has a quick form: small, and still the same question."""

import tomllib
from pathlib import Path

import pytest
from penchant.experiments.experiment import build
from penchant.plugins import discovery
from penchant_tools.quick import quick_form

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))


@pytest.fixture(scope="module")
def plugins():
    return discovery.load()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_example_has_a_quick_form_that_plans(path, plugins, tmp_path, monkeypatch):
    # Without files nothing is read for a job's key.
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path))
    raw = tomllib.loads(path.read_text())
    full = build(raw, plugins, path.name)
    quick = build(quick_form(raw, plugins, path.name), plugins, path.name)
    jobs = quick.jobs("cpu")
    assert 1 <= len(jobs) <= len(full.jobs("cpu"))
    assert quick.settings.quick and quick.settings.title.endswith("(quick)")
    for probe in quick.probes:
        assert probe.preset == "quick"


def test_choices_of_a_figure_stay_while_its_numbers_go(plugins):
    raw = tomllib.loads(next(p for p in EXAMPLES if p.match("gih/fig_4.toml")).read_text())
    probes = quick_form(raw, plugins)["probes"]
    assert [probe["labels"] for probe in probes[1:]] == ["quadratic", "sinusoid"]
    assert "networks" not in probes[0] and "train" not in probes[0]


def test_the_training_is_that_of_the_quick_preset(plugins):
    raw = tomllib.loads(next(p for p in EXAMPLES if p.match("gih/fig_14.toml")).read_text())
    quick = quick_form(raw, plugins)
    assert "training" not in quick
    assert all("training" not in probe for probe in quick["probes"])
