"""The spectral bias of a SIREN: which frequencies of a function in the plane does it learn first?

A SIREN multiplies its inputs by a first frequency. Large ones are said to free it of spectral bias.
Controls: a small first frequency, and the same values in random order, in which no frequency is
smoother than another. About a minute on one core.
"""

import math
import tempfile
from pathlib import Path

import penchant
import torch
from torch import nn

BANDS = (2, 4, 6, 8, 10, 12)
STEPS = (0, 10, 20, 40, 80, 160, 320)
POINTS = 40  # along each axis


class Siren(nn.Module):
    """Sines of linear layers, as in Sitzmann et al., NeurIPS 2020."""

    def __init__(self, first_frequency=30.0, width=64):
        super().__init__()
        self.first_frequency = first_frequency
        self.layers = nn.ModuleList([nn.Linear(2, width)])
        self.layers.extend([nn.Linear(width, width), nn.Linear(width, width)])
        self.last = nn.Linear(width, 1)
        for number, layer in enumerate([*self.layers, self.last]):
            bound = 1 / 2 if number == 0 else math.sqrt(6 / width) / 30
            nn.init.uniform_(layer.weight, -bound, bound)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.sin((30.0 if number else self.first_frequency) * layer(x))
        return self.last(x)


def target(points):
    """One wave of each frequency, in directions of the golden angle."""
    total = 0
    for number, band in enumerate(BANDS):
        angle = number * math.pi * (3 - math.sqrt(5))
        k = (round(band * math.cos(angle)), round(band * math.sin(angle)))
        total = total + torch.sin(
            2 * math.pi * (points[:, 0] * k[0] + points[:, 1] * k[1]) + number
        )
    return total


def train(network, folder, *, shuffled=False):
    """Checkpoints of a training on a grid, full batch."""
    ticks = torch.arange(POINTS) / POINTS
    points = torch.cartesian_prod(ticks, ticks)
    values = target(points)
    if shuffled:
        values = values[torch.randperm(len(values))]
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    files = []
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            files.append(str(Path(folder) / f"step-{step}.pt"))
            torch.save(network.state_dict(), files[-1])
        loss = (network(points)[:, 0] - values).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return files


def measure(first_frequency, *, shuffled=False, seed=0, probe="frequency-learning", **options):
    """What a probe says of one training."""
    torch.manual_seed(seed)
    network = Siren(first_frequency)
    with tempfile.TemporaryDirectory() as folder:
        files = train(network, folder, shuffled=shuffled)
        return penchant.measure(
            probe,
            architecture=Siren(first_frequency),
            weights=files if probe == "frequency-learning" else files[-1],
            shape=(2,),
            frequencies=BANDS,
            grid_points=POINTS,
            window="none",
            target_function=target,
            seed=seed,
            **options,
        )


if __name__ == "__main__":
    for name, given in {
        "first frequency 30": {"first_frequency": 30.0},
        "first frequency 3": {"first_frequency": 3.0},
        "30, shuffled target": {"first_frequency": 30.0, "shuffled": True},
    }.items():
        result = measure(**given)
        shares = ", ".join(f"{share:.2f}" for share in result.arrays["learnt-share"][-1])
        print(f"{name}: {result.quantities['rank-correlation']}; shares at the end {shares}")
        print(f"    loss {result.quantities['final-loss']}")
