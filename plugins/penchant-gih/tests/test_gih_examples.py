"""The experiments in `examples/gih`: one for every preset, and all of them run small."""

import os
import tomllib
from pathlib import Path

import penchant_testing as testing
import pytest
from penchant_testing.builders import run_unreported

FOLDER = Path(__file__).parents[3] / "examples" / "gih"
FILES = sorted(FOLDER.glob("*.toml"))
TRAINED = {"networks": 16, "trainings": 1}
DRAWN = {**TRAINED, "train": 40, "test": 20}
SMALL = {
    "average-geometry": {"networks": 12},
    "geometry-evolution": {"networks": 12, "samples": 4, "widths": [1, 4]},
    "geometry-training": {**DRAWN, "trainings": 3, "networks": 12, "inputs": 1},
    "input-curvature": {"trainings": 3, "samples": 2},
    "direction-generalization": {**DRAWN, "indices": [0, 1, -1]},
    "feature-preference": {**DRAWN, "indices": [2, -1]},
    "feature-elimination": {**TRAINED, "removed": [0, 8]},
    "sample-pruning": {**TRAINED, "fractions": [0.5]},
    "decision-plane": {**DRAWN, "grid_points": 5},
}
SMALL_IMAGES = {"per_class": 10, "test_per_class": 10, "resize": 4, "grayscale": True}

pytestmark = pytest.mark.skipif(not FILES, reason="the examples are not beside this plugin")


def read(path):
    return tomllib.loads(path.read_text())


def test_every_preset_has_an_example():
    used = set()
    for path in FILES:
        used |= {(entry["name"], entry["preset"]) for entry in read(path)["probes"]}
    offered = set()
    for registration in testing.registrations("penchant-gih"):
        presets = getattr(registration.component, "presets", {})
        offered |= {(registration.component.name, preset) for preset in presets}
    assert {(name, preset) for name, preset in offered if preset != "quick"} == used


def small_network(entry):
    """A tiny perceptron, or the convolution itself, under the architecture's label."""
    label = entry.get("label", entry["name"])
    if entry["name"] == "linear-conv":
        return {**entry, "kernel": 2, "label": label}
    normalised = {"normalization": "batch"} if entry["name"] == "resnet18" else {}
    return {"name": "mlp", "widths": [4], "label": label, **normalised}


def reduced(raw):
    """The same experiment with tiny networks, few samples, one step, its first and last probe."""
    raw["probes"] = raw["probes"][:1] + raw["probes"][1:][-1:]
    raw["architectures"] = [small_network(entry) for entry in raw["architectures"]]
    if "shape" in raw:
        raw["shape"] = [1, 4, 4]
    for entry in raw.get("datasets", []):
        entry.update(SMALL_IMAGES)
    for entry in raw["probes"]:
        entry.update(SMALL[entry["name"]])
        entry.pop("eval_every", None)
        if "architectures" in entry:
            entry["architectures"] = entry["architectures"][:1]
        if entry["name"] == "geometry-training":
            entry["eval_steps"] = [0, 1]
            entry["eval_every"] = None
        if entry["name"] not in ("average-geometry", "geometry-evolution"):
            training = {**entry.get("training", {}), "steps": 1, "batch": 16}
            training.pop("epochs", None)
            entry["training"] = training
    # An architecture that no probe takes is refused.
    if all("architectures" in entry for entry in raw["probes"]):
        taken = {label for entry in raw["probes"] for label in entry["architectures"]}
        raw["architectures"] = [each for each in raw["architectures"] if each["label"] in taken]
    return raw


def has_data(raw):
    root = Path(os.environ.get("PENCHANT_DATA", "nowhere"))
    return "datasets" not in raw or (root / "cifar-10-batches-bin").is_dir()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_runs_small(path, tmp_path):
    raw = reduced(read(path))
    if not has_data(raw):
        pytest.skip("CIFAR-10 is not in PENCHANT_DATA")
    raw["executor"] = "serial"
    raw["figures"] = False
    run = run_unreported(raw, tmp_path / "run")
    assert run.done, [result.error for result in run.results() if result.error]
