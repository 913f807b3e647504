"""Sequences with a label at every position along a training, against plain autograd."""

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.data import Samples
from penchant_tangent.shared.training_samples import with_random_labels
from penchant_tangent.tangent_training.probe import independent_answers, kernel_numbers
from torch import nn
from torch.nn import functional

IGNORED = -100
TAGGER = {"name": "import", "factory": testing.tiny.TAGGER}


def unequal(generator):
    """Sequences of which some positions have no label."""
    (train, labels), (test, truth) = testing.tiny.tiny_sequences(generator)
    labels, truth = labels.clone(), truth.clone()
    labels[::2, 3:] = IGNORED
    truth[::3, 1:] = IGNORED
    return (train, labels), (test, truth)


DATA = {"name": "import", "factory": unequal}


def kernel_by_hand(network, samples):
    """Inner products of the gradients of each sequence's loss, and the losses."""
    counted = int((samples.labels != IGNORED).sum())
    rows, losses = [], []
    for tokens, labels in zip(*samples):
        loss = functional.cross_entropy(
            network(tokens[None])[0], labels, ignore_index=IGNORED, reduction="sum"
        )
        loss = loss * len(samples.labels) / counted
        gradient = torch.autograd.grad(loss, list(network.parameters()))
        rows.append(torch.cat([each.flatten() for each in gradient]))
        losses.append(loss.detach())
    g = torch.stack(rows)
    return g @ g.T, torch.stack(losses)


def test_the_kernel_is_that_of_the_gradients_of_sequence_losses(tmp_path):
    context = testing.context(
        "tangent-training", tmp_path, architecture=TAGGER, dataset=DATA, ratios=[3]
    )
    network = context.network().double()
    batch = context.data.train.select(slice(0, 12))
    found = kernel_numbers(network, batch, context)
    K, losses = kernel_by_hand(network, batch)
    centring = torch.eye(12, dtype=torch.float64, device="cpu") - 1 / 12
    C = centring @ K @ centring
    values = torch.linalg.eigvalsh(C).flip(0).clamp(min=0)
    shares = values / values.sum()
    rank = torch.special.entr(shares).sum().exp()
    assert found["effective-rank"] == pytest.approx(float(rank), rel=1e-6)
    assert found["largest-eigenvalue"] == pytest.approx(float(values[0]), rel=1e-9)
    assert found["trace-ratios"][0] == pytest.approx(float(shares[:3].sum()), rel=1e-9)
    goal = centring @ losses
    cka = goal @ C @ goal / (C.norm() * goal @ goal)
    assert found["cka"] == pytest.approx(float(cka), rel=1e-6)


def test_a_training_and_a_trajectory_of_sequences_are_followed(tmp_path):
    options = {"samples": 12, "trainings": 2, "ratios": [3]}
    trained = penchant.measure(
        "tangent-training",
        architecture=TAGGER,
        dataset=DATA,
        training={"steps": 4, "learning_rate": 0.3},
        evaluations=2,
        noise_shares=[0.0, 0.5],
        **options,
    )
    assert trained.quantities["effective-rank-initial-0"].null == pytest.approx(11.0)
    assert "loss gradients" in trained.conventions["outputs"]
    assert not trained.warnings or "not declared" not in " ".join(trained.warnings)
    context = testing.context("tangent-training", tmp_path, architecture=TAGGER, dataset=DATA)
    files = []
    for step in (0, 7):
        path = tmp_path / f"step-{step}.pt"
        torch.save(context.network(step).state_dict(), path)
        files.append(str(path))
    followed = penchant.measure(
        "tangent-training", architecture={**TAGGER, "weights": files}, dataset=DATA, **options
    )
    assert followed.arrays["steps"].tolist() == [0, 7]
    assert followed.quantities["test-accuracy-0"].over == "sequences"


class Said(nn.Module):
    """Says class 1 where a position of the input is 1."""

    def forward(self, x):
        return functional.one_hot(x, 2).float()


@pytest.mark.parametrize(("together", "worth"), [(True, 400), (False, 2000)])
def test_positions_are_worth_as_many_answers_as_they_are_independent(together, worth):
    draws = torch.Generator("cpu").manual_seed(0)
    width = 1 if together else 5
    right = torch.rand(400, width, generator=draws, device="cpu") < 0.7
    samples = Samples(right.long().expand(400, 5), torch.ones(400, 5, dtype=int, device="cpu"))
    found = independent_answers(Said(), samples)
    assert found == pytest.approx(worth, rel=0.15)


def test_random_labels_leave_positions_without_a_label_alone():
    labels = torch.zeros(200, 10, dtype=torch.int64, device="cpu")
    labels[:, 6:] = IGNORED
    draws = torch.Generator("cpu").manual_seed(0)
    noisy = with_random_labels(labels, 0.5, classes=4, generator=draws)
    assert bool((noisy[:, 6:] == IGNORED).all())
    # half of the positions are drawn anew, a quarter of these to the same class
    assert float((noisy[:, :6] != 0).double().mean()) == pytest.approx(3 / 8, abs=0.05)
