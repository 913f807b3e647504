"""The probe `complexity` and its measures against closed forms and dense gradients."""

import math

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.data import Samples
from penchant_numerics.layers import tangent_kernel
from penchant_numerics.training import Trainer
from penchant_tangent.complexity.complexity_measures import (
    PathLength,
    fisher_rao,
    margin,
    path_norm,
    spectral_product,
    spectral_stable_rank,
)
from penchant_tangent.complexity.probe import of_width, run, train_and_measure
from torch import nn

DOUBLE = torch.float64


def drawn_network(*layers):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(*(layer() for layer in layers)).double()


def some_samples(count=12, seed=1):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 3, generator=generator, dtype=DOUBLE)
    return Samples(inputs, torch.arange(count) % 2)


def test_the_path_of_a_linear_model_is_its_length_times_the_root_of_the_trace():
    network = drawn_network(lambda: nn.Linear(3, 2))
    samples = some_samples()
    trace = float(tangent_kernel(network, samples.inputs).trace())
    way = PathLength(network, samples.inputs, eval_every=2)
    recipe = penchant.Training(steps=5, batch=4, learning_rate=0.3)
    places = [torch.cat([p.detach().flatten() for p in network.parameters()])]
    trainer = Trainer(network, samples, recipe, seed=0)

    def observe(step, loss):
        way.observe(step, loss)
        places.append(torch.cat([p.detach().flatten() for p in network.parameters()]).clone())

    trainer.run(observe=observe)
    length = sum(float((b - a).norm()) for a, b in zip(places, places[1:]))
    assert way.total == pytest.approx(length * math.sqrt(trace), rel=1e-9)


def test_the_trace_is_taken_anew_where_the_kernel_changes():
    samples = some_samples()
    totals = []
    for eval_every in (1, 100):
        again = drawn_network(lambda: nn.Linear(3, 4), nn.ReLU, lambda: nn.Linear(4, 2))
        way = PathLength(again, samples.inputs, eval_every=eval_every)
        recipe = penchant.Training(steps=8, batch=0, learning_rate=0.5)
        Trainer(again, samples, recipe, seed=0).run(observe=way.observe)
        totals.append(way.total)
    assert totals[0] != pytest.approx(totals[1], rel=1e-3)


def test_norms_of_two_layers_have_their_closed_forms():
    network = drawn_network(
        lambda: nn.Linear(3, 4, bias=False), nn.ReLU, lambda: nn.Linear(4, 2, bias=False)
    )
    first, second = (parameter.detach() for parameter in network.parameters())
    paths = second.square() @ first.square()
    assert path_norm(network, (3,)) == pytest.approx(math.sqrt(float(paths.sum())))
    values = [float(torch.linalg.svdvals(each)[0]) for each in (first, second)]
    assert spectral_product(network) == pytest.approx(values[0] * values[1])
    ranks = [
        float(each.square().sum()) / largest**2 for each, largest in zip((first, second), values)
    ]
    expected = values[0] * values[1] * math.sqrt(sum(ranks))
    assert spectral_stable_rank(network) == pytest.approx(expected)
    # a matrix of rank one has the stable rank 1
    for parameter in network.parameters():
        parameter.data = torch.ones_like(parameter)
    product = math.sqrt(3 * 4) * math.sqrt(4 * 2)
    assert spectral_stable_rank(network) == pytest.approx(product * math.sqrt(2))


def test_the_fisher_rao_norm_is_that_of_dense_gradients():
    network = drawn_network(lambda: nn.Linear(3, 4), nn.Tanh, lambda: nn.Linear(4, 2))
    samples = some_samples(count=5)
    squares = []
    for inputs, label in zip(samples.inputs, samples.labels):
        loss = nn.functional.cross_entropy(network(inputs[None]), label[None])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        pairs = zip(network.parameters(), gradients)
        products = [float((w.detach() * g).sum()) for w, g in pairs]
        squares.append(sum(products) ** 2)
    expected = math.sqrt(sum(squares) / len(squares))
    assert fisher_rao(network, samples) == pytest.approx(expected, rel=1e-9)


def test_the_margin_is_over_the_largest_other_output():
    outputs = torch.tensor([[5.0, 1.0, 4.0], [0.0, 3.0, 1.0], [1.0, 1.5, 1.0]])
    labels = torch.tensor([0, 1, 0])
    assert margin(outputs, labels, share=0.0) == -0.5
    assert margin(outputs, labels, share=1.0) == 2


def test_widths_replace_all_hidden_layers_or_the_width():
    mlp = testing.architecture("mlp:widths=[5,6]", shape=(2,)).component
    assert of_width(mlp, 3).widths == (3, 3)
    vgg = testing.architecture("vgg19", shape=(3, 32, 32)).component
    assert of_width(vgg, 8).width == 8


SMALL = {
    "architecture": "mlp:widths=[4]",
    "widths": [2, 4, 8],
    "trainings": 2,
    "samples": 4,
    "eval_every": 3,
    "training": {"steps": 3, "batch": 16, "learning_rate": 0.3},
}


def test_the_gap_is_training_minus_test_accuracy_and_unfinished_trainings_are_named(tmp_path):
    training = {**SMALL["training"], "until_loss": 0.001}
    context = testing.context("complexity", tmp_path, **{**SMALL, "training": training})
    result = run(context.options, context)
    arrays = result.arrays
    assert arrays["gap"] == pytest.approx(arrays["train-accuracy"] - arrays["test-accuracy"])
    assert any("ended before their loss reached 0.001" in text for text in context.warnings)
    # of the 720 orders of six settings two are as far as a correlation of 1
    for found in result.quantities.values():
        assert found.count == 6
        assert 2 / 720 <= found.p <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": [4]}, "3 or more settings"),
        ({"architecture": "logistic"}, "'logistic' has neither"),
        ({"training": {"learning_rates": [0.1]}}, "no sweep of learning rates"),
        ({"training": {"loss": "squared-error"}}, "cross-entropy"),
    ],
)
def test_settings_that_cannot_be_compared_are_refused(options, message, tmp_path):
    with pytest.raises(penchant.Error, match=message):
        context = testing.context("complexity", tmp_path, **{**SMALL, **options})
        run(context.options, context)


def test_the_measure_of_neyshabur_et_al_has_its_margin():
    """Its bound is the product of norms and ranks over the margin: larger where that is larger."""
    training = {"steps": 60, "batch": 0, "learning_rate": 0.3}
    context = testing.context("complexity", **{**SMALL, "training": training})
    widths = context.options.widths
    rows = [
        train_and_measure(context, {"width": width, "share": 0.0, "training": 0})
        for width in widths
    ]
    fitted = [row for row in rows if row["margin"] < 0]  # minus the margin
    assert len(fitted) >= 2
    for row in rows:
        assert row["spectral-margin"] == pytest.approx(row["margin"] / row["spectral-stable-rank"])
    by_bound = sorted(fitted, key=lambda row: row["spectral-stable-rank"] / -row["margin"])
    assert by_bound == sorted(fitted, key=lambda row: row["spectral-margin"])
