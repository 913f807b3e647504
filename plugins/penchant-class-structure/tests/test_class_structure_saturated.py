"""Samples that a network is sure of: their curvature is small, and it has components."""

import penchant
import pytest
import torch
from torch import nn


class Sure(nn.Module):
    """Logits that are a multiple of the first inputs."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.linear = nn.Linear(4, 3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(3, 4))
            self.linear.bias.zero_()

    def forward(self, x):
        return self.scale * self.linear(x)


@pytest.mark.parametrize("scale", [5.0, 12.0, 30.0])
def test_components_of_confident_samples_add_up_to_the_closed_form(scale):
    """Where p rounds to one, the weights of class means were a difference of equal numbers."""
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(30, 4, generator=generator), torch.arange(30) % 3
    inputs[torch.arange(30), labels] += 6
    p = (scale * inputs[:, :3].double()).softmax(1)
    # p (1 - p), without a difference from one
    H = torch.stack([p[:, c] * p[:, [d for d in range(3) if d != c]].sum(1) for c in range(3)])
    squares = inputs.double().square().sum(1) + 1
    expected = float((H.sum(0) * scale**2 * squares).mean())
    found = penchant.measure(
        "cross-class",
        architecture=Sure(scale),
        dataset=((inputs, labels), (inputs, labels)),
        permutations=3,
        figures=False,
        executor="serial",
    ).quantities
    assert found["trace-total"].value == pytest.approx(expected, rel=1e-5)
    parts = [found[f"trace-{name}"].value for name in ("class", "cross", "within", "diagonal")]
    assert sum(parts) == pytest.approx(expected, rel=1e-5)
    assert min(parts) >= 0 and found["trace-class"].value > 0.1 * expected
