"""The probe `tangent-training` against linear models, dense derivatives and chance."""

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_tangent.numerics.kernel_summary import summarise
from penchant_tangent.numerics.log_steps import log_steps
from penchant_tangent.probes.kernel_samples import drawn, targets
from penchant_tangent.probes.tangent_training import run
from penchant_tangent.probes.training_samples import mixture, with_random_labels

FEW = {"steps": 9, "batch": 16, "learning_rate": 0.1}


def measured(folder, **parts):
    context = testing.context("tangent-training", folder, **{"training": FEW, **parts})
    return context, run(context.options, context)


def test_steps_are_even_on_a_logarithmic_axis():
    assert log_steps(10**4, 7) == [0, 1, 6, 40, 251, 1585, 10000]
    assert log_steps(3, 30) == [0, 1, 2, 3]
    assert log_steps(0, 5) == [0]


def test_the_kernel_of_a_linear_model_does_not_change(tmp_path):
    parts = {"architecture": "logistic", "samples": 12, "looks": 3, "trainings": 2}
    _, result = measured(tmp_path, **parts)
    for name in ("train-effective-rank", "test-cka", "train-largest-eigenvalue"):
        values = result.arrays[name]
        assert np.allclose(values, values[:, :1], rtol=1e-6), name
    assert result.quantities["effective-rank-change-0"].value == pytest.approx(0, abs=1e-5)
    assert result.quantities["train-accuracy-0"].value > 0.6


def test_a_look_is_the_summary_of_dense_derivatives(tmp_path):
    parts = {"dtype": "float64", "samples": 6, "at_steps": [9], "trainings": 2, "ratios": [3]}
    context, result = measured(tmp_path, **parts)
    found = []
    for number in range(2):
        easy = mixture(context.options, context, 0.0, number).easy
        network = context.network(number)
        *_, (_, network) = context.train(network, easy, number)
        batch = drawn(easy, 6, context.generator("batch", "train", number))

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
    parts = {"noise_shares": [1.0], "trainings": 12, "at_steps": [0], "samples": 40}
    _, result = measured(tmp_path, **parts)
    away = result.arrays["train-cka"] - result.arrays["train-cka-null"]
    assert abs(away[0, 0]) < 3 * result.arrays["train-cka-stderr"][0, 0]
    # test labels are not random
    above = result.arrays["test-cka"] - result.arrays["test-cka-null"]
    assert above[0, 0] > 5 * result.arrays["test-cka-stderr"][0, 0]


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
    parts = {"training": soon, "samples": 4, "looks": 8, "trainings": 2}
    _, result = measured(tmp_path, **parts)
    assert result.arrays["train-cka"].shape == (1, len(result.arrays["steps"]))
    assert result.arrays["train-cka"][0, -1] == result.arrays["train-cka"][0, -2]


def test_difficult_samples_may_come_from_another_dataset(tmp_path):
    near = {"name": "digits", "per_class": 8, "test_per_class": 4}
    parts = {"dataset": near, "samples": 8, "at_steps": [0, 2], "trainings": 2}
    other = {"difficult_data": "digits", "difficult_samples": 20, "training": {"steps": 2}}
    context, result = measured(tmp_path, **parts, **other)
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
        ({"at_steps": [10]}, "at_steps must be at most 9, found 10"),
        ({"difficult_data": "digits", "difficult_samples": 5}, r"must have inputs \(4,\)"),
    ],
)
def test_what_cannot_be_is_refused(options, message, tmp_path):
    with pytest.raises(penchant.Error, match=message):
        measured(tmp_path, **options)
