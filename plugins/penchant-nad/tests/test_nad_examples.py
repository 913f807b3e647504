"""The experiments in `examples/nad`: one for every preset, and all of them run small."""

import tomllib
from pathlib import Path

import penchant_testing as testing
import pytest
from penchant_testing.builders import run_unreported

FOLDER = Path(__file__).parents[3] / "examples" / "nad"
FILES = sorted(FOLDER.glob("*.toml"))
LARGE = {"vgg11", "resnet18", "densenet121"}
TINY = {"name": "mlp", "widths": [4]}
TRAINED = {"train": 16, "test": 16, "every": 100, "training": {"steps": 2}, "trainings": 1}
SMALL = {
    "directional-accuracy": {**TRAINED, "networks": 8},
    "nad": {"networks": 4},
    "nad-agreement": {"networks": 8, "groups": 4},
    "dipole": {"every": 6, "basis_networks": 16, "networks": 8},
    "poisoned-accuracy": {"networks": 12, "carriers": [0, 9], "training": {"steps": 2}},
    "flipped-accuracy": {"networks": 16, "training": {"steps": 2}},
    "pooling-theory": {"simulations": 100, "every": 20, "curves": 3, "steps": 3, "trainings": 2},
}

pytestmark = pytest.mark.skipif(not FILES, reason="the examples are not beside this plugin")
pytest.importorskip("penchant_architectures")


def read(path):
    return tomllib.loads(path.read_text())


def used_presets():
    found = set()
    for path in FILES:
        found |= {(entry["name"], entry["preset"]) for entry in read(path)["probes"]}
    return found


def test_every_preset_has_an_example():
    offered = set()
    for registration in testing.registrations("penchant-nad"):
        if registration.component.kind == "probe":
            offered |= {
                (registration.component.name, preset) for preset in registration.component.presets
            }
    assert {pair for pair in offered if pair[1] != "quick"} == used_presets()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_networks_of_the_paper_are_those_it_trained(path):
    """VGG11 had batch-norm and dropout; pixels were standardised."""
    raw = read(path)
    for entry in raw.get("architectures", []):
        if entry["name"] == "vgg11":
            assert entry["normalization"] == "convolutions" and entry["dropout"] == 0.5
    for entry in raw.get("datasets", []):
        assert entry["standardize"]


def reduced(raw):
    """The same experiment with small inputs, networks, samples and trainings."""
    small = {**raw, "executor": "serial", "figures": False}
    # Second moments of many inputs take long; no wave needs one.
    waves = preset_of(raw["probes"][0]).get("basis", "nad") != "nad"
    if "shape" in raw:
        small["shape"] = [1, 16, 16] if waves else [1, 6, 6]
    if "architectures" in raw:
        small["architectures"] = stand_ins(raw["architectures"], everyone=not waves)
    small["probes"] = []
    for entry in raw["probes"]:
        options = dict(SMALL[entry["name"]])
        if "indices" in preset_of(entry):
            options["indices"] = [0, 5, 7]
        if "train_sizes" in preset_of(entry):
            options["train_sizes"] = [8, 16]
        small["probes"].append({**entry, **options})
    return small


def stand_ins(architectures, everyone):
    """Networks that take minutes, or images larger than these, stand aside for the same one."""
    kept, stood_in = [], False
    for entry in architectures:
        if entry["name"] not in LARGE and not everyone:
            kept.append(entry)
        elif not stood_in:
            label = entry.get("label", entry["name"])
            kept.append({**TINY, "label": label})
            stood_in = True
    return kept


def preset_of(entry):
    for registration in testing.registrations("penchant-nad"):
        if registration.component.name == entry["name"]:
            return registration.component.presets[entry["preset"]]
    raise AssertionError(entry["name"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_runs_small(path, tmp_path, monkeypatch):
    raw = reduced(read(path))
    if "datasets" in raw:
        monkeypatch.syspath_prepend(str(Path(__file__).parent))
        raw["datasets"] = [
            {"name": "import", "factory": "nad_test_images:grey", "label": "cifar10"}
        ]
    run = run_unreported(raw, tmp_path)
    found = [(result.status, result.error) for result in run.results()]
    assert found and set(found) == {("done", None)}
