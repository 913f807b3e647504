"""The accuracy of a network of the user's, and what it says about her inputs."""

import pytest
import torch
from penchant.execution.job.chance import Accuracy, accuracy_of
from penchant_numerics.data import Samples
from torch import nn


def pictures(count=120):
    """Two classes that differ in the sign of one channel, about a mean that is far from 0."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    inputs = torch.randn(count, 2, 3, 3, generator=generator)
    inputs[:, 0] += 2.0 * (2 * labels - 1)[:, None, None]
    return Samples(20 + 3 * inputs, labels)


class Signs(nn.Module):
    """Right where channels have mean 0."""

    def forward(self, x):
        mean = x[:, 0].mean((1, 2))
        return torch.stack([-mean, mean], dim=1)


def test_weights_of_another_normalisation_are_noticed():
    samples = pictures()
    found = accuracy_of(Signs(), samples)
    right = (Signs()(samples.inputs).argmax(1) == samples.labels).float().mean()
    assert found.value == pytest.approx(float(right)) and found.samples == 120
    assert found.chance == 0.5
    assert found.value == pytest.approx(0.5, abs=0.1) and found.standardised > 0.95
    assert "of 120 training samples, and on " in found.warning
    assert found.warning.endswith("set standardize = true, or standardise your samples")
    # With the inputs it was trained on there is nothing to say.
    scaled = (samples.inputs - 20) / 3
    assert accuracy_of(Signs(), Samples(scaled, samples.labels)).warning == ""


def test_guessing_is_noticed_where_there_are_samples_enough():
    assert "guessing the most frequent class on 0.10" in Accuracy(0.12, 256, 0.1).warning
    assert Accuracy(0.12, 60, 0.1).warning == ""
    assert Accuracy(0.3, 256, 0.1).warning == ""
    # Standardised inputs that are better by chance only are not named.
    assert "standardised" not in Accuracy(0.80, 256, 0.1, 0.84).warning


def test_what_has_no_classes_has_no_accuracy():
    inputs = torch.randn(8, 4)
    assert accuracy_of(nn.Linear(4, 2), Samples(inputs, torch.randn(8, 2))) is None
    assert accuracy_of(nn.Linear(4, 2), Samples(inputs, torch.zeros(8, 3).long())) is None


def test_samples_are_taken_from_the_whole_split():
    """Sorted by class, the first 256 would be of one."""
    inputs = torch.eye(3).repeat_interleave(200, 0)
    labels = torch.arange(3).repeat_interleave(200)
    found = accuracy_of(nn.Identity(), Samples(inputs, labels))
    assert found.value == 1.0 and found.samples == 256
    assert found.chance == pytest.approx(1 / 3, abs=0.01)
