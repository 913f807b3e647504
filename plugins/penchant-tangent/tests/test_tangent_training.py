"""The probe `tangent-training` against linear models, dense derivatives and chance."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.layers import layer_kernels
from penchant_tangent.shared.kernel_samples import (
    alignment,
    expected_alignment,
    permuted,
    sampled,
    targets,
)
from penchant_tangent.shared.kernel_summary import summarise
from penchant_tangent.shared.training_samples import mixture, with_random_labels
from penchant_tangent.tangent_training import probe as tangent_training
from penchant_tangent.tangent_training.probe import log_steps, run

FEW = {"steps": 9, "batch": 16, "learning_rate": 0.1}


def measured(folder, **arguments):
    context = testing.context("tangent-training", folder, **{"training": FEW, **arguments})
    return context, run(context.options, context)


def test_steps_are_even_on_a_logarithmic_axis():
    assert log_steps(10**4, 7) == [0, 1, 6, 40, 251, 1585, 10000]
    assert log_steps(3, 30) == [0, 1, 2, 3]
    assert log_steps(0, 5) == [0]


def test_the_kernel_of_a_linear_model_does_not_change(tmp_path):
    arguments = {"architecture": "logistic", "samples": 12, "evaluations": 3, "trainings": 2}
    _, result = measured(tmp_path, **arguments)
    for name in ("train-effective-rank", "test-cka", "train-largest-eigenvalue"):
        values = result.arrays[name]
        assert np.allclose(values, values[:, :1], rtol=1e-6), name
    assert result.quantities["effective-rank-change-0"].value == pytest.approx(0, abs=1e-5)
    assert result.quantities["train-accuracy-0"].value > 0.6


def test_a_look_is_the_summary_of_dense_derivatives(tmp_path):
    arguments = {"dtype": "float64", "samples": 6, "eval_steps": [9], "trainings": 2, "ratios": [3]}
    context, result = measured(tmp_path, **arguments)
    found = []
    for number in range(2):
        easy = mixture(context.options, context, 0.0, number).easy
        network = context.network(number)
        *_, (_, network) = context.train(network, easy, number)
        batch = sampled(easy, 6, context.generator("batch", "train", number))

        def outputs(values, network=network, batch=batch):
            return torch.func.functional_call(network, values, (batch.inputs,))

        jacobians = torch.func.jacrev(outputs)(dict(network.named_parameters()))
        J = torch.cat([each.reshape(18, -1) for each in jacobians.values()], 1).detach()
        wanted = targets(batch, context)
        found.append(summarise(J @ J.T, wanted, centring="outputs", ratios=(3,)).numbers)
    for name in ("effective-rank", "cka", "cka-uncentred"):
        expected = np.mean([each[name] for each in found])
        assert result.arrays[f"train-{name}"][0, 0] == pytest.approx(expected, rel=1e-9)
    ratio = np.mean([each["trace-ratio-3"] for each in found])
    assert result.arrays["train-trace-ratios"][0, 0, 0] == pytest.approx(ratio, rel=1e-9)


def test_random_labels_align_as_the_null_says_before_training(tmp_path):
    arguments = {"noise_shares": [1.0], "trainings": 12, "eval_steps": [0], "samples": 40}
    _, result = measured(tmp_path, **arguments)
    away = result.arrays["train-cka"] - result.arrays["train-cka-null"]
    assert abs(away[0, 0]) < 3 * result.arrays["train-cka-stderr"][0, 0]
    # test labels are not random
    above = result.arrays["test-cka"] - result.arrays["test-cka-null"]
    assert above[0, 0] > 5 * result.arrays["test-cka-stderr"][0, 0]


DIGITS = "digits:per_class=20,test_per_class=10"


def test_an_untrained_network_has_no_lead_of_easy_samples(tmp_path):
    arguments = {"dataset": DIGITS, "difficult_samples": 40, "samples": 40, "trainings": 3}
    mlp = {"architecture": "mlp:widths=[20,20]", "training": {"steps": 0}}
    _, result = measured(tmp_path, **arguments, **mlp)
    # true labels align with the kernel of an untrained network
    ahead = result.arrays["train-cka"] - result.arrays["difficult-cka"]
    assert ahead[0, 0] > 0.01
    lead, ratio = result.quantities["easy-lead-0"], result.quantities["easy-ratio-0"]
    assert (lead.value, lead.null) == (0, 0)
    assert ratio.value == ratio.null > 1.2


def test_the_lead_is_what_training_adds_above_labels_in_random_order(tmp_path):
    arguments = {"noise_shares": [0.0], "easy_samples": 40, "difficult_samples": 20, "samples": 16}
    _, result = measured(tmp_path, **arguments, eval_steps=[0, 4, 9], trainings=2)
    arrays = result.arrays
    above = {}
    for split in ("train", "difficult"):
        above[split] = arrays[f"{split}-cka"][0] - arrays[f"{split}-cka-null"][0]
    ahead = above["train"] - above["difficult"]
    expected = np.mean([0, ahead[1] - ahead[0], ahead[2] - ahead[0]])
    assert result.quantities["easy-lead-0"].value == pytest.approx(expected)


def of_depth(folder, depth, **arguments):
    widths = [60] * depth
    looked = {"samples": 40, "eval_steps": [0], "trainings": 2, "training": {"steps": 0}}
    mlp = {"architecture": f"mlp:widths={widths}", "dataset": DIGITS}
    return measured(folder, **mlp, **looked, **arguments)


@pytest.mark.parametrize("depth", [9, 12, 15])
def test_deep_networks_have_the_same_numbers_in_single_and_double_precision(depth, tmp_path):
    single_context, single = of_depth(tmp_path, depth, dtype="float32")
    _, double = of_depth(tmp_path, depth, dtype="float64")
    for name in ("effective-rank", "cka", "trace-ratios"):
        found, expected = single.arrays[f"train-{name}"], double.arrays[f"train-{name}"]
        assert np.allclose(found, expected, rtol=0.01), name
    assert not single_context.warnings


def test_every_look_at_rounding_is_warned_of(tmp_path, monkeypatch):
    # what a device without double precision does
    monkeypatch.setattr(tangent_training, "precise_layer_kernels", layer_kernels)
    context, result = of_depth(tmp_path, 15, dtype="float32")
    assert any("which is rounding" in text for text in context.warnings)
    # a share of the trace that is above 1
    assert result.arrays["train-trace-ratios"].max() > 1.1


def test_errors_of_few_trainings_have_their_degrees_of_freedom(tmp_path):
    arguments = {
        "samples": 8,
        "eval_steps": [0, 9],
        "trainings": 3,
        "noise_shares": [0.0, 0.5, 1.0],
    }
    context, result = measured(tmp_path, **arguments)
    quantities = result.quantities
    for name in ("cka-change-0", "effective-rank-final-0", "train-accuracy-0.5"):
        assert quantities[name].df == 2, name
    # sampling of test samples is known better than the spread over trainings
    tested = quantities["test-accuracy-0"]
    labels = context.data.test.labels
    assert tested.df >= 2
    assert tested.null == float(labels.bincount().max()) / len(labels)
    order = quantities["rank-correlation"]
    assert order.count == 9
    assert 0 < order.p <= 1


def test_the_uncentred_alignment_has_the_null_of_labels_in_random_order(tmp_path):
    arguments = {"samples": 12, "eval_steps": [9], "trainings": 2}
    context, result = measured(tmp_path, **arguments)
    found = result.quantities["cka-uncentred-final-0"]
    assert found.value == pytest.approx(result.arrays["train-cka-uncentred"][0, -1])
    assert found.null == pytest.approx(result.arrays["train-cka-uncentred-null"][0, -1])
    # by permutations of one training's labels
    easy = mixture(context.options, context, 0.0, 0).easy
    *_, (_, network) = context.train(context.network(0), easy, 0)
    batch = sampled(easy, 12, context.generator("batch", "train", 0))
    K = sum(layer_kernels(network.double(), batch.inputs.double()).values())
    wanted = targets(batch, context)
    orders = permuted(wanted, generator=torch.Generator().manual_seed(0), draws=4000)
    draws = alignment(K, orders)
    error = float(draws.std()) / 4000**0.5
    assert abs(float(draws.mean()) - expected_alignment(K, wanted)) < 4 * error


def test_shares_of_random_labels_are_nested():
    labels = torch.zeros(2000, dtype=torch.int64)

    def noisy(share):
        generator = torch.Generator().manual_seed(0)
        return with_random_labels(labels, share, classes=4, generator=generator)

    half, whole = noisy(0.5), noisy(1.0)
    assert torch.equal(noisy(0.0), labels)
    assert bool((half[half != 0] == whole[half != 0]).all())
    assert abs(float((half != 0).double().mean()) - 0.375) < 0.04


def test_a_training_that_stops_early_stays_as_it_is(tmp_path):
    soon = {"epochs": 20, "batch": 30, "learning_rate": 0.5, "until_loss": 0.5}
    arguments = {"training": soon, "samples": 4, "evaluations": 8, "trainings": 2}
    _, result = measured(tmp_path, **arguments)
    assert result.arrays["train-cka"].shape == (1, len(result.arrays["steps"]))
    assert result.arrays["train-cka"][0, -1] == result.arrays["train-cka"][0, -2]


def test_difficult_samples_may_come_from_another_dataset(tmp_path):
    near = {"name": "digits", "per_class": 8, "test_per_class": 4}
    arguments = {"dataset": near, "samples": 8, "eval_steps": [0, 2], "trainings": 2}
    other = {"difficult_data": "digits", "difficult_samples": 20, "training": {"steps": 2}}
    context, result = measured(tmp_path, **arguments, **other)
    made = mixture(context.options, context, 0.0, 0)
    assert len(made.easy.labels) == 80
    assert len(made.difficult.labels) == 20
    assert result.arrays["difficult-cka"].shape == (1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"difficult_data": "digits"}, "needs difficult_samples"),
        ({"noise_shares": []}, "at least one share"),
        ({"easy_samples": 80, "difficult_samples": 20}, "at most 90 training samples"),
        ({"eval_steps": [10]}, "eval_steps must be at most 9, found 10"),
        ({"difficult_data": "digits", "difficult_samples": 5}, r"must have inputs \(4,\)"),
    ],
)
def test_what_cannot_be_is_refused(options, message, tmp_path):
    with pytest.raises(penchant.Error, match=message):
        measured(tmp_path, **options)
