"""Every component of the plugin under the conformance kit, small."""

import sys

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_gih.declarations.datasets import LinearAndRing, TwoCircles
from penchant_gih.declarations.estimators import AverageGeometry
from penchant_gih.declarations.geometry import GeometryEvolution, GeometryTraining
from penchant_gih.declarations.preference import (
    DecisionPlane,
    DirectionGeneralization,
    FeaturePreference,
    SamplePruning,
)
from torch import nn

CIRCLES = {"name": "two-circles", "input_shape": [4], "train": 20, "test": 10}
FEW = {"steps": 2, "batch": 10, "learning_rate": 0.1}
ONE = {**FEW, "steps": 1}
MORE = {**FEW, "steps": 3}
SMALL = {"shape": [4], "training": FEW, "networks": 12, "train": 20, "test": 10}
ALONG = {"trainings": 6, "networks": 12, "inputs": 1, "training": FEW}
WIDE = {"name": "mlp", "widths": [4]}

# One network of the user's own, at samples of three classes.
TRAINED = {"name": "import", "factory": nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))}
SAMPLES = {"name": "import", "factory": testing.SAMPLES}

PROBES = {
    "average-geometry": [
        {"shape": [4], "networks": 24, "outputs": 1},
        {"architecture": TRAINED, "dataset": SAMPLES, "samples": 40},
    ],
    "geometry-evolution": [
        {"dataset": CIRCLES, "networks": 12, "eval_steps": [0, 1], "training": ONE},
        {"dataset": CIRCLES, "networks": 24, "architecture": WIDE, "widths": [2]},
    ],
    "geometry-training": [
        {**ALONG, "shape": [4], "train": 20, "test": 10, "data": "flipped", "training": ONE},
        {**ALONG, "dataset": CIRCLES, "data": "dataset", "eval_steps": [0, 2], "trainings": 3},
    ],
    "input-curvature": {
        "dataset": CIRCLES,
        "trainings": 3,
        "samples": 10,
        "training": ONE,
        "eval_steps": [0, 1],
    },
    "direction-generalization": [
        {**SMALL, "indices": [0, 1, -1], "trainings": 2},
        {
            "dataset": CIRCLES,
            "data": "dataset",
            "networks": 12,
            "indices": [0, 1, -1],
            "trainings": 2,
            "training": FEW,
        },
    ],
    "feature-preference": {**SMALL, "indices": [2, 3]},
    "feature-elimination": {"networks": 12, "removed": [0, 2], "trainings": 2, "training": FEW},
    "sample-pruning": {"networks": 12, "fractions": [0.6], "trainings": 2, "training": FEW},
    "decision-plane": {**SMALL, "grid_points": 3, "trainings": 2},
}
DATASETS = {
    "two-circles": {"input_shape": (1, 3, 3), "train": 40, "test": 20},
    "linear-and-ring": {"input_shape": (1, 3, 3), "train": 40, "test": 20},
}


@pytest.fixture(autouse=True)
def _networks(request, monkeypatch):
    monkeypatch.syspath_prepend(str(request.path.parent))


@pytest.fixture(autouse=True)
def _kernel_and_kit(monkeypatch):
    """Not this plugin's: the kernel makes shared arrays without naming their device."""
    as_tensor = torch.as_tensor

    def on_the_host(value, **named):
        if sys._getframe(1).f_globals["__name__"] == "penchant.execution.job.mapping":
            named.setdefault("device", "cpu")
        return as_tensor(value, **named)

    monkeypatch.setattr(torch, "as_tensor", on_the_host)


# Errors are compared with spreads where they are not of a handful of networks.
LARGER = {**SMALL, "training": MORE, "networks": 24}
FURTHER = {**ALONG, "training": MORE, "networks": 60}
CLAIMS = {
    "average-geometry": {"shape": [4], "networks": 40, "outputs": 1},
    "geometry-evolution": [
        {"dataset": CIRCLES, "networks": 24, "eval_steps": [0, 1], "training": MORE},
        {"dataset": CIRCLES, "networks": 36, "architecture": WIDE, "widths": [2, 4]},
    ],
    "geometry-training": [
        {**FURTHER, "shape": [4], "train": 40, "test": 20, "data": "flipped"},
        {**FURTHER, "dataset": CIRCLES, "data": "dataset", "eval_steps": [0, 3]},
    ],
    # The norm that three trainings have in common is uncertain; that of a dozen is not.
    "input-curvature": {
        "dataset": CIRCLES,
        "trainings": 12,
        "samples": 8,
        "training": MORE,
        "eval_steps": [0, 3],
    },
    "direction-generalization": {**LARGER, "indices": [0, 1, -1], "trainings": 2},
    "feature-preference": {**LARGER, "indices": [2, 3]},
    "feature-elimination": {"networks": 24, "removed": [0, 2], "trainings": 2, "training": MORE},
    "sample-pruning": {"networks": 24, "fractions": [0.6], "trainings": 2, "training": MORE},
    "decision-plane": {**LARGER, "grid_points": 7, "trainings": 2},
}

WITHOUT_NULL = {
    "average-geometry": {
        "trace": "a trace has no value by chance",
        "rank": "as many as networks or inputs, but for rounding",
    },
    "geometry-evolution": {"leading": "the dimension that containment is taken at"},
}

# Networks without the effect: untrained, without preferred directions, or on random labels.
TINY = {"name": "import", "factory": testing.TINY}
ISOTROPIC = {"name": "import", "factory": "gih_test_networks:isotropic"}
ONE_AXIS = {"name": "import", "factory": "gih_test_networks:OneAxis"}
RANDOM_LABELS = {"name": "import", "factory": "gih_test_networks:random_labels"}
UNTRAINED = {"steps": 0}
LEARNT = {"steps": 20, "batch": 16, "learning_rate": 0.1}
PREFERENCE = {
    "architecture": TINY,
    "shape": [6],
    "networks": 24,
    "train": 60,
    "test": 200,
    "trainings": 3,
    "training": UNTRAINED,
}
ON_RANDOM_LABELS = {
    "architecture": TINY,
    "dataset": RANDOM_LABELS,
    "networks": 24,
    "trainings": 3,
    "training": LEARNT,
}
NO_EFFECT = {
    "average-geometry": {
        "architecture": ISOTROPIC,
        "shape": [1, 4, 4],
        "outputs": 1,
        "networks": 60,
    },
    # A network that sees one input, and data that lie at random to it.
    "geometry-evolution": {
        "architecture": {"name": "import", "factory": "gih_test_networks:FirstInput"},
        "dataset": {"name": "import", "factory": "gih_test_networks:turned_at_random"},
        "networks": 60,
    },
    "geometry-training": {
        "architecture": ISOTROPIC,
        "shape": [6],
        "trainings": 6,
        "networks": 60,
        "inputs": 1,
        "train": 60,
        "test": 60,
        "data": "geometry",
        "training": UNTRAINED,
    },
    "input-curvature": {
        "architecture": ISOTROPIC,
        "dataset": CIRCLES,
        "trainings": 8,
        "samples": 10,
        "training": UNTRAINED,
        "eval_steps": [0],
    },
    "direction-generalization": {**PREFERENCE, "indices": [0, 1, 2, -3, -2, -1]},
    "feature-preference": {**PREFERENCE, "indices": [2, 3, -1]},
    "feature-elimination": {**ON_RANDOM_LABELS, "removed": [0, 2, 4]},
    "sample-pruning": {**ON_RANDOM_LABELS, "fractions": [0.3, 0.7]},
    "decision-plane": {
        "architecture": ONE_AXIS,
        "shape": [4],
        "outputs": 2,
        "radii": [3.0, 1.5],
        "geometry": [[4.0, 0, 0, 0], [0, 3.0, 0, 0], [0, 0, 2.0, 0], [0, 0, 0, 1.0]],
        "train": 40,
        "test": 400,
        "trainings": 3,
        "grid_points": 3,
        "training": UNTRAINED,
    },
}
IS_GSG = "theorem 3.2: Delta is that of G S G in every linear network; here both are e e^T"
EFFECTS = {"geometry-evolution": {"corr-gsg": IS_GSG}}

test_conforms = testing.conformance(
    "penchant-gih",
    small={**PROBES, **DATASETS},
    claims=CLAIMS,
    unclaimed={
        "average-geometry": {
            "rank-over-scrambled": "of a network of the user's own: see test_gih_own_networks"
        }
    },
    own={
        "geometry-training": {**ALONG, "dataset": CIRCLES, "data": "dataset", "inputs": 6},
        "input-curvature": {"dataset": CIRCLES, "samples": 6},
    },
    without_null=WITHOUT_NULL,
    no_effect=NO_EFFECT,
    effects=EFFECTS,
)


@pytest.mark.parametrize(
    ("component", "values", "message"),
    [
        (AverageGeometry, {"probing": "gauss"}, "probing must be one of gaussian, zero, data"),
        (AverageGeometry, {"probing": "zero", "inputs": 2}, "one probing input"),
        (AverageGeometry, {"batch_norm": "batch"}, "at least two probing inputs"),
        (AverageGeometry, {"probing": "data", "opposite": True}, "opposite inputs are normal"),
        (GeometryEvolution, {"networks": 1}, "networks must be at least 12"),
        (GeometryEvolution, {"widths": (2,), "eval_steps": (0,)}, "takes widths or eval_steps"),
        (GeometryEvolution, {"eval_steps": (3, 1)}, "eval_steps must ascend"),
        (GeometryTraining, {"eval_steps": (3,), "eval_every": 2}, "takes eval_steps or eval_every"),
        (DirectionGeneralization, {"labels": "cubic"}, "labels must be one of linear"),
        (DirectionGeneralization, {"basis": "gsg"}, "needs the second moment of a dataset"),
        (SamplePruning, {"fractions": (1.0,)}, "fractions must be below 1"),
        (FeaturePreference, {"ring": (0,)}, "a list of 2"),
        (DecisionPlane, {"grid_points": 1}, "grid_points must be at least 2"),
        (TwoCircles, {"radii": (1.0, 1.0)}, "radii must differ"),
        (LinearAndRing, {"input_shape": (2,)}, "at least three input values"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(component, values, message):
    with pytest.raises(penchant.Error, match=message):
        component.bind(values)


@pytest.mark.parametrize("probe", ["average-geometry", "geometry-evolution", "sample-pruning"])
def test_a_network_of_zero_weights_is_refused(probe):
    silent = {"name": "import", "factory": "gih_test_networks:silent"}
    arguments = (
        {"shape": [4], "outputs": 1} if probe == "average-geometry" else {"dataset": CIRCLES}
    )
    with pytest.raises(penchant.Error, match="exactly zero in every network"):
        penchant.measure(probe, architecture=silent, networks=12, executor="serial", **arguments)
