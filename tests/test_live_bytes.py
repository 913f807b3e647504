"""Live bytes: what a computation holds, and held at most."""

import torch
from penchant_numerics.live_bytes import LiveBytes
from torch import nn


def test_what_autograd_keeps_is_counted_and_goes_with_the_graph():
    network = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 5))
    x = torch.ones(10, 30, device="cpu")
    with LiveBytes(peaks=True) as live:
        y = network(x)
    assert live.alive() == 4 * (10 * 40 + 10 * 5)  # the activation and the output
    del y
    assert live.alive() == 0
    assert live.peak >= 4 * (10 * 40 + 10 * 5)


def test_views_and_older_tensors_are_not_counted():
    older = torch.ones(100, device="cpu")
    with LiveBytes() as live:
        view = older.view(10, 10)
        older.add_(1)
    assert live.alive() == 0
    assert view.shape == (10, 10)
