"""G is an estimator of the role `directions`: others serve these probes, it serves other probes."""

import importlib
import importlib.util

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch

MLP = {"name": "mlp", "widths": [6], "activation": "gelu"}
FAST = {"executor": "serial", "figures": False}
AT_ZERO = {"directions": {"name": "average-geometry", "probing": "zero"}}
CIRCLES = {"name": "two-circles", "input_shape": [4], "train": 20, "test": 10}
FEW = {"steps": 2, "batch": 10}
OTHERS = {
    "gradient-covariance": {"name": "gradient-covariance", "method": "autograd"},
    "mixed-derivative": {"name": "mixed-derivative"},
}


def needs(plugin):
    missing = importlib.util.find_spec(plugin) is None
    return pytest.mark.skipif(missing, reason=f"{plugin} is not installed")


@needs("penchant_nad")
def test_nad_of_the_average_geometry_is_that_of_its_own_estimator():
    """Two codes for one matrix: gradients at zero depend on nothing but the networks."""
    options = {"architecture": MLP, "shape": (4,), "networks": 60, **FAST}
    ours = penchant.measure("average-geometry", estimators=AT_ZERO, **options)
    through = penchant.measure("nad", estimators=AT_ZERO, **options)
    local = {"name": "gradient-covariance", "method": "autograd", "point": "zero"}
    theirs = penchant.measure("nad", estimators={"directions": local}, **options)
    assert np.array_equal(ours.arrays["eigenvalues"], through.arrays["eigenvalues"])
    assert np.allclose(ours.arrays["eigenvalues"], theirs.arrays["eigenvalues"], rtol=1e-5)
    assert through.conventions["probing"] == "at zero"


@needs("penchant_nad")
@needs("penchant_mixed")
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("probe", ["average-geometry", "geometry-evolution", "decision-plane"])
def test_probes_take_other_estimators_of_directions(probe, other):
    options = {"estimators": {"directions": OTHERS[other]}, "networks": 12, **FAST}
    if probe == "geometry-evolution":
        options |= {"dataset": CIRCLES}
    else:
        options |= {"shape": (4,)}
    if probe == "decision-plane":
        options |= {"train": 20, "test": 10, "grid_points": 3, "training": FEW}
    result = penchant.measure(probe, architecture=MLP, **options)
    assert "output" in result.conventions and "probing" not in result.conventions
    for name, quantity in result.quantities.items():
        assert quantity.exact or quantity.stderr is not None or name in result.missing


@needs("penchant_mixed")
def test_leading_directions_alone_are_refused_where_the_matrix_is_needed():
    leading = {"directions": {"name": "mixed-derivative", "leading": 2}}
    with pytest.raises(penchant.Error, match="whole matrix is needed, found 2 leading"):
        penchant.measure(
            "sample-pruning",
            architecture=MLP,
            dataset=CIRCLES,
            estimators=leading,
            networks=24,
            training=FEW,
            **FAST,
        )


def test_stored_geometry_gives_the_same_plane_as_the_measured_one(tmp_path):
    common = {"architecture": MLP, "shape": (4,), **FAST}
    trained = {"train": 40, "test": 20, "grid_points": 3, "training": FEW}
    first = penchant.measure("average-geometry", outputs=2, networks=60, **common)
    stored = first.arrays["geometry"]
    result = penchant.measure("decision-plane", geometry=stored, **trained, **common)
    last = first.arrays["eigenvalues"][[1, -1]]
    assert np.allclose(result.arrays["eigenvalues"], last, rtol=1e-9)
    assert result.conventions["geometry"] == "stored"


def test_opposite_inputs_have_less_variance_for_the_same_networks():
    spread = {}
    for opposite in (False, True):
        estimators = {"directions": {"name": "average-geometry", "opposite": opposite}}
        relu = {**MLP, "activation": "relu"}
        result = penchant.measure(
            "average-geometry",
            architecture=relu,
            shape=(4,),
            networks=240,
            estimators=estimators,
            **FAST,
        )
        spread[opposite] = result.quantities["trace"].stderr
    assert spread[True] < 0.9 * spread[False]


def probed(probe, probing, **options):
    """The points at which a shard of the probe takes its gradients."""
    estimator = {"name": "average-geometry", "probing": probing, "scale": 0.5}
    context = testing.context(
        probe,
        architecture={"name": "mlp", "widths": [4]},
        dataset=CIRCLES,
        estimators={"directions": estimator},
        **options,
    )
    module = importlib.import_module(f"penchant_gih.{probe.replace('-', '_')}.probe")
    return module._points(context, range(3)), context.data.train.inputs


@pytest.mark.parametrize("probe", ["geometry-evolution", "geometry-training"])
@pytest.mark.parametrize("probing", ["gaussian", "zero", "data"])
def test_geometries_are_probed_where_the_estimator_of_g_is(probe, probing):
    points, inputs = probed(probe, probing)
    found = points.flatten(0, 1)
    if probing == "zero":
        assert points.shape == (3, 1, 4) and not points.any()
    elif probing == "data":
        assert all(bool((point == inputs).all(1).any()) for point in found)
    else:
        assert 0.1 < float(found.std()) < 1.5 and torch.cdist(found, inputs).min() > 0


@pytest.mark.parametrize("probe", ["geometry-evolution", "geometry-training"])
def test_a_scale_of_inputs_that_are_not_normal_is_refused(probe):
    with pytest.raises(penchant.Error, match=r"found 0\.1 and probing zero"):
        probed(probe, "zero", probing_scale=0.1)


@pytest.mark.parametrize(
    ("probe", "name", "options"),
    [
        ("geometry-evolution", "evolution", {"networks": 12}),
        ("geometry-training", "velocity", {"data": "dataset", "trainings": 3, "networks": 12}),
    ],
)
def test_where_it_is_probed_changes_what_is_measured(probe, name, options):
    found = []
    for probing in ("gaussian", "zero"):
        estimators = {"directions": {"name": "average-geometry", "probing": probing}}
        training = {} if probe == "geometry-evolution" else {"training": FEW}
        result = penchant.measure(
            probe,
            architecture=MLP,
            dataset=CIRCLES,
            estimators=estimators,
            **training,
            **options,
            **FAST,
        )
        found.append(result.arrays[name])
    assert not np.allclose(*found, equal_nan=True)
