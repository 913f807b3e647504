"""The probes as a user runs them: conformance, names, shapes, identities, refusals."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_class_structure import CrossClass, HessianSpectrum, LayerStructure, LogisticTheory
from penchant_class_structure.cross_class.component_quantities import Components
from penchant_class_structure.shared.decomposition import Decomposition
from penchant_class_structure.shared.sample_space import sample_space
from penchant_numerics.statistics import significance
from torch import nn

TINY = {
    "architecture": {"name": "import", "factory": testing.TINY},
    "dataset": {"name": "import", "factory": "penchant_testing:tiny_samples"},
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


def measure(probe, **options):
    arguments = {"training": TRAINING, **TINY, **options}
    return penchant.measure(probe, executor="serial", **arguments)


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
    for component in (
        "total",
        "without-mean",
        "without-class",
        "without-cross",
        "without-diagonal",
        "without-within",
    ):
        assert arrays[f"density-{component}"].sum() * spacing == pytest.approx(1, abs=1e-6)
    return total


def test_panels_are_of_fractions_and_sizes():
    options = {"fractions": [0.5], "sizes": [4, 8], "lanczos_steps": 20, "permutations": 2}
    result = measure("cross-class", **options)
    total = check_cross_class(result)
    assert result.arrays["spectrum"].sum() == pytest.approx(total, rel=1e-6)
    assert (np.diff(result.arrays["spectrum"]) <= 0).all()
    assert result.arrays["panel-sizes"].tolist() == [30, 30, 4, 4, 8, 8]
    assert result.arrays["panel-samples"].tolist() == [90] * 2 + [12] * 2 + [24] * 2
    assert result.quantities["class-share"].null is not None


@pytest.mark.parametrize("knockout", ["subtraction", "projection"])
def test_without_a_matrix_the_numbers_are_the_same(knockout):
    exact, free = (
        measure(
            "cross-class",
            exact_limit=limit,
            knockout=knockout,
            lanczos_steps=8,
            starts=1,
            permutations=0,
        )
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


def test_unbalanced_classes_and_test_samples_are_measured():
    dataset = {"name": "import", "factory": unbalanced}
    result = measure("cross-class", dataset=dataset, permutations=0)
    check_cross_class(result)
    assert result.quantities["class-share"].null is None
    check_cross_class(measure("cross-class", dataset=dataset, split="test", permutations=0))
    assert measure("layer-structure", dataset=dataset).arrays["features"].shape[0] == 2
    spectra = measure("hessian-spectrum", dataset=dataset, matrices=["hessian"])
    assert np.isfinite(spectra.arrays["density-hessian"]).all()


def untrained(seed, **options):
    few = {"lanczos_steps": 4, "grid_points": 16, "training": {"steps": 0}, "seed": seed}
    return measure("cross-class", **few, **options)


def test_ratios_to_the_bulk_of_an_untrained_network_are_those_of_untrained_networks():
    """Clustered data have means by class before any training: permuted classes are no null."""
    significant = 0
    for seed in range(4):
        for name in ("outliers-to-bulk", "mini-bulk-to-bulk"):
            found = untrained(seed).quantities[name]
            error = max(found.null_spread, found.stderr)
            p = significance.p_value(found.value - found.null, error * (1 + 1 / 5) ** 0.5, 4)
            significant += p < 0.01
    assert significant <= 1


def test_the_null_of_ratios_is_measured_on_networks_as_drawn():
    result = untrained(0, permutations=2)
    context = testing.context("cross-class", **TINY, training={"steps": 0}, seed=0)
    samples = context.data.train
    expected = []
    for number in (1, 2):
        space = sample_space(context.network(number), samples.inputs, exact_limit=8192)
        found = Components.of(Decomposition.of(space, samples.labels))
        expected.append(found.ratio("class"))
    assert result.quantities["outliers-to-bulk"].null == pytest.approx(np.mean(expected))
    assert "2 other networks" in result.conventions["null of ratios to the bulk"]
    # without matrices or draws there is no such null
    given = measure("cross-class", architecture=testing.tiny_network((4,), C), training=None)
    assert "labels permuted" in given.conventions["null of ratios to the bulk"]


def test_the_runner_up_is_the_next_largest_gap():
    result = measure("cross-class", permutations=0)
    values = result.arrays["spectrum"]
    ratios = values[:-1] / values[1:]
    window = ratios[1 : 2 * C]  # after 2 to 2 C eigenvalues
    order = np.argsort(-window)
    assert result.quantities["outliers"].value == order[0] + 2
    assert result.quantities["outliers-runner-up"].value == order[1] + 2
    margin = window[order[0]] / window[order[1]]
    assert result.quantities["gap-margin"].value == pytest.approx(margin)


def test_pictures_have_the_panels_of_the_paper():
    """Figure 5 with G_{c=c'} taken out, 16 with both signs, 17 as one picture with one axis."""
    few = {"lanczos_steps": 12, "grid_points": 32, "training": {"steps": 2}}
    knockouts = measure("cross-class", **{**few, "permutations": 0}).figure("log-spectra")
    assert "without G_{c=c'}" in [panel.get_title() for panel in knockouts.axes]
    spectra = measure("hessian-spectrum", split="train", undeflated=True, **few)
    above, below = spectra.figure("deflation").axes
    assert above.get_xlim() == below.get_xlim() and above.get_ylim() == below.get_ylim()
    (tail,) = spectra.figure("tail").axes
    signs = {line.get_label() for line in tail.lines}
    assert {"positive", "negative"} <= signs


def test_hessian_spectrum_gives_densities_of_mass_one():
    result = measure("hessian-spectrum", exact_limit=0, lanczos_steps=8, starts=2)
    for prefix in ("", "test-"):
        spacing = np.diff(result.arrays[f"{prefix}density-grid"])[0]
        for name in ("hessian", "gauss-newton", "residual"):
            mass = result.arrays[f"{prefix}density-{name}"].sum() * spacing
            assert mass == pytest.approx(1, abs=1e-6)
        top = result.arrays[f"{prefix}top-eigenvalues"]
        assert len(top) == C
        assert (result.arrays[f"{prefix}top-residuals"] <= 1e-3 * top[0]).all()


def test_only_the_matrices_that_are_asked_for_are_computed():
    result = measure(
        "hessian-spectrum", matrices=["hessian"], split="train", exact_limit=0, lanczos_steps=8
    )
    assert {"density-hessian", "bulk-density-hessian", "top-eigenvalues"} <= set(result.arrays)
    assert not [
        name for name in result.arrays if "gauss-newton" in name or name.endswith("residual")
    ]
    assert "tail-exponent" not in result.quantities
    assert result.quantities["trace-hessian"].over == "random vectors"


def test_layers_have_names_and_rows():
    result = measure("layer-structure", eigenvalues=8, singular_values=5)
    assert result.arrays["features"].shape == (2, 8)
    assert result.arrays["errors-class"].shape == (2, C)
    assert result.arrays["weights-without-class"].shape == (2, 5)
    assert result.tables["separation-features-by-layer"].axes == {"layer": ("1", "3")}


class Grouped(nn.Module):
    """A grouped convolution, then a linear layer."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv1d(2, 4, 1, groups=2)
        self.last = nn.Linear(8, C)

    def forward(self, x):
        return self.last(self.grouped(x.reshape(-1, 2, 2)).flatten(1).tanh())


def grouped(shape, outputs):
    return Grouped()


def test_layers_that_are_left_out_are_named():
    result = measure(
        "layer-structure", architecture={"name": "import", "factory": grouped}, eigenvalues=8
    )
    assert result.tables["separation-features-by-layer"].axes == {"layer": ("last",)}
    (warning,) = [text for text in result.warnings if "skipped" in text]
    assert warning == "layers skipped, because their gradient is not errors times inputs: grouped"


class Transposed(nn.Module):
    """A linear layer whose first axis is a token, not the sample, as torch's transformers have it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 5)
        self.head = nn.Linear(5, C)

    def forward(self, x):
        tokens = x.reshape(-1, 2, 2).transpose(0, 1)
        return self.head(torch.tanh(self.inner(tokens)).mean(0))


def transposed(shape, outputs):
    return Transposed()


def test_a_layer_whose_first_axis_is_not_the_sample_is_measured_by_its_gradients():
    arguments = {"architecture": {"name": "import", "factory": transposed}, "per_class": 8}
    of_classes = {**arguments, "lanczos_steps": 4, "permutations": 0}
    exact = measure("cross-class", **of_classes)
    free = measure("cross-class", **of_classes, exact_limit=0)
    assert exact.quantities["trace-total"].value == pytest.approx(
        free.quantities["trace-total"].value, rel=1e-4
    )
    assert any("inner are taken sample by sample" in text for text in exact.warnings)
    hessian = measure("hessian-spectrum", **arguments, split="train")
    assert hessian.quantities["trace-gauss-newton"].value == pytest.approx(
        exact.quantities["trace-total"].value, rel=1e-4
    )
    layers = measure("layer-structure", **arguments, eigenvalues=8)
    assert layers.tables["separation-features-by-layer"].axes == {"layer": ("head",)}
    assert any(text.endswith("not errors times inputs: inner") for text in layers.warnings)


def one_each(generator):
    """One training sample of each of three classes."""
    (inputs, labels), test = testing.tiny_samples(generator)
    return (inputs[:C], labels[:C]), test


def test_one_sample_a_class_is_measured():
    result = measure(
        "cross-class", dataset={"name": "import", "factory": one_each}, lanczos_steps=8
    )
    assert "outliers-to-bulk" not in result.quantities
    assert any("too few samples to vary within" in text for text in result.warnings)
    assert result.quantities["class-share"].exact


SQUARED = {**TRAINING, "loss": "squared-error"}


@pytest.mark.parametrize("probe", ["cross-class", "layer-structure"])
def test_probabilities_are_not_read_out_of_a_network_trained_with_squared_error(probe):
    with pytest.raises(penchant.Error, match="found a training with squared-error"):
        penchant.measure(probe, executor="serial", training=SQUARED, **TINY)
    asked = penchant.measure(
        probe, executor="serial", training=SQUARED, loss="cross-entropy", **TINY
    )
    assert asked.quantities["loss"].value > 0


def test_the_hessian_is_that_of_the_loss_trained_with():
    found = {}
    for loss in ("training", "squared-error", "cross-entropy"):
        found[loss] = penchant.measure(
            "hessian-spectrum",
            executor="serial",
            training=SQUARED,
            split="train",
            matrices=["hessian"],
            loss=loss,
            **TINY,
        )
    value = {loss: result.quantities["trace-hessian"].value for loss, result in found.items()}
    assert value["training"] == value["squared-error"] != value["cross-entropy"]
    assert found["training"].conventions["loss"].startswith("half the squared error")
    assert (
        found["training"].quantities["loss"].value
        != found["cross-entropy"].quantities["loss"].value
    )


RATES = {"epochs": 2, "batch": 4, "learning_rates": [1e30, 0.2, 1e-6]}


def test_other_sizes_are_trained_with_the_best_of_several_rates():
    """The rate that diverges loses; the one that is far too small would leave the loss where it is."""
    options = {"sizes": [8], "lanczos_steps": 8, "permutations": 0}
    swept = penchant.measure("cross-class", executor="serial", training=RATES, **options, **TINY)
    alone = penchant.measure(
        "cross-class",
        executor="serial",
        training={**RATES, "learning_rates": [], "learning_rate": 0.2},
        **options,
        **TINY,
    )
    assert swept.conventions["learning rate"].startswith("0.2, smallest test error")
    assert "1 of which diverged" in swept.conventions["learning rate"]
    np.testing.assert_array_equal(swept.arrays["panel-top"], alone.arrays["panel-top"])


def test_logistic_regression_takes_the_best_of_several_rates():
    options = {"train": 400, "test": 200, "separations": [2.0], "executor": "serial"}
    swept = penchant.measure(
        "logistic-theory", training={"epochs": 2, "learning_rates": [0.1, 1e-9]}, **options
    )
    alone = penchant.measure(
        "logistic-theory", training={"epochs": 2, "learning_rate": 0.1}, **options
    )
    assert swept.quantities["error-probability"] == alone.quantities["error-probability"]
    assert swept.arrays["multiplicity"].tolist() == [4, 8, 24, 12]


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
            {"classes": 5, "inputs": 5},
            "inputs must be more than the number of classes, 5, found 5",
        ),
        (
            "logistic-theory",
            {"alpha": 0.9},
            "alpha must be at most 1 - 1 / classes = 0.75, found 0.9",
        ),
        ("hessian-spectrum", {"lanczos_steps": 1}, "lanczos_steps must be at least 2, found 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(probe, options, message):
    arguments = {} if probe == "logistic-theory" else TINY
    with pytest.raises(penchant.Error, match=message):
        penchant.measure(probe, executor="serial", **arguments, **options)


def regression(generator):
    (inputs, labels), (others, further) = testing.tiny_samples(generator)
    return (inputs, labels.float()), (others, further.float())


@pytest.mark.parametrize("probe", ["cross-class", "layer-structure"])
def test_data_without_classes_are_refused(probe):
    training = {"epochs": 1, "loss": "squared-error"}
    arguments = {**TINY, "dataset": {"name": "import", "factory": regression}}
    with pytest.raises(penchant.Error, match="classes"):
        penchant.measure(probe, executor="serial", training=training, **arguments)


def of_zeros(shape, outputs):
    network = testing.tiny_network(shape, outputs)
    for value in network.parameters():
        nn.init.zeros_(value)
    return network


def test_a_network_of_zero_weights_is_refused():
    zeros = {"name": "import", "factory": of_zeros}
    data = {"name": "import", "factory": testing.SAMPLES}
    with pytest.raises(penchant.Error, match="weights of a layer are exactly zero"):
        penchant.measure(
            "layer-structure",
            architecture=zeros,
            dataset=data,
            per_class=4,
            training={"steps": 0, "weight_decay": 1e-3},
        )
