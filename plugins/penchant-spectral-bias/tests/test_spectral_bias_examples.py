"""The experiments in `examples/spectral_bias`: valid as they stand, one for every preset, and some of them run small."""

from pathlib import Path

import penchant
import pytest
from penchant import plugins, testing
from penchant.experiments.experiment import build, read_toml

FOLDER = Path(__file__).parents[3] / "examples" / "spectral_bias"
FILES = sorted(FOLDER.glob("*.toml"))
TWINS = {
    "fig-a.2": "fig-3.4",
    "fig-a.3": "fig-3.6",
    "fig-a.4": "fig-3.5",
    "fig-a.9": "fig-a.8",
    "fig-a.11": "fig-a.12",
}  # same run, other figure

pytestmark = pytest.mark.skipif(not FILES, reason="the examples are not beside this plugin")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_is_valid(path):
    assert build(read_toml(path), plugins.load(), path.name) is not None


def test_every_preset_has_an_example():
    used = {entry["preset"] for path in FILES for entry in read_toml(path)["probes"]}
    offered = {
        preset
        for offer in testing.offers("penchant-spectral-bias")
        for preset in offer.component.presets
    }
    assert {TWINS.get(preset, preset) for preset in offered - {"quick", "rising"}} == used


@pytest.mark.parametrize(
    ("name", "options", "training"),
    [
        pytest.param(
            "fig_3_8",
            {"frequencies": [2, 4], "points": 24, "draws": 1, "shuffled_draws": 0},
            {"steps": 2},
            marks=pytest.mark.slow,
        ),
        ("fig_a_7", {"points": 16, "every": 1}, {"steps": 2}),
        ("theorem_3_3", {"networks": 1, "cycles": 20, "gradients": 2}, {}),
    ],
)
def test_example_runs_small(name, options, training, tmp_path):
    raw = read_toml(FOLDER / f"{name}.toml")
    for entry in raw["probes"]:
        entry.update(options)
        entry["training"] = training
    for architecture in raw["architectures"]:
        architecture["widths"] = [6, 6]
    run = penchant.run({**raw, "executor": "serial"}, out=tmp_path)
    assert all(result.status == "done" for result in run.results()) and len(run.results()) == len(
        raw["probes"]
    ) * len(raw["architectures"])
