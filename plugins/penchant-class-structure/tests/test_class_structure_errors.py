"""Standard errors over samples: against the jackknife by brute force, and against fresh samples."""

import math

import pytest
import torch
from penchant_class_structure.cross_class.component_quantities import (
    Components,
    _quantity,
    contributions_of,
)
from penchant_class_structure.shared import influence
from penchant_class_structure.shared.decomposition import Decomposition, WithoutComponent
from penchant_class_structure.shared.measured_network import loss_on, stderr_of
from penchant_class_structure.shared.sample_space import sample_space
from penchant_numerics.curvature import loss_function
from penchant_numerics.data import Samples
from penchant_numerics.linear_algebra import exact_pairs
from penchant_numerics.statistics import jackknife
from torch import nn

C, EACH = 3, 20


@pytest.fixture(scope="module")
def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, C)).double()


def drawn(seed, each=EACH):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(C * each) % C
    inputs = torch.randn(len(labels), 5, generator=generator, dtype=torch.float64)
    inputs[torch.arange(len(labels)), labels] += 2
    return inputs, labels


def statistics(space, labels):
    """Every number that has contributions: their values, and the contributions."""
    decomposition = Decomposition.of(space, labels)
    components = Components.of(decomposition)
    contributions = influence.of_components(decomposition, components.images, components.M)
    values = {name: components.trace(name) for name in ("class", "cross", "within", "diagonal")}
    for name, K in (
        ("largest", space.matrix),
        ("left", WithoutComponent(decomposition, "class").dense()),
    ):
        pairs = exact_pairs(K, 2, symmetrise=True)
        values[name] = float(pairs.values[0])
        contributions[name] = influence.of_eigenvalues(pairs.values, pairs.vectors, C)[0]
        if name == "largest":
            both = influence.of_eigenvalues(pairs.values, pairs.vectors, C)
            values["gap"] = float(pairs.values[0] / pairs.values[1])
            contributions["gap"] = influence.of_ratio(both[0], both[1])
    return values, contributions


def test_contributions_have_the_value_as_mean_and_the_jackknife_error(network):
    inputs, labels = drawn(0)
    space = sample_space(network, inputs, exact_limit=10**6)
    values, contributions = statistics(space, labels)
    replicates = {name: [] for name in values}
    for left_out in range(len(labels)):
        kept = torch.cat([torch.arange(left_out), torch.arange(left_out + 1, len(labels))])
        for name, value in statistics(space.select(kept), labels[kept])[0].items():
            replicates[name].append(value)
    for name, value in values.items():
        assert float(contributions[name].mean()) == pytest.approx(value, rel=1e-9), name
        # classes have their numbers of samples: what they differ in is no spread
        of_classes = [jackknife(replicates[name][label::C]) for label in range(C)]
        expected = math.hypot(*of_classes)
        found = stderr_of(contributions[name], labels)
        assert found == pytest.approx(expected, rel=0.15), name


def test_errors_are_those_of_fresh_samples(network):
    """Over 40 sets of samples the spread is what each set claims, within the spread's own error."""
    found, claimed = {}, {}
    for seed in range(40):
        inputs, labels = drawn(seed + 1)
        values, contributions = statistics(sample_space(network, inputs, exact_limit=10**6), labels)
        for name, value in values.items():
            found.setdefault(name, []).append(value)
            claimed.setdefault(name, []).append(stderr_of(contributions[name], labels))
    for name in found:
        spread = float(torch.tensor(found[name]).std())
        mean = float(torch.tensor(claimed[name]).mean())
        assert 0.6 < mean / spread < 1.7, (name, mean, spread)


def test_what_classes_differ_in_is_no_error():
    """Samples of a class are all alike, and classes far apart: other samples change nothing."""
    labels = torch.arange(12) % 3
    assert stderr_of(100.0 * labels, labels) == 0
    # one sample a class says nothing about its class
    assert stderr_of(100.0 * labels[:3], labels[:3]) > 10


def test_a_selection_is_the_space_of_fewer_samples(network):
    inputs, _ = drawn(0, each=5)
    kept = torch.tensor([0, 3, 4, 7, 8])
    some = sample_space(network, inputs, exact_limit=10**6).select(kept)
    alone = sample_space(network, inputs[kept], exact_limit=10**6)
    torch.testing.assert_close(some.matrix, alone.matrix)
    torch.testing.assert_close(some.traces, alone.traces)


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_null_of_a_loss_is_the_best_constant(loss, outputs):
    """Found by descent, for classes that differ in size."""
    labels = torch.tensor([0, 0, 0, 1, 1] if outputs == 1 else [0, 0, 0, 0, 1, 1, 2])
    samples = Samples(torch.zeros(len(labels), 2), labels)
    quantity = loss_on(nn.Linear(2, outputs), samples, loss)
    constant = torch.zeros(outputs, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([constant], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        value = loss_function(loss)(constant.expand(len(labels), outputs), labels)
        value.backward()
        return value

    optimizer.step(closure)
    assert quantity.null == pytest.approx(float(closure().detach()), rel=1e-6)


def test_more_of_the_same_samples_change_no_ratio(network):
    """Ratios to the bulk doubled with every sample doubled: they were no property of G."""
    inputs, labels = drawn(0)
    ratios = []
    for times in (1, 2):
        space = sample_space(network, inputs.repeat(times, 1), exact_limit=10**6)
        components = Components.of(Decomposition.of(space, labels.repeat(times)))
        ratios.append([components.ratio(name) for name in ("class", "cross")])
    assert ratios[1] == pytest.approx(ratios[0], rel=1e-9)


def test_permuted_classes_have_uniform_p_values(network):
    """The error over samples, which all permutations share, made their median 0.8 to 0.9."""
    inputs, labels = drawn(0)
    inputs = inputs - torch.nn.functional.one_hot(labels, 5) * 2
    space = sample_space(network, inputs, exact_limit=10**6)
    generator = torch.Generator().manual_seed(1)
    p = {"class": [], "cross": [], "within": []}
    for _ in range(40):
        made = []
        for _ in range(6):
            permuted = labels[torch.randperm(len(labels), generator=generator)]
            decomposition = Decomposition.of(space, permuted)
            made.append(Components.of(decomposition))
        contributions = contributions_of(made[0])
        for name, own in p.items():
            value, *draws = [each.trace(name) for each in made]
            own.append(_quantity(value, contributions[name], draws, labels).null_p_value)
    for name, own in p.items():
        # the median of 40 uniform numbers has a standard deviation of 0.08
        assert 0.26 < sorted(own)[20] < 0.74, name
        assert sum(each <= 0.01 for each in own) <= 3, name
