"""`penchant_numerics.data.label_kinds`, and what follows from it: accuracies, chosen directions."""

import pytest
import torch
from penchant_numerics import Refusal
from penchant_numerics.data import Samples, kind_of
from penchant_numerics.roles import chosen_indices, refuse_zero
from penchant_numerics.training import accuracy_numbers, right_answers

CLASSES = torch.tensor([2, 0, 2, 2, 1])
POSITIONS = torch.tensor([[1, 1, -100], [0, 1, 1], [2, -100, -100]])


def test_one_label_per_sample():
    kind = kind_of(CLASSES)
    assert (kind.units, kind.by_position, kind.positions) == ("samples", False, 1)
    assert kind.counts.tolist() == [1] * 5
    assert kind.commonest == 3 / 5
    assert torch.equal(kind.contributions(CLASSES), CLASSES)


def test_one_label_per_position():
    kind = kind_of(POSITIONS)
    assert (kind.units, kind.by_position, kind.positions) == ("sequences", True, 3)
    assert kind.counts.tolist() == [2, 3, 1]
    assert sorted(kind.known.tolist()) == [0, 1, 1, 1, 1, 2]
    assert kind.commonest == 4 / 6


def test_contributions_of_sequences_are_the_derivative_in_their_weights():
    """The mean over positions is a ratio of sums over sequences; to first order in their weights."""
    each = torch.tensor([0.3, 1.2, 0.7], dtype=torch.float64)  # means over positions
    counts = kind_of(POSITIONS).counts.double()
    weights = torch.ones(3, dtype=torch.float64, requires_grad=True)
    ratio = (weights * each * counts).sum() / (weights * counts).sum()
    (slope,) = torch.autograd.grad(ratio, weights)
    values = each * counts * 3 / counts.sum()  # whose mean is the ratio
    found = kind_of(POSITIONS).contributions(values)
    torch.testing.assert_close(found, ratio.detach() + 3 * slope)


def test_numbers_are_samples_and_without_labels_too():
    assert kind_of(torch.rand(4, 2)).units == kind_of(None).units == "samples"


def test_the_accuracy_of_one_network():
    samples = Samples(torch.eye(3)[CLASSES.clamp(max=1)], CLASSES)
    right = right_answers(lambda x: x, samples)
    assert right.tolist() == [False, True, False, False, True]
    numbers = accuracy_numbers(float(right.double().mean()), samples)
    assert (numbers["value"], numbers["over"], numbers["count"]) == (0.4, "samples", 5)
    assert numbers["null"] == 0.6
    fewer = accuracy_numbers(0.4, samples, answers=2)
    assert fewer["stderr"] > numbers["stderr"] > 0


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "at least one direction, found none"),
        ([7], "the basis has 5 directions, found index 7; more networks"),
        ([-7], "the basis has 5 directions, found index -7"),
        ([1, -4], r"indices must differ, found \[1, -4\]"),
    ],
)
def test_directions_that_are_not_there_are_refused(indices, message):
    with pytest.raises(Refusal, match=message):
        chosen_indices(indices, 5, of="the basis", hint="; more networks")


def test_directions_of_a_moment_that_is_zero_are_refused():
    refuse_zero(torch.tensor([0.0, 1e-30]), 2)
    with pytest.raises(Refusal, match="by each of 2 inputs is exactly zero"):
        refuse_zero(torch.zeros(2), 2)
