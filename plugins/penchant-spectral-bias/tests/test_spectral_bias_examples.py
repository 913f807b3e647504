"""The experiments in `examples/spectral_bias`: one for every preset, and all of them run small."""

import os
import tomllib
from pathlib import Path

import penchant_testing as testing
import pytest
from penchant_testing.builders import run_unreported

FOLDER = Path(__file__).parents[3] / "examples" / "spectral_bias"
FILES = sorted(FOLDER.glob("*.toml"))
# The same run, other figures of it.
TWINS = {
    "fig-a-2": "fig-3-4",
    "fig-a-3": "fig-3-6",
    "fig-a-4": "fig-3-5",
    "fig-a-5": "fig-a-8",
    "fig-a-9": "fig-a-8",
    "fig-a-11": "fig-a-12",
}
SMALL = {
    "frequency-learning": {"frequencies": [2, 4], "amplitudes": [1.0, 1.0], "samples": 16, "trainings": 1, "eval_every": 1, "shuffled_trainings": 0},
    "frequency-robustness": {"frequencies": [2, 4], "samples": 16, "trainings": 1, "perturbations": 2, "deltas": [1.0]},
    "manifold-accuracy": {"frequencies": [2], "petal_counts": [0], "samples": 16, "trainings": 1, "grid_points": 16, "neighbour_counts": [1], "plane_frequency": 2, "plane_petals": 0},
    "peak-ablation": {"samples": 16, "eval_every": 1},
    "exact-spectrum": {"networks": 1, "cycles": 20, "gradients": 2, "box_networks": 0},
    "target-noise": {"samples": 8, "test_samples": 8, "trainings": 1, "eval_every": 1, "noise_amplitudes": [1.0]},
    "kernel-spectrum": {"samples": 12, "bins": 4},
    "noise-on-manifold": {"samples": 8, "features": 2, "trainings": 1, "eval_every": 1, "encoder_steps": 1, "encoder_width": 4},
    "class-paths": {"images": 2, "adversarials": 1, "pairs": 2, "pivots": 1, "refinements": 1, "bends": 1, "attack_steps": 1},
}  # fmt: skip
FOLDERS = {"cifar10": "cifar-10-batches-bin"}
WITHOUT_STEPS = ("exact-spectrum", "class-paths")

pytestmark = pytest.mark.skipif(not FILES, reason="the examples are not beside this plugin")


def read(path):
    return tomllib.loads(path.read_text())


def test_every_preset_has_an_example():
    used = {entry["preset"] for path in FILES for entry in read(path)["probes"]}
    offered = {
        preset
        for registration in testing.registrations("penchant-spectral-bias")
        for preset in registration.component.presets
    }
    assert {TWINS.get(preset, preset) for preset in offered - {"quick", "rising"}} == used


def has_data(raw):
    root = Path(os.environ.get("PENCHANT_DATA", "nowhere"))
    names = [entry["name"] for entry in raw.get("datasets", [])]
    return all((root / FOLDERS.get(name, name)).is_dir() for name in names)


def reduced(raw):
    """The same experiment with small networks, few samples and two steps of training."""
    for dataset in raw.get("datasets", []):
        dataset["per_class"] = 8
    for entry in raw["probes"]:
        entry.update(SMALL[entry["name"]])
        if entry["name"] not in WITHOUT_STEPS:
            entry["training"] = {"steps": 2}
    for architecture in raw["architectures"]:
        if "widths" in architecture:
            architecture["widths"] = [6, 6]
    return {**raw, "executor": "serial", "figures": False}


def cell(path):
    # a residual network on the whole test set of its images
    marks = [pytest.mark.slow] if path.stem == "fig_a_12" else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [cell(path) for path in FILES])
def test_example_runs_small(path, tmp_path):
    raw = read(path)
    if not has_data(raw):
        pytest.skip("PENCHANT_DATA names no folder with its dataset")
    if path.stem == "fig_a_12":
        raw["probes"][0]["training"] = {"epochs": 1}
    run = run_unreported(reduced(raw), tmp_path)
    expected = len(raw["probes"]) * len(raw["architectures"])
    found = [(result.status, result.error) for result in run.results()]
    assert found == [("done", None)] * expected
