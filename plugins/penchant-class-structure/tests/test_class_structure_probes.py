"""The probes as a user runs them: conformance, names, shapes, identities, refusals."""

import numpy as np
import penchant
import pytest
from penchant import testing
from penchant_class_structure import CrossClass, HessianSpectrum, LayerStructure, LogisticTheory

TINY = {
    "architecture": {"name": "import", "factory": testing.TINY},
    "dataset": {"name": "import", "factory": "penchant.testing:tiny_samples"},
}
TRAINING = {"epochs": 4, "batch": 30, "learning_rate": 0.1, "weight_decay": 1e-3}
C = 3


def unbalanced(generator):
    """Training samples of three classes in unequal numbers."""
    (inputs, labels), test = testing.tiny_samples(generator)
    kept = np.concatenate(
        [np.nonzero(labels.numpy() == label)[0][:count] for label, count in enumerate((30, 12, 5))]
    )
    return (inputs[kept], labels[kept]), test


@pytest.fixture
def undrawn(monkeypatch):
    """Numbers only: drawing takes longer than measuring."""
    for module in ("cross_class", "hessian_spectrum", "layer_structure"):
        monkeypatch.delattr(f"penchant_class_structure.{module}.plot")


def measure(probe, **options):
    return penchant.measure(probe, executor="serial", training=TRAINING, **{**TINY, **options})


@pytest.mark.parametrize("offer", testing.offers("penchant-class-structure"), ids=testing.label)
def test_component_conforms(offer):
    testing.check_component(offer)


@pytest.mark.parametrize(
    ("probe", "figures"),
    [
        (HessianSpectrum, {"quick", "fig-3", "fig-4", "fig-14", "fig-16", "fig-17"}),
        (CrossClass, {"quick", "fig-5", "fig-6"}),
        (LayerStructure, {"quick", "fig-7", "fig-8", "fig-9", "fig-10", "fig-13"}),
        (LogisticTheory, {"quick", "theorem-8-1"}),
    ],
)
def test_every_figure_has_a_preset(probe, figures):
    assert set(probe.presets) == figures


def check_cross_class(result):
    arrays, traces = (
        result.arrays,
        {
            name: result.quantities[f"trace-{name}"].value
            for name in ("total", "class", "cross", "within", "diagonal")
        },
    )
    assert [
        len(arrays[f"eigenvalues-{name}"]) for name in ("class", "cross", "diagonal", "means")
    ] == [C, C * (C - 2), C, C * (C - 1)]
    assert len(arrays["within-average"]) == C
    total = traces.pop("total")
    assert sum(traces.values()) == pytest.approx(total, rel=1e-6)
    means = sum(traces[name] for name in ("class", "cross", "diagonal"))
    assert arrays["eigenvalues-means"].sum() == pytest.approx(means, rel=1e-6)
    spacing = np.diff(arrays["density-grid"])[0]
    for part in ("total", "without-mean", "without-class", "without-cross", "without-within"):
        assert arrays[f"density-{part}"].sum() * spacing == pytest.approx(1, abs=1e-6)
    return total


def test_cross_class_conforms(tmp_path):
    result = testing.check_probe(
        "cross-class",
        tmp_path,
        training=TRAINING,
        fractions=[0.5],
        sizes=[4, 8],
        steps=20,
        permutations=2,
    )
    total = check_cross_class(result)
    assert result.arrays["spectrum"].sum() == pytest.approx(total, rel=1e-6)
    assert (np.diff(result.arrays["spectrum"]) <= 0).all()
    assert result.arrays["panel-size"].tolist() == [0, 0, 4, 4, 8, 8]
    assert result.arrays["panel-samples"].tolist() == [90] * 2 + [12] * 2 + [24] * 2
    assert result.quantities["class-share"].null is not None
    assert list((tmp_path / "serial").glob("jobs/*/figures/panels.png"))


@pytest.mark.parametrize("knockout", ["subtraction", "projection"])
def test_without_a_matrix_the_numbers_are_the_same(knockout, undrawn):
    exact, free = (
        measure("cross-class", exact_limit=limit, knockout=knockout, steps=64, starts=2)
        for limit in (8192, 0)
    )
    check_cross_class(free)
    assert "spectrum" not in free.arrays
    for name in (
        "trace-total",
        "trace-class",
        "trace-cross",
        "trace-within",
        "class-share",
        "largest-without-class",
    ):
        assert free.quantities[name].value == pytest.approx(
            exact.quantities[name].value, rel=2e-3
        ), name
    top = free.arrays["top-eigenvalues"]
    np.testing.assert_allclose(
        top, exact.arrays["spectrum"][: len(top)], rtol=1e-3, atol=1e-4 * top[0]
    )
    means = exact.arrays["eigenvalues-means"]
    np.testing.assert_allclose(
        free.arrays["eigenvalues-means"], means, rtol=1e-3, atol=1e-5 * means[0]
    )


def test_unbalanced_classes_and_test_samples_are_measured(undrawn):
    dataset = {"name": "import", "factory": unbalanced}
    result = measure("cross-class", dataset=dataset, permutations=0)
    check_cross_class(result)
    assert result.quantities["class-share"].null is None
    check_cross_class(measure("cross-class", dataset=dataset, samples="test"))
    assert measure("layer-structure", dataset=dataset).arrays["features"].shape[0] == 2
    assert np.isfinite(measure("hessian-spectrum", dataset=dataset).arrays["density-hessian"]).all()


def test_hessian_spectrum_conforms(tmp_path):
    result = testing.check_probe(
        "hessian-spectrum",
        tmp_path,
        processes=False,
        training=TRAINING,
        exact_limit=0,
        steps=16,
        starts=3,
    )
    for prefix in ("", "test-"):
        spacing = np.diff(result.arrays[f"{prefix}density-grid"])[0]
        for name in ("hessian", "gauss-newton", "residual"):
            assert result.arrays[f"{prefix}density-{name}"].sum() * spacing == pytest.approx(
                1, abs=1e-6
            )
        assert len(result.arrays[f"{prefix}top-eigenvalues"]) == C
        assert (
            result.arrays[f"{prefix}top-residuals"]
            <= 1e-3 * result.arrays[f"{prefix}top-eigenvalues"][0]
        ).all()
    assert {"trace-hessian", "trace-gauss-newton", "test-trace-hessian"} <= set(result.quantities)


def test_layer_structure_conforms(tmp_path):
    result = testing.check_probe(
        "layer-structure", tmp_path, processes=False, training=TRAINING, count=8, weights_count=5
    )
    assert result.arrays["features"].shape == (2, 8)
    assert result.arrays["errors-class"].shape == (2, C)
    assert result.arrays["weights-without-class"].shape == (2, 5)
    assert result.conventions["layers"] == "1, 3"


LOGISTIC = {"train": 400, "test": 200, "separations": [1.0, 3.0], "training": {"epochs": 2}}


@pytest.mark.slow
def test_logistic_theory_is_the_same_in_two_processes(tmp_path):
    testing.check_probe("logistic-theory", tmp_path, **LOGISTIC)


def test_logistic_theory_conforms(tmp_path):
    result = testing.check_probe("logistic-theory", tmp_path, processes=False, **LOGISTIC)
    assert result.arrays["multiplicity"].tolist() == [4, 8, 24, 12]
    assert result.arrays["separations"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("probe", "options", "message"),
    [
        (
            "cross-class",
            {"knockout": "deletion"},
            "knockout must be one of subtraction, projection, found 'deletion'",
        ),
        (
            "logistic-theory",
            {"classes": 5, "dimension": 5},
            "dimension must be more than the number of classes, 5, found 5",
        ),
        (
            "logistic-theory",
            {"alpha": 0.9},
            "alpha must be at most 1 - 1 / classes = 0.75, found 0.9",
        ),
        ("hessian-spectrum", {"steps": 1}, "steps must be at least 2, found 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(probe, options, message):
    parts = {} if probe == "logistic-theory" else TINY
    with pytest.raises(penchant.Error, match=message):
        penchant.measure(probe, executor="serial", **parts, **options)


def regression(generator):
    (inputs, labels), (others, further) = testing.tiny_samples(generator)
    return (inputs, labels.float()), (others, further.float())


@pytest.mark.parametrize("probe", ["cross-class", "hessian-spectrum", "layer-structure"])
def test_data_without_classes_are_refused(probe):
    training = {"epochs": 1, "loss": "squared-error"}
    with pytest.raises(
        penchant.Error,
        match="class structure needs a dataset with classes, found numbers as labels",
    ):
        penchant.measure(
            probe,
            executor="serial",
            training=training,
            **{**TINY, "dataset": {"name": "import", "factory": regression}},
        )
