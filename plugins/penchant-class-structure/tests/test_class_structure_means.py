"""Class and cross-class means of extended gradients against their definition, sample by sample, in double precision."""
# ruff: noqa: T201 (the numbers are shown with -s)

import pytest
import torch
from penchant_class_structure.shared import class_means
from penchant_class_structure.shared.class_means import cross_class_weights, mean_gradients
from penchant_numerics.device import memory
from penchant_numerics.jacobians import Outputs
from torch import nn
from torch.func import functional_call, jacrev

CLASSES = 4


def problem(counts=(9, 2, 5, 7), seed=0):
    """A network, inputs and labels with classes of unequal size, shuffled."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = (
            nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, CLASSES))
            .double()
            .eval()
        )
        network[1].running_mean.uniform_(-1, 1)
        labels = torch.repeat_interleave(torch.arange(CLASSES), torch.tensor(counts))
        labels = labels[torch.randperm(len(labels))]
        return (
            network,
            torch.randn(len(labels), 5, dtype=torch.float64) + labels[:, None] / 2,
            labels,
        )


def extended_gradients(network, x):
    """g_{i,c'} (n, C, parameters) by definition, and the probabilities."""
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    columns = jacrev(lambda values: functional_call(network, values, (x,)))(parameters)
    J = torch.cat([each.reshape(len(x), CLASSES, -1) for each in columns.values()], dim=2)
    p = network(x).detach().softmax(1)
    return torch.einsum("nyq,ncy->ncq", J, p[:, None] - torch.eye(CLASSES, dtype=torch.float64)), p


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("counts", [(9, 2, 5, 7), (4, 4, 4, 4), (1, 1, 1, 1)])
def test_means_are_weighted_means_of_extended_gradients(counts, batch):
    network, x, y = problem(counts)
    g, p = extended_gradients(network, x)
    weights = cross_class_weights(network(x).detach(), y)
    for c, rows in mean_gradients(network, x, y, batch=batch):
        own = y == c
        share = p[own] / len(y)
        torch.testing.assert_close(weights.pairs[c], share.sum(0))
        expected = torch.einsum("nc,ncq->cq", share / share.sum(0), g[own])
        torch.testing.assert_close(rows, expected, rtol=1e-10, atol=1e-12)


def test_the_mean_of_the_own_class_is_minus_the_class_mean():
    network, x, y = problem()
    g, p = extended_gradients(network, x)
    weights = cross_class_weights(network(x).detach(), y)
    largest = 0.0
    for c, rows in mean_gradients(network, x, y):
        others = [k for k in range(CLASSES) if k != c]
        weighted = (weights.pairs[c, others, None] * rows[others]).sum(0)  # w_c g_c
        own = (p[y == c, c, None] * g[y == c, c]).sum(0) / len(y)  # w_cc g_cc, by definition
        largest = max(largest, float((own + weighted).abs().max()))
        torch.testing.assert_close(
            (weights.across()[c, :, None] * rows).sum(0) * weights.classes[c], weighted
        )
    print(f"w_cc g_cc + w_c g_c: {largest:.1e}")
    assert largest < 1e-10


def test_weights_add_up():
    network, x, y = problem()
    weights = cross_class_weights(network(x).detach(), y)
    assert float(weights.pairs.sum()) == pytest.approx(1)
    torch.testing.assert_close(
        weights.pairs.sum(1), torch.tensor([9, 2, 5, 7], dtype=torch.float64) / 23
    )
    per_pair = torch.zeros(CLASSES, CLASSES, dtype=torch.float64).index_add(0, y, weights.within())
    torch.testing.assert_close(per_pair, torch.ones(CLASSES, CLASSES, dtype=torch.float64))
    torch.testing.assert_close(weights.across().sum(1), torch.ones(CLASSES, dtype=torch.float64))


def test_probabilities_that_vanish_make_means_of_zero_not_of_nan():
    outputs = torch.tensor([[0.0, -5e3], [-5e3, 0.0]])
    weights = cross_class_weights(outputs, torch.tensor([0, 1]))
    assert torch.isfinite(weights.within()).all()
    assert torch.isfinite(weights.across()).all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3], "found 3 outputs and labels to 3"),
        ([0, 2, 2], "every class needs a sample, found none of class 1"),
    ],
)
def test_classes_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        cross_class_weights(torch.zeros(3, 3), torch.tensor(labels))


def test_a_class_costs_one_forward_pass_over_its_samples():
    network, x, y = problem()
    seen = []
    handle = network[0].register_forward_hook(lambda module, given, made: seen.append(len(made)))
    weights = cross_class_weights(network(x).detach(), y)
    seen.clear()
    # without a batch, three samples more tell what one takes
    list(mean_gradients(network, x, y, weights=weights, batch=128))
    handle.remove()
    assert sum(seen) == len(x)


def test_a_device_that_runs_out_of_memory_passes_fewer_samples_from_then_on(monkeypatch):
    network, x, y = problem((9, 5, 7, 8))
    expected = dict(mean_gradients(network, x, y))
    passed = []
    before = class_means.pulled_back

    def limited(*args, batch):
        passed.append(batch)
        if batch > 3:
            raise torch.OutOfMemoryError("no room")
        before(*args, batch=batch)

    monkeypatch.setattr(class_means, "pulled_back", limited)
    with pytest.warns(memory.MemoryWarning, match="samples per pass of class means"):
        found = dict(mean_gradients(network, x, y, batch=128))
    assert passed == [9, 4, 2, 2, 2, 2], "other classes do not try again"
    for c, rows in expected.items():
        torch.testing.assert_close(found[c], rows, rtol=1e-10, atol=1e-12)


def test_outputs_are_passed_in_smaller_batches_where_memory_is_short(monkeypatch):
    network, x, _ = problem()
    outputs = Outputs(network)
    expected = class_means.network_outputs(outputs, x)
    before = Outputs.__call__

    def limited(self, values, inputs):
        if len(inputs) > 6:
            raise torch.OutOfMemoryError("no room")
        return before(self, values, inputs)

    monkeypatch.setattr(Outputs, "__call__", limited)
    with pytest.warns(memory.MemoryWarning, match="samples per pass of outputs"):
        found = class_means.network_outputs(outputs, x, batch=23)
    torch.testing.assert_close(found, expected)


def test_passes_follow_the_budget():
    network, x, y = problem((9, 5, 7, 8))
    seen = []
    network.register_forward_hook(lambda module, given, made: seen.append(len(made)))
    weights = cross_class_weights(network(x).detach(), y)
    with memory.budget(12_000):
        seen.clear()
        found = dict(mean_gradients(network, x, y, weights=weights))
    assert 1 < max(seen) < 7
    for c, rows in mean_gradients(network, x, y, batch=128):
        torch.testing.assert_close(found[c], rows, rtol=1e-10, atol=1e-12)
