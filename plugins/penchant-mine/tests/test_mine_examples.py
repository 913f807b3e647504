"""The experiments in `examples/mutual_information`: one for every preset, all run small."""

import os
import tomllib
from pathlib import Path

import penchant_testing as testing
import pytest
from penchant_testing.builders import run_unreported

FOLDER = Path(__file__).parents[3] / "examples" / "mutual_information"
FILES = sorted(FOLDER.glob("*.toml"))
ONCE = {"steps": 2, "batch": 8, "trainings": 1, "samples": 30, "classifier_steps": 2}
PLANE = {"generator": [8], "discriminator": [8]}
IMAGES = {"channels": [4, 4, 4, 4], "hidden": 4, "noise_inputs": 2}
TINY = {"network": "statistics-perceptron:widths=[8]", "steps": 4, "trainings": 2}
SMALL = {
    "information-benchmark": {
        "samples": 60,
        "repeats": 1,
        "grid": [0.5],
        "estimators": {"mutual-information": [{"name": "mine", **TINY}, "ksg", "gaussian"]},
    },
    "gan-modes": {**ONCE, **PLANE, **IMAGES, "code": 2},
    "bidirectional-reconstruction": {
        **ONCE,
        **PLANE,
        **IMAGES,
        "latent": 2,
        "statistics_channels": [4, 4],
    },
    "information-bottleneck": {
        "widths": [8],
        "code": 2,
        "statistics_width": 8,
        "epochs": 1,
        "trainings": 1,
        "betas": [1.0],
        "code_draws": 1,
        "rows": ["baseline", "mine-gaussian"],
        "estimators": {"mutual-information": {"name": "mine", "scaling": "whole", **TINY}},
    },
    "mutual-information": {
        "eval_steps": [0, 2],
        "training": {"steps": 2},
        "samples": 80,
        "estimators": {"mutual-information": [{"name": "mine", **TINY}]},
    },
}
DATASETS = {
    "spiral": {"train": 200},
    "twenty-five-gaussians": {"train": 500},
    "stacked-mnist": {"train": 100, "test": 40},
    "mnist": {"per_class": 10, "test_per_class": 6},
    "celeba": {"train": 20, "test": 10},
    "digits": {},
}
FILES_OF = {"stacked-mnist": "mnist", "mnist": "mnist", "celeba": "celeba"}

pytestmark = pytest.mark.skipif(not FILES, reason="the examples are not beside this plugin")


def read(path):
    return tomllib.loads(path.read_text())


def test_every_preset_has_an_example():
    used = set()
    for path in FILES:
        used |= {entry.get("preset") for entry in read(path)["probes"]}
    offered = set()
    for registration in testing.registrations("penchant-mine"):
        offered |= set(getattr(registration.component, "presets", {}))
    assert offered - {"quick"} == used - {None}


def lacking(raw):
    """Files or plugins that an example needs and that are not there."""
    root = Path(os.environ.get("PENCHANT_DATA", "nowhere"))
    for entry in raw.get("datasets", []):
        if entry["name"] in (*FILES_OF, "digits"):
            pytest.importorskip("penchant_vision")
        folder = FILES_OF.get(entry["name"])
        if folder and not (root / folder).is_dir():
            return f"PENCHANT_DATA names no folder with {folder}"
    if raw.get("architectures"):
        pytest.importorskip("penchant_architectures")
    return ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_runs_small(path, tmp_path):
    raw = read(path)
    if reason := lacking(raw):
        pytest.skip(reason)
    for entry in raw["probes"]:
        entry.update(SMALL[entry["name"]])
    for entry in raw.get("datasets", []):
        entry.update(DATASETS[entry["name"]])
    found = run_unreported({**raw, "executor": "serial", "figures": False}, tmp_path / "run")
    for job in found.jobs:
        result = found.result(job["id"])
        assert result.status == "done", result.error
