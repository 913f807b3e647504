"""The experiments in `examples/tangent`: every preset has one, and all of them run small."""

import os
import tomllib
from pathlib import Path

import penchant_testing as testing
import pytest
from penchant_testing.builders import run_unreported

FOLDER = Path(__file__).parents[3] / "examples" / "tangent"
FILES = sorted(FOLDER.glob("*.toml"))
SMALL = {
    "tangent-training": {
        "samples": 4,
        "evaluations": 2,
        "trainings": 2,
        "noise_shares": [0.0],
        "easy_samples": 20,
        "training": {"epochs": 1},
    },
    "tangent-eigenfunctions": {
        "grid_points": 5,
        "leading": 3,
        "trainings": 2,
        "eval_steps": [0],
        "training": {"steps": 1},
    },
    "complexity": {"widths": [2, 3, 4], "trainings": 2, "samples": 4, "training": {"epochs": 1}},
    "supernat": {"trainings": 2, "descent_steps": 4},
    "parameter-directions": {"samples": 4, "vectors": 4, "training": {"epochs": 1}},
    "capacity": {"features": 60, "grid_points": 60, "training_sets": 2, "signs": 4},
}
LIMITS = {"difficult_samples": 4}

pytestmark = pytest.mark.skipif(not FILES, reason="the examples are not beside this plugin")


def read(path):
    return tomllib.loads(path.read_text())


def test_every_preset_has_an_example():
    used = set()
    for path in FILES:
        for entry in read(path)["probes"]:
            used.add((entry["name"], entry["preset"]))
    for registration in testing.registrations("penchant-tangent"):
        component = registration.component
        for preset in getattr(component, "presets", {}):
            assert preset == "quick" or (component.name, preset) in used, preset


def is_here(name):
    synthetic = ("disk", "sinusoids")
    root = Path(os.environ.get("PENCHANT_DATA", "nowhere"))
    return name in synthetic or (root / name).is_dir() or list(root.glob(f"{name[:5]}-10-*"))


def reduced(raw):
    """One probe with one small network and few samples, of data that are here."""
    raw["probes"] = raw["probes"][:1]
    entry = raw["probes"][0]
    registration = next(
        each
        for each in testing.registrations("penchant-tangent")
        if each.component.name == entry["name"]
    )
    chosen = registration.component.presets[entry["preset"]]
    limits = {key: value for key, value in LIMITS.items() if key in chosen}
    entry.update({**SMALL[entry["name"]], **limits})
    entry.pop("architectures", None)
    entry.pop("datasets", None)
    for key in ("architectures", "datasets"):
        if raw.get(key):
            raw[key] = raw[key][:1]
    for architecture in raw.get("architectures", []):
        architecture.clear()
        architecture.update(name="mlp", widths=[4])
    for dataset in raw.get("datasets", []):
        if dataset["name"] not in ("disk", "sinusoids"):
            dataset.update(per_class=4, test_per_class=4)
    return {**raw, "executor": "serial", "figures": False}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_runs_small(path, tmp_path):
    raw = reduced(read(path))
    lacking = [entry["name"] for entry in raw.get("datasets", []) if not is_here(entry["name"])]
    if lacking:
        pytest.skip(f"PENCHANT_DATA names no folder with {lacking[0]}")
    run = run_unreported(raw, tmp_path)
    found = [(result.status, result.error) for result in run.results()]
    assert found == [("done", None)]
