"""The probe `tangent-kernel` against dense derivatives and closed forms."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.layers import centre, layer_kernels
from penchant_numerics.layers.kernel_alignment import cka
from penchant_tangent.shared.kernel_samples import (
    alignment,
    centred_targets,
    expected_alignment,
    permuted,
    sampled,
    targets_of,
)
from penchant_tangent.shared.kernel_summary import (
    among,
    even_spectrum,
    summarise,
    summarise_layers,
    summary_stderr,
    time_constants,
)
from penchant_tangent.tangent_kernel import probe as tangent_kernel
from penchant_tangent.tangent_kernel.probe import run


def features(samples, outputs, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples * outputs, width, generator=generator, dtype=torch.float64)


def labels_of(samples, classes, seed=1):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (samples,), generator=generator)
    return targets_of(labels, outputs=classes, classes=classes)


@pytest.mark.parametrize("centring", ["outputs", "all", "none"])
def test_the_short_alignment_is_cka_with_the_kernel_of_the_labels(centring):
    Phi, Y = features(9, 3, 7), labels_of(9, 3)
    K = Phi @ Phi.T
    y = Y.flatten()
    centred = centre(K, outputs=3, centring=centring)
    short = alignment(centred, centred_targets(Y, centring))
    assert float(short) == pytest.approx(cka(K, torch.outer(y, y), outputs=3, centring=centring))


def test_the_null_of_permuted_labels_is_centred_on_its_expectation():
    Phi, Y = features(12, 3, 20), labels_of(12, 3)
    K = centre(Phi @ Phi.T, outputs=3)
    Y = centred_targets(Y, "outputs")
    generator = torch.Generator().manual_seed(2)
    null = alignment(K, permuted(Y, generator=generator, draws=4000))
    error = float(null.std()) / 4000**0.5
    assert abs(float(null.mean()) - expected_alignment(K, Y)) < 3 * error


def test_features_that_are_the_labels_align_fully_and_have_rank_one():
    Y = labels_of(10, 2)
    y = Y.flatten()
    found = summarise(torch.outer(y, y), Y, centring="outputs", ratios=(1,))
    assert found.numbers["cka"] == pytest.approx(1)
    assert found.numbers["effective-rank"] == pytest.approx(1, abs=1e-6)
    assert found.numbers["trace-ratio-1"] == pytest.approx(1)


def test_one_output_tells_two_classes_by_minus_and_plus_one():
    labels = torch.tensor([0, 1, 1])
    assert targets_of(labels, outputs=1, classes=2).tolist() == [[-1.0], [1.0], [1.0]]
    numbers = torch.tensor([0.5, 2.0])
    assert targets_of(numbers, outputs=1, classes=0).tolist() == [[0.5], [2.0]]


def test_labels_of_one_class_are_refused():
    Y = targets_of(torch.zeros(4, dtype=torch.int64), outputs=2, classes=2)
    with pytest.raises(ValueError, match="all the same"):
        alignment(torch.eye(8).double(), centred_targets(Y, "outputs"))


def test_the_jackknife_leaves_samples_out_of_the_kernel():
    Phi = features(6, 2, 5)
    kept = torch.tensor([0, 2, 5])
    chosen = Phi.reshape(6, 2, 5)[kept].reshape(6, 5)
    assert torch.allclose(among(Phi @ Phi.T, kept, outputs=2), chosen @ chosen.T)


def test_the_error_of_the_trace_is_that_of_a_sum_over_samples():
    Phi, Y = features(40, 1, 6), labels_of(40, 2)[:, :1]
    errors = summary_stderr(Phi @ Phi.T, Y, centring="none", ratios=(), groups=40)
    squares = Phi.square().sum(1)
    assert errors["trace"] == pytest.approx(float(squares.std() * 40**0.5))


def test_parts_of_layers_have_traces_that_add_up():
    first, second, Y = features(8, 2, 3), features(8, 2, 4, seed=5), labels_of(8, 2)
    kernels = {"a": first @ first.T, "b": second @ second.T, "dead": torch.zeros(16, 16)}
    layers = summarise_layers(kernels, Y, centring="outputs", groups=4)
    whole = summarise(kernels["a"] + kernels["b"], Y, centring="outputs", ratios=())
    assert layers.trace.sum() == pytest.approx(whole.numbers["trace"])
    assert layers.cka[2] == 0


def test_the_kernel_is_that_of_dense_derivatives(tmp_path):
    arguments = {"dtype": "float64", "samples": 10, "groups": 5, "store_kernel": True}
    context = testing.context("tangent-kernel", tmp_path, training={"steps": 0}, **arguments)
    result = run(context.options, context)
    network = context.network().double()
    inputs = sampled(context.data.train, 10, context.generator("samples")).inputs.double()

    def outputs(values):
        return torch.func.functional_call(network, values, (inputs,))

    jacobians = torch.func.jacrev(outputs)(dict(network.named_parameters()))
    rows = [each.reshape(30, -1) for each in jacobians.values()]
    J = torch.cat(rows, 1).detach()
    assert np.allclose(result.arrays["kernel"], J @ J.T, rtol=1e-9, atol=1e-12)
    numbers = result.arrays["kernel-samples"]
    assert torch.equal(context.data.train.inputs[numbers], inputs)
    assert np.array_equal(result.arrays["kernel-labels"], context.data.train.labels[numbers])

    # kernel and metric share their spectrum, here centred around each output's mean
    centred = J.reshape(10, 3, -1)
    centred = (centred - centred.mean(0)).reshape(30, -1)
    singular = torch.linalg.svdvals(centred).square()
    assert np.allclose(result.arrays["eigenvalues"][:20], singular[:20], atol=1e-9)
    assert result.quantities["trace"].value == pytest.approx(float(singular.sum()))
    assert result.labels["layers"] == ("1", "3")

    # labels in 200 random orders decide; errors are those of five groups
    found = result.quantities["cka"]
    assert found.df == 4
    assert 1 / 201 <= found.p <= 1


def test_errors_shrink_by_e_in_a_time_constant():
    values = torch.tensor([4.0, 1.0, 0.5], dtype=torch.float64)
    found = time_constants(values)
    # gradient descent on |f - y|^2 / 2 with rate 1 / lambda_1, along each eigenvector
    error = (1 - values / values[0]) ** found
    assert torch.allclose(error[1:], torch.full((2,), 1 / np.e, dtype=torch.float64))
    assert float(found[0]) == 0
    assert time_constants(torch.tensor([1.0, 0.0, -1e-3])).isnan().tolist() == [False, True, True]


def test_more_groups_than_pairs_of_samples_are_refused():
    with pytest.raises(Exception, match="at most 4 groups, found groups = 5"):
        testing.context("tangent-kernel", samples=8, groups=5)


def nearly_alike(samples=24):
    """Samples that single precision can hardly tell apart, next to what they have in common."""
    generator = torch.Generator().manual_seed(0)
    inputs = 1 + 1e-6 * torch.randn(samples, 50, generator=generator, dtype=torch.float64)
    return inputs, torch.arange(samples) % 2


@pytest.mark.parametrize(
    ("dtype", "in_single", "warned"),
    [("float32", True, True), ("float32", False, False), ("float64", False, False)],
)
def test_a_spectrum_that_is_rounding_is_called_so(dtype, in_single, warned, monkeypatch):
    if in_single:  # as on a device where double precision costs much
        monkeypatch.setattr(tangent_kernel, "precise_layer_kernels", layer_kernels)
    found = penchant.measure(
        "tangent-kernel",
        architecture="mlp:widths=[16]",
        dataset=nearly_alike(),
        training={"steps": 0},
        samples=16,
        groups=4,
        dtype=dtype,
        executor="serial",
    )
    assert any("which is rounding" in text for text in found.warnings) is warned
    # 16 samples of two classes have 32 eigenvalues: 40 of them are all there are.
    assert found.quantities["trace-ratio-40"].value == 1
    assert found.quantities["trace-ratio-40"].exact


@pytest.mark.parametrize("centring", ["outputs", "all", "none"])
def test_an_even_spectrum_is_that_of_features_without_preference(centring):
    samples, outputs, ratios = 6, 2, [3, 20]
    generator = torch.Generator().manual_seed(0)
    wanted = torch.randn(samples, outputs, generator=generator, dtype=torch.float64)
    K = torch.eye(samples * outputs)
    expected = summarise(K, wanted, centring=centring, ratios=ratios).numbers
    found = even_spectrum(samples, outputs, centring=centring, ratios=ratios)
    for name, value in found.items():
        assert value == pytest.approx(expected[name], rel=1e-6)


def test_the_error_of_a_share_of_nearly_all_eigenvalues_is_not_zero():
    """Fewer samples have fewer eigenvalues than T_k takes; the spread is that of fresh samples."""
    values, errors = [], []
    scale = torch.logspace(0, -1, 40, dtype=torch.float64)
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        features = torch.randn(24, 40, generator=generator, dtype=torch.float64) * scale
        wanted = torch.randn(24, 1, generator=generator, dtype=torch.float64)
        K = features @ features.T
        how = {"centring": "outputs", "ratios": [21]}
        values.append(summarise(K, wanted, **how).numbers["trace-ratio-21"])
        errors.append(summary_stderr(K, wanted, groups=6, **how)["trace-ratio-21"])
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) / np.std(values, ddof=1) < 2


def alike(generator):
    """Samples whose inputs are all the same."""
    return torch.ones(40, 4, device="cpu"), torch.arange(40, device="cpu") % 3


def of_one_class(generator):
    """Samples of class 0, and one test sample of class 1."""
    inputs = torch.randn(40, 4, generator=generator, device="cpu")
    labels = torch.arange(40, device="cpu") // 39
    return (inputs[:30], labels[:30]), (inputs[30:], labels[30:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("probe", ["tangent-kernel", "tangent-training"])
@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (alike, "kernel is zero to rounding"),
        (of_one_class, "labels of 20 samples are all the same"),
    ],
)
def test_samples_that_do_not_differ_are_refused(probe, factory, message, dtype):
    data = {"name": "import", "factory": factory}
    tiny = {"name": "import", "factory": testing.TINY}
    arguments = {"samples": 20, "training": {"steps": 0}, "dtype": dtype}
    with pytest.raises(penchant.Error, match=message):
        penchant.measure(probe, architecture=tiny, dataset=data, **arguments)
