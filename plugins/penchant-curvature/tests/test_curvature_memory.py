"""Curvatures that do not fit in memory: what is left, and what is said; fewer at once where a device runs out."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_curvature.curvature_proxies import layer_comparison
from penchant_curvature.curvature_proxies.class_means import mean_products
from penchant_curvature.shared import kronecker, layer_samples
from penchant_curvature.shared.column_bytes import ColumnShape, ColumnSizes, TooLargeError
from penchant_curvature.shared.columns import Columns, store
from penchant_curvature.shared.layer_operators import column_operators, kronecker_operators
from penchant_curvature.shared.layer_samples import LayerSamples
from penchant_curvature.shared.linear_layers import coverage
from penchant_numerics.device import LiveBytes, memory
from torch import nn

CLASSES = 3
COMPARISONS = ("last-error-kfac", "last-error-cfac", "mean-error-kfac", "cfac-better")


def measured(**options):
    """The probe, small, on a network at initialisation: two layers, 18 samples of three classes."""
    small = {
        "per_class": 6,
        "grid_points": 64,
        "lanczos_steps": 20,
        "permutations": 1,
        "training": {"steps": 0},
    }
    return penchant.measure(
        "curvature-proxies",
        architecture={"name": "import", "factory": testing.TINY},
        dataset={"name": "import", "factory": "penchant_testing:tiny_samples"},
        executor="serial",
        **{**small, **options},
    )


@pytest.fixture(scope="module")
def whole():
    """What is measured where everything fits."""
    return measured()


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(144, CLASSES)).double().eval()


def images(samples=12):
    generator = torch.Generator("cpu").manual_seed(1)
    inputs = torch.randn(samples, 2, 6, 6, generator=generator, dtype=torch.float64)
    return inputs, torch.arange(samples) % CLASSES


# ---- what does not fit


def check_what_is_left(result, whole, reason):
    """Everything but the exact matrix, as it is where that fits."""
    for name in COMPARISONS:
        assert result.quantities[name].missing, name
        assert name in result.missing
    for name in ("layer-trace-exact", "layer-error-kfac", "leading-exact", "spectrum-exact"):
        assert np.isnan(result.arrays[name]).all(), name
        assert name in result.missing
    for name in ("layer-trace-kfac", "layer-trace-cfac", "leading-kfac", "cosine-cross"):
        assert np.allclose(result.arrays[name], whole.arrays[name], rtol=1e-5), name
    for name in ("cosine-class", "effective-samples", "covered"):
        assert result.quantities[name].value == pytest.approx(whole.quantities[name].value)
    spectra = result.arrays["spectrum-kfac"]
    spacing = np.diff(result.arrays["spectrum-grid"], axis=1)[:, :1]
    assert np.allclose((spectra * spacing).sum(1), 1.0)
    (said,) = [text for text in result.warnings if "exact" in text]
    assert said.startswith("without the exact Gauss-Newton matrix and comparisons with it in")
    assert reason in said
    assert reason in result.conventions["exact: left out"]


def test_proxies_are_measured_where_the_exact_matrix_does_not_fit_the_budget(whole):
    """54 columns have a Gram matrix of 93 kB, four times; 18 columns of the empirical Fisher fit."""
    result = measured(memory=60_000 / 2**30)
    check_what_is_left(result, whole, "18 x 3 columns of 1 take")
    assert np.isfinite(result.arrays["layer-trace-empirical-fisher"]).all()
    assert not any("empirical" in text for text in result.warnings)
    assert set(result.figures()) == {"spectra-last", "spectra", "leading", "cosines"}


def test_proxies_are_measured_where_samples_and_classes_are_too_many(monkeypatch, whole):
    monkeypatch.setattr(layer_comparison, "LARGEST", 20)
    check_what_is_left(measured(), whole, "at most 20 samples x classes, found 54")


def test_a_proxy_that_does_not_fit_is_left_out_by_itself():
    result = measured(memory=11_000 / 2**30)
    assert np.isnan(result.arrays["layer-trace-empirical-fisher"]).all()
    assert np.isfinite(result.arrays["layer-trace-kfac"]).all()
    assert any("without empirical-fisher in layers 1, 3" in text for text in result.warnings)


def test_what_columns_take_is_known_before_they_are_made():
    data = images()
    sizes = ColumnSizes(network(), data[0])
    for layer in ("0", "3"):
        _, stored = store(LayerSamples(network(), data, layer))
        numbers = sum(each.numel() for each in vars(stored).values())
        assert len(data[0]) * sizes.shape(layer).numbers == numbers
    with memory.budget(1000), pytest.raises(TooLargeError, match="12 x 3 columns of 0, 3 take"):
        sizes.check({"0": None, "3": None})
    found = column_operators(
        network(), data, coverage(network(), data[0]), columns="gauss-newton", loss="cross-entropy"
    )
    with memory.budget(1000), pytest.raises(TooLargeError, match="columns of 0"):
        found["0"]


def test_the_smaller_form_of_columns_is_counted():
    many = ColumnShape(positions=100, columns=2, units=3, width=5)
    assert (many.by_positions, many.numbers) == (False, 2 * 3 * 5)
    one = ColumnShape(positions=1, columns=2, units=3, width=5)
    assert (one.by_positions, one.numbers) == (True, 5 + 2 * 3)


def test_factors_and_means_that_do_not_fit_are_refused_with_their_bytes(monkeypatch):
    data = images()
    covered = coverage(network(), data[0])
    factors = kronecker_operators(network(), data, covered, data[1], loss="cross-entropy")
    with memory.budget(10_000):
        assert factors["0"].size == 76, "what is asked for is no part of a budget"
    monkeypatch.setattr(memory, "capacity", lambda device: 10_000)
    with pytest.raises(TooLargeError, match="factors of 3 take"):
        factors["3"]
    with pytest.raises(TooLargeError, match="3 mean gradients of 3 take"):
        mean_products(network(), data, "3", classes=CLASSES)


def test_a_pass_of_a_layer_follows_the_budget():
    data = images(64)
    limit = 400_000
    with memory.budget(limit), LiveBytes(peaks=True) as live:
        samples = LayerSamples(network(), data, "0")
        for _ in samples:
            pass
    assert 1 <= samples.batch < 64
    assert live.peak <= limit
    assert LayerSamples(network(), data, "0").batch == 128


# ---- a device that runs out of memory


def runs_out(monkeypatch, target, name, count, *, most):
    """Let a method raise where `count` of its arguments is more than so many."""
    before = getattr(target, name)

    def limited(self, *args, **options):
        if count(*args) > most:
            raise torch.OutOfMemoryError("no room")
        return before(self, *args, **options)

    monkeypatch.setattr(target, name, limited)


def test_class_means_and_columns_go_on_with_fewer_samples(monkeypatch):
    data = images()
    whole = mean_products(network(), data, "0", classes=CLASSES, batch=4)
    expected = Columns(*zip(store(LayerSamples(network(), data, "0", batch=12)))).dense()
    few = lambda start, inputs, labels: len(inputs)  # noqa: E731
    runs_out(monkeypatch, layer_samples.LayerSamples, "_batch", few, most=2)
    with pytest.warns(memory.MemoryWarning, match="2 samples per pass of class means instead of 4"):
        found = mean_products(network(), data, "0", classes=CLASSES, batch=4)
    assert torch.allclose(found.cosines(), whole.cosines(), rtol=1e-10)
    with pytest.warns(memory.MemoryWarning, match="samples per pass of a layer's gradients"):
        stored = store(LayerSamples(network(), data, "0", batch=12))
    assert torch.allclose(Columns(*zip(stored)).dense(), expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("by_class", [False, True])
def test_products_of_factors_go_on_with_fewer_vectors(monkeypatch, by_class):
    data = images()
    groups = data[1] if by_class else torch.zeros_like(data[1])
    covered = coverage(network(), data[0])
    factors = kronecker_operators(network(), data, covered, groups, loss="cross-entropy")["3"]
    rows = torch.randn(
        5, factors.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    expected = factors.multiply_rows(rows)
    runs_out(monkeypatch, kronecker.KroneckerSum, "_product", len, most=2)
    with pytest.warns(memory.MemoryWarning, match="2 vectors a product of factors instead of 4"):
        found = factors.multiply_rows(rows)
    assert torch.allclose(found, expected, rtol=1e-12)


def test_inner_products_go_on_with_fewer_gradients(monkeypatch):
    from penchant_curvature.shared.columns import Gradients

    data = images()
    covered = coverage(network(), data[0])
    options = {"columns": "gauss-newton", "loss": "cross-entropy"}
    factors = kronecker_operators(network(), data, covered, data[1], loss="cross-entropy")["0"]
    exact = column_operators(network(), data, covered, **options)["0"]
    other = column_operators(network(), data, covered, **options)["0"]
    assert isinstance(exact.stored[0], Gradients)
    expected = (exact.inner(other), factors.inner(exact))
    runs_out(monkeypatch, Gradients, "matrices", lambda part: part.stop - part.start, most=3)
    with pytest.warns(memory.MemoryWarning, match="samples whose gradients are formed"):
        assert exact.inner(other) == pytest.approx(expected[0], rel=1e-10)
        assert factors.inner(exact) == pytest.approx(expected[1], rel=1e-10)
