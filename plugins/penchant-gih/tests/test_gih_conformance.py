"""Every component of the plugin under the conformance kit, small."""

import importlib.util
import subprocess
import sys

import penchant
import pytest
from penchant import testing
from penchant_gih import (
    AverageGeometry,
    DecisionPlane,
    DirectionGeneralization,
    FeaturePreference,
    GeometryEvolution,
    LinearAndRing,
    SamplePruning,
    TwoCircles,
)

CIRCLES = {"name": "two-circles", "size": [4], "train": 40, "test": 20}
FEW = {"epochs": 2, "batch": 16, "learning_rate": 0.1}
SMALL = {"shape": [4], "training": FEW, "samples": 40, "train": 40, "test": 20}

PROBES = {
    "average-geometry": {"shape": [4], "samples": 40, "outputs": 1},
    "geometry-evolution": {"dataset": CIRCLES, "samples": 40, "widths": []},
    "input-curvature": {"dataset": CIRCLES, "networks": 4, "points": 5, "training": FEW},
    "direction-generalization": {**SMALL, "indices": [0, 1, -1], "repeats": 2},
    "feature-preference": {**SMALL, "indices": [2, 3]},
    "feature-elimination": {"samples": 40, "removed": [0, 2], "repeats": 2, "training": FEW},
    "sample-pruning": {"samples": 40, "fractions": [0.3, 0.6], "repeats": 2, "training": FEW},
    "decision-plane": {**SMALL, "grid": 7, "repeats": 2},
}


@pytest.mark.parametrize("offer", testing.offers("penchant-gih"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


@pytest.mark.parametrize("name", PROBES)
def test_probe_conforms(name, tmp_path):
    result = testing.check_probe(
        name, tmp_path, processes=name == "feature-elimination", **PROBES[name]
    )
    for array in result.arrays:
        if f"{array}-stderr" in result.arrays:
            assert result.arrays[array].shape == result.arrays[f"{array}-stderr"].shape


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PROBES) - {"feature-elimination"}))
def test_probe_is_the_same_under_every_executor(name, tmp_path):
    testing.check_probe(name, tmp_path, **PROBES[name])


@pytest.mark.skipif(
    importlib.util.find_spec("penchant_synthetic") is None,
    reason="geometry-training needs penchant-synthetic",
)
@pytest.mark.parametrize("data", ["geometry", "flipped"])
def test_geometry_training_conforms(data, tmp_path):
    options = {
        "shape": [4],
        "networks": 6,
        "samples": 60,
        "inputs": 2,
        "train": 40,
        "test": 20,
        "training": FEW,
    }
    testing.check_probe(
        "geometry-training", tmp_path, data=data, processes=data == "flipped", **options
    )


@pytest.mark.skipif(
    importlib.util.find_spec("penchant_synthetic") is None,
    reason="geometry-training needs penchant-synthetic",
)
def test_geometry_training_on_a_dataset_conforms(tmp_path):
    options = {"networks": 4, "samples": 60, "inputs": 2, "training": FEW, "steps": [0, 1, 6]}
    result = testing.check_probe(
        "geometry-training", tmp_path, data="dataset", dataset=CIRCLES, processes=False, **options
    )
    assert result.arrays["velocity"].shape == (2,) and result.arrays["steps"].tolist() == [0, 1, 6]


@pytest.mark.parametrize("name", ["two-circles", "linear-and-ring"])
def test_dataset_conforms(name):
    testing.check_dataset(name, size=(1, 3, 3), train=40, test=20)


def test_declarations_import_no_numerics():
    code = "import penchant_gih, sys; print([m for m in ('torch', 'numpy', 'scipy', 'matplotlib') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize(
    ("component", "values", "message"),
    [
        (AverageGeometry, {"probing": "gauss"}, "probing must be one of gaussian, zero, data"),
        (AverageGeometry, {"samples": 1}, "samples must be at least 4"),
        (GeometryEvolution, {"widths": (2,), "steps": (0,)}, "takes widths or steps"),
        (GeometryEvolution, {"steps": (3, 1)}, "steps must ascend"),
        (DirectionGeneralization, {"labels": "cubic"}, "labels must be one of linear"),
        (SamplePruning, {"fractions": (1.0,)}, "fractions must be below 1"),
        (FeaturePreference, {"ring": (0,)}, "a list of 2"),
        (DecisionPlane, {"grid": 1}, "grid must be at least 2"),
        (TwoCircles, {"radii": (1.0, 1.0)}, "radii must differ"),
        (LinearAndRing, {"size": (2,)}, "at least three input values"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(component, values, message):
    with pytest.raises(penchant.Error, match=message):
        component.bind(values)
