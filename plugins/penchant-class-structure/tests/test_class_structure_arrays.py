"""Features and labels in place of a network: the same numbers as the network whose they are."""

import numpy as np
import penchant
import pytest
import torch
from torch import nn

NAMES = ("nc1", "nc2-simplex", "nc2-norms", "nc2-angles")


def network_and_features(dtype):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3))
    network = network.to(dtype)
    # more samples than a batch has
    inputs, labels = torch.randn(300, 6, dtype=dtype), torch.arange(300) % 3
    inputs += labels[:, None]
    result = penchant.measure(
        "neural-collapse",
        architecture=network,
        dataset=((inputs, labels), (inputs[:30], labels[:30])),
        dtype=str(dtype).removeprefix("torch."),
        permutations=5,
    )
    with torch.no_grad():
        features = {"0": inputs, "2": network[:2](inputs), "4": network[:4](inputs)}
    return result, features, labels, network[4].weight.detach()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_give_what_their_network_gives(dtype):
    expected, features, labels, weight = network_and_features(dtype)
    found = penchant.measure(
        "neural-collapse",
        features=features,
        labels=labels,
        classifier_weights=weight,
        dtype=str(dtype).removeprefix("torch."),
        permutations=5,
    )
    assert found.labels == expected.labels
    # features of whole arrays and of batches of a network differ in the last bits
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    for name, values in found.arrays.items():
        np.testing.assert_allclose(
            values, expected.arrays[name], rtol=tolerance, atol=tolerance, err_msg=name
        )
    assert set(expected.quantities) - set(found.quantities) == {"nc4", "train-accuracy"}
    for name, quantity in found.quantities.items():
        other = expected.quantities[name].numbers
        for key, value in quantity.numbers.items():
            assert value == pytest.approx(other[key], rel=10 * tolerance, abs=tolerance), (
                name,
                key,
            )


def measured(features, labels, **options):
    return penchant.measure("neural-collapse", features=features, labels=labels, **options)


def test_a_simplex_has_collapsed():
    means = np.eye(4) - 1 / 4
    labels = np.arange(80) % 4
    result = measured(means[labels] + 5, labels, classifier_weights=3 * means, dtype="float64")
    for name in (*NAMES, "nc3", "nc2-simplex-classifier"):
        assert result.quantities[name].value == pytest.approx(0, abs=1e-12)
    assert result.quantities["nc1"].null > 1
    assert result.tables["nc1-isotropic"].axes == {"layer": ("features",)}


def test_nc1_is_that_of_its_formula():
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = generator.normal(size=(90, 7)) + np.eye(3, 7)[labels]
    means = np.stack([features[labels == label].mean(0) for label in range(3)])
    within = sum(np.cov(features[labels == label].T, bias=True) for label in range(3)) / 3
    between = (means - means.mean(0)).T @ (means - means.mean(0)) / 3
    expected = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / 3
    found = measured(features, labels, dtype="float64").quantities["nc1"]
    assert found.value == pytest.approx(expected)


def test_errors_are_calibrated_and_labels_of_chance_differ_from_no_null():
    found, null = [], []
    for seed in range(24):
        generator = np.random.default_rng(seed)
        labels = np.arange(150) % 3
        noise = generator.normal(size=(150, 8))
        found.append(measured(noise + 2 * np.eye(3, 8)[labels], labels, seed=seed))
        null.append(measured(noise, labels, seed=seed))
    for name in ("nc1", "nc2-norms"):
        values = [each.quantities[name] for each in found]
        ratio = np.mean([each.stderr for each in values]) / np.std(
            [each.value for each in values], ddof=1
        )
        assert 0.5 < ratio < 2, name
    significant = [each.quantities[name].is_significant for each in null for name in NAMES]
    assert sum(significant) <= 4


def test_what_does_not_fit_is_refused():
    labels = np.arange(60) % 3
    rows = np.random.default_rng(0).normal(size=(60, 5))

    def refused(message, features=rows, labels=labels, **options):
        with pytest.raises(penchant.Error, match=message):
            measured(features, labels, **options)

    refused("found 60 rows in 'features' and 59 in 'labels'", labels=labels[1:])
    refused("classes 0, 1, ..., found 0.5", labels=labels + 0.5)
    refused("found features alone", labels=None)
    refused("found labels alone", features=None)
    refused(r"2 to 2048 features for 3 classes, found the shape \(60, 1\)", features=rows[:, :1])
    refused(r"\(3, 5\), found \(2, 5\)", classifier_weights=np.ones((2, 5)))
    refused("none of class 1", labels=2 * (np.arange(60) % 2))
    ids = {"features": np.arange(60), "labels": np.arange(60)[::-1]}
    refused("of which 60 differ", sample_ids=ids)
    refused("takes features or an architecture", architecture="mlp")
