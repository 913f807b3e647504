"""Small classifiers of real samples, trained in the run to judge what is generated."""

from __future__ import annotations

from collections.abc import Callable

import torch
from penchant_numerics.training import outputs
from torch import Tensor, nn
from torch.nn import functional

Classify = Callable[[Tensor], Tensor]  # samples -> class of each


def train_classifier(
    network: nn.Module,
    batch: Callable[[], tuple[Tensor, Tensor]],
    *,
    steps: int,
    learning_rate: float,
) -> nn.Module:
    """Train in place on batches (inputs, labels), as `batch` gives them; then evaluation mode."""
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    for _ in range(steps):
        # The caller draws batches, from its own stream.
        inputs, labels = batch()
        loss = functional.cross_entropy(network(inputs), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return network.eval()


def classify_with(network: nn.Module, *, chunk: int) -> Classify:
    """The class that a network gives each sample."""

    def classify(samples: Tensor) -> Tensor:
        return outputs(network, samples, chunk=chunk).argmax(1)

    return classify
