"""On which samples a network is right."""

from __future__ import annotations

from penchant_numerics.data import Samples
from penchant_numerics.training import outputs, predictions
from torch import Tensor, nn


def right_answers(network: nn.Module, samples: Samples) -> Tensor:
    """Whether the network, in the mode it is in, is right on each sample (samples,)."""
    predicted = predictions(outputs(network, samples.inputs))
    return predicted == samples.labels
