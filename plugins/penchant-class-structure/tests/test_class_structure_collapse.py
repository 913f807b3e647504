"""Neural collapse: the simplex as its limit, dense oracles, nulls, forward passes, refusals."""

import math

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_architectures.architectures.resnet18 import build
from penchant_architectures.declarations.convolutional import ResNet18
from penchant_class_structure.layer_structure.layer_moments import layer_moments
from penchant_class_structure.neural_collapse.class_scatter import (
    class_scatter,
    collapse_layers,
    disagreement,
)
from penchant_class_structure.neural_collapse.figures import headline
from penchant_class_structure.neural_collapse.neural_collapse import (
    MEASURES,
    collapse,
    geometry,
    isotropic,
    self_duality,
)
from penchant_class_structure.neural_collapse.probe import _groups, _measured, _permutation_p
from penchant_numerics.data import Samples
from penchant_numerics.statistics import random_rotation
from torch import nn

C, D, N = 4, 9, 60


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def features(seed=0, separation=1.0):
    g = generator(seed)
    labels = torch.arange(N) % C
    centres = separation * torch.randn(C, D, generator=g, dtype=torch.float64)
    return centres[labels] + torch.randn(N, D, generator=g, dtype=torch.float64), labels


def scatter_of(h, labels):
    means = torch.stack([h[labels == c].mean(0) for c in range(C)])
    away = h - means[labels]
    return means, away.T @ away / len(h)


def dense(h, labels):
    """The formulas as they are written, with numpy."""
    h, labels = h.numpy(), labels.numpy()
    mu = np.array([h[labels == c].mean(0) for c in range(C)])
    m = mu - mu.mean(0)
    within = np.mean([np.outer(x - mu[c], x - mu[c]) for x, c in zip(h, labels)], axis=0)
    between = np.mean([np.outer(x, x) for x in m], axis=0)
    cosines = [
        m[a] @ m[b] / np.linalg.norm(m[a]) / np.linalg.norm(m[b])
        for a in range(C)
        for b in range(a)
    ]
    norms = np.linalg.norm(m, axis=1)
    return {
        "nc1": np.trace(within @ np.linalg.pinv(between)) / C,
        "nc2-norms": norms.std() / norms.mean(),
        "nc2-angles": np.std(cosines),
        "nc2-simplex": np.mean(np.abs(np.array(cosines) + 1 / (C - 1))),
    }


def simplex(seed=1):
    """A simplex of C vertices in D dimensions, turned and moved."""
    turned = random_rotation(D, generator=generator(seed))[:, :C]
    return 3 * (torch.eye(C, dtype=torch.float64) - 1 / C) @ turned.T + 5


def test_a_simplex_is_the_exact_limit():
    means = simplex()
    found = collapse(means, torch.zeros(D, D, dtype=torch.float64))
    assert max(map(abs, found.values())) < 1e-12
    assert self_duality(means, 7 * (means - means.mean(0))) < 1e-12


def test_a_simplex_with_scatter_has_the_scatter_over_the_means():
    # between-class variances of this simplex are 9 / C along each of C - 1 directions
    found = collapse(simplex(), 0.5 * torch.eye(D, dtype=torch.float64))
    assert found["nc1"] == pytest.approx((C - 1) * 0.5 / (9 / C) / C, rel=1e-12)


@pytest.mark.parametrize("separation", [0.0, 1.0, 30.0])
def test_measures_are_those_of_the_formulas(separation):
    h, labels = features(separation=separation)
    found = collapse(*scatter_of(h, labels))
    for name, value in dense(h, labels).items():
        assert found[name] == pytest.approx(value, rel=1e-10), name


def test_rows_of_a_classifier_are_not_centred():
    """As the paper's w_c, by its formulas; 0.085 was printed for 0.135."""
    torch.manual_seed(2)
    network = nn.Sequential(nn.Linear(D, 12), nn.Tanh(), nn.Linear(12, C))
    h, labels = features()
    w = network[2].weight.detach().double().numpy() + 0.3
    network[2].weight.data = torch.tensor(w, dtype=torch.float32)
    found = penchant.measure(
        "neural-collapse",
        architecture=network,
        dataset=((h.float(), labels), (h.float(), labels)),
        permutations=2,
        executor="serial",
        figures=False,
    ).quantities
    norms = np.linalg.norm(w, axis=1)
    cosines = [w[a] @ w[b] / norms[a] / norms[b] for a in range(C) for b in range(a)]
    expected = {
        "nc2-norms": norms.std() / norms.mean(),
        "nc2-angles": np.std(cosines),
        "nc2-simplex": np.mean(np.abs(np.array(cosines) + 1 / (C - 1))),
    }
    for name, value in expected.items():
        assert found[f"{name}-classifier"].value == pytest.approx(value, rel=1e-5), name


def test_measures_do_not_change_with_rotation_scale_and_shift():
    h, labels = features()
    turned = 0.1 * h @ random_rotation(D, generator=generator(5)) + 3
    first, second = collapse(*scatter_of(h, labels)), collapse(*scatter_of(turned, labels))
    assert first == pytest.approx(second, rel=1e-9)


def test_isotropic_features_have_the_value_in_closed_form():
    counts, d = torch.full((C,), 25), 30
    draws = isotropic(counts, d, generator=generator(), draws=2000)
    values = np.array([each["nc1"] for each in draws])
    n = 25 * C
    expected = (n - C) / C * (C - 1) / (d - C)
    assert abs(values.mean() - expected) < 3 * values.std() / len(values) ** 0.5


def test_isotropic_features_are_those_of_normal_samples():
    labels = torch.arange(N) % C
    found = []
    for seed in range(300):
        h = torch.randn(N, D, generator=generator(seed), dtype=torch.float64)
        found.append(collapse(*scatter_of(h, labels)))
    draws = isotropic(labels.bincount(), D, generator=generator(), draws=300)
    for name in MEASURES:
        one = np.log([each[name] for each in found])
        two = np.log([each[name] for each in draws])
        error = math.hypot(one.std(), two.std()) / 300**0.5
        assert abs(one.mean() - two.mean()) < 3.5 * error, name
        assert one.std() == pytest.approx(two.std(), rel=0.25), name


def test_means_by_chance_are_significant_in_one_of_a_hundred():
    """Three classes, whose deviations are the most skewed: logarithms call 4 % significant."""
    g, permutations = generator(3), 20
    draws = []
    for _ in range(1000 * (1 + permutations)):
        draws.append(geometry(torch.randn(3, 8, generator=g, dtype=torch.float64)))
    for name in MEASURES[1:]:
        rows = np.array([each[name] for each in draws]).reshape(1000, 1 + permutations)
        called = [_permutation_p(name, row[0], row[1:]) <= 0.01 for row in rows]
        # 10 expected; more than 21 of 1000 has a probability of 0.001
        assert sum(called) <= 21, name


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 12), nn.ReLU(), nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, C))


def test_sums_are_those_of_layer_moments():
    h, labels = features()
    network = perceptron().double().eval()
    permuted = labels.flip(0).roll(1)
    layers = collapse_layers(network, h, classes=C, largest=100)
    assert list(layers.modules) == ["0", "2", "4"] and layers.classifier == "4"
    groups = torch.arange(N) // C % 3
    found, _ = class_scatter(
        network, layers.modules, h, [labels, permuted], groups=groups, classes=C
    )
    for layer in layer_moments(network, h, [labels, permuted], largest=100).moments:
        own = found[layer.name]
        assert torch.allclose(own.moments.sum(0) / N, layer.features, atol=1e-12)
        assert torch.allclose(own.sums.sum(0), layer.sums[0].features, atol=1e-12)
        assert torch.allclose(own.permuted[0], layer.sums[1].features, atol=1e-12)


def test_a_group_left_out_is_as_if_it_had_not_been_there():
    h, labels = features()
    network = perceptron().double().eval()
    groups = torch.arange(N) // C % 3
    layers = collapse_layers(network, h, classes=C, largest=100)
    found, _ = class_scatter(network, layers.modules, h, [labels], groups=groups, classes=C)
    rest = groups != 1
    means, within = scatter_of(h[rest], labels[rest])
    own_means, own_within = found["0"].without(1)
    assert torch.allclose(own_means, means) and torch.allclose(own_within, within)


def test_the_nearest_mean_is_that_of_all_distances():
    h, labels = features(separation=0.5)
    network = perceptron().double().eval()
    layers = collapse_layers(network, h, classes=C, largest=100)
    means = scatter_of(h, labels)[0]
    found = disagreement(network, {"0": layers.modules["0"]}, h, {"0": means[None]})
    nearest = torch.cdist(h, means).argmin(1)
    expected = (nearest != network(h).argmax(1)).double().mean()
    assert float(found["0"][0]) == pytest.approx(float(expected), abs=1e-12)


class Counting(nn.Module):
    """Counts the samples that pass through the network."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.passed = [0]

    def forward(self, x):
        self.passed[0] += len(x)
        return self.network(x)


def test_a_resnet18_takes_two_forward_passes():
    inputs = torch.randn(60, 3, 8, 8, generator=generator())
    samples = Samples(inputs, torch.arange(60) % 3)
    network = Counting(build(ResNet18(width=4), (3, 8, 8), 3)).eval()
    layers = collapse_layers(network, samples.inputs, classes=3, largest=100)
    labellings = [samples.labels, samples.labels.flip(0)]
    found = _measured(network, layers, samples, labellings, _groups(samples.labels, 5))
    assert len(found.values["nc1"]) == 21  # 20 convolutions and the classifier
    assert network.passed[0] == 2 * 60 + 2  # two samples show which layers are used


def test_a_training_is_measured_at_its_steps(tmp_path):
    result = testing.check_probe(
        "neural-collapse",
        tmp_path,
        eval_steps=[0, 20, 60],
        permutations=5,
        training={"steps": 60, "batch": 30, "learning_rate": 0.3},
    )
    assert result.arrays["steps"].tolist() == [0, 20, 60]
    by_step = result.arrays["nc1-by-layer"][:, -1]
    assert by_step[2] < by_step[0]  # it learns to tell the classes apart
    nc1 = result.quantities["nc1"]
    assert nc1.value == by_step[2] and nc1.value < nc1.null
    assert result.figures and "NC1" in headline(result)


def test_a_module_of_the_users_own_is_measured_as_it_is():
    h, labels = features(separation=5.0)
    network = nn.Sequential(nn.Linear(D, C))
    result = penchant.measure(
        "neural-collapse",
        architecture=network,
        dataset=((h.float(), labels), (h.float(), labels)),
        permutations=2,
        dtype="float64",
    )
    expected = dense(h.float().double(), labels)
    assert result.quantities["nc1"].value == pytest.approx(expected["nc1"], rel=1e-9)


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (nn.Sequential(nn.Linear(D, C), nn.Tanh()), {}, "ends in a linear layer"),
        (nn.Linear(D, C), {"groups": 16}, "at most 15, the samples of the smallest class"),
    ],
)
def test_refusals_name_what_was_found(network, options, message):
    h, labels = features()
    data = ((h.float(), labels), (h.float(), labels))
    with pytest.raises(penchant.Error, match=message):
        penchant.measure("neural-collapse", architecture=network, dataset=data, **options)
