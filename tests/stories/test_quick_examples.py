"""Every experiment of examples/ has a quick form: small, and still the same question."""

import tomllib
from pathlib import Path

import penchant
import pytest
from click.testing import CliRunner
from penchant.cli import main
from penchant.experiments.experiment import build
from penchant.plugins import discovery
from penchant_tools.quick import quick_form

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))


@pytest.fixture(scope="module")
def plugins():
    return discovery.load()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_example_has_a_quick_form_in_which_no_two_labels_are_one_measurement(
    path, plugins, tmp_path, monkeypatch
):
    # Without files nothing is read for a job's key.
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path))
    raw = tomllib.loads(path.read_text())
    full = build(raw, plugins, path.name)
    quick = build(quick_form(raw, plugins, path.name), plugins, path.name)
    jobs = quick.jobs("cpu")
    assert 1 <= len(jobs) <= len(full.jobs("cpu"))
    assert len({job.key for job in jobs}) == len(jobs)
    assert quick.settings.quick and quick.settings.title.endswith("(quick)")
    for probe in quick.probes:
        assert probe.preset == "quick"


def example(name, plugins):
    """The probes of an example's quick form."""
    raw = tomllib.loads(next(p for p in EXAMPLES if p.match(name)).read_text())
    quick = quick_form(raw, plugins)
    assert "training" not in quick
    return quick["probes"]


def test_choices_of_a_figure_stay_while_its_numbers_go_and_are_named(plugins):
    probes = example("gih/fig_4.toml", plugins)
    assert [probe["labels"] for probe in probes[1:]] == ["quadratic", "sinusoid"]
    assert "networks" not in probes[0] and "train" not in probes[0]
    assert "networks 10000 -> 1000" in probes[0]["quick"]


def test_numbers_that_tell_entries_apart_stay(plugins):
    petals = example("spectral_bias/fig_3_8.toml", plugins)
    assert [probe["petals"] for probe in petals] == [0, 4, 10, 16]
    noises = example("nad/fig_s3.toml", plugins)
    assert [probe.get("sigma", 1.0) for probe in noises] == [0.0, 1.0, 3.0]
    rates = example("gih/fig_14.toml", plugins)
    assert [probe["training"]["learning_rate"] for probe in rates[::3]] == [1.0, 0.1, 0.01, 0.001]
    assert all(set(probe["training"]) == {"learning_rate"} for probe in rates)


def test_choices_of_a_preset_stay(plugins):
    probes = example("gih/fig_3.toml", plugins)
    assert [probe["data"] for probe in probes] == ["geometry"] * 2 + ["flipped"] * 2
    assert example("nad/fig_s4.toml", plugins)[0]["basis"] == "random"
    estimators = example("nad/fig_s9.toml", plugins)[0]["estimators"]
    assert estimators["directions"]["name"] == "mixed-derivative"


def test_a_file_may_say_what_its_quick_form_sets(plugins):
    probes = example("gih/fig_13.toml", plugins)
    assert probes[-1]["train"] == 2000 and probes[-1]["training"] == {"batch": 160}
    assert "train 100000 -> 2000" in probes[-1]["quick"]
    raw = {"probes": [{"name": "information-benchmark", "quick": {"smaples": 10}}]}
    with pytest.raises(penchant.Error, match="smaples"):
        quick_form(raw, plugins)


def test_equal_entries_with_different_labels_are_refused(plugins):
    raw = {"probes": [{"name": "information-benchmark", "label": each} for each in ("a", "b")]}
    with pytest.raises(penchant.Error, match="in --quick 'a', 'b' would be one and the same"):
        quick_form(raw, plugins)


def test_numbers_that_do_not_fit_the_quick_preset_are_refused_with_a_way_out(plugins):
    raw = tomllib.loads(next(p for p in EXAMPLES if p.match("tangent/fig_4_4.toml")).read_text())
    raw["probes"] = [{k: v for k, v in each.items() if k != "quick"} for each in raw["probes"]]
    with pytest.raises(penchant.Error, match="difficult_data needs difficult_samples.*say in the"):
        quick_form(raw, plugins)


def test_results_say_what_the_quick_form_changed(plugins, tmp_path):
    raw = {"probes": [{"name": "supernat", "trainings": 30}]}
    run = penchant.run(raw, quick=True, out=tmp_path, progress=False)
    assert run.results()[0].conventions["form"].endswith("asks for: trainings 30 -> 20")


def test_the_command_names_what_the_quick_form_changes(tmp_path, plugins):
    file = tmp_path / "one.toml"
    file.write_text('[[probes]]\nname = "supernat"\ntrainings = 30\n')
    done = CliRunner().invoke(main, ["run", str(file), "--quick", "--dry-run"])
    assert done.exit_code == 0
    assert "quick: supernat: trainings 30 -> 20" in done.output
