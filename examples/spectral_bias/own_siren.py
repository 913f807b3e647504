"""The spectral bias of a SIREN: which frequencies of a function in the plane does it learn first?

A SIREN multiplies its inputs by a first frequency. Large ones are said to free it of spectral bias.
Controls: a small first frequency, and the same values in random order, in which no frequency is
smoother than another. About a minute on one core; `--quick` takes a shorter training.
"""

import math
import sys
import tempfile
from pathlib import Path

import penchant
import torch
from penchant_numerics.pictures import captioned, palette
from penchant_numerics.pictures.pictures import Figure
from torch import nn

QUICK = "--quick" in sys.argv
BANDS = (2, 4, 6, 8, 10, 12)
STEPS = (0, 10, 20, 40) if QUICK else (0, 10, 20, 40, 80, 160, 320)
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


def draw(results):
    """Learnt shares along each training, a line for each frequency."""
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True)
    for panel, (name, result) in zip(panels, results.items()):
        shares = result.arrays["learnt-share"].T
        for band, values, colour in zip(BANDS, shares, palette(len(BANDS))):
            panel.plot(values, "o-", color=colour, markersize=3, label=f"{band}")
        panel.axhline(1, color="0.7", linestyle=":")
        panel.set(xlabel="step of training", title=name)
        panel.set_xticks(range(len(STEPS)), STEPS, fontsize=8)
    panels[0].set_ylabel("learnt share of the wave")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, title="frequency", loc="outside right upper", frameon=False)
    caption = "Slow waves come first; of values in random order no wave is learnt."
    return captioned(figure, caption, title="Which waves a SIREN learns first")


if __name__ == "__main__":
    torch.set_num_threads(1)
    results = {}
    for name, given in {
        "first frequency 30": {"first_frequency": 30.0},
        "first frequency 3": {"first_frequency": 3.0},
        "30, shuffled target": {"first_frequency": 30.0, "shuffled": True},
    }.items():
        results[name] = result = measure(**given)
        shares = ", ".join(f"{share:.2f}" for share in result.arrays["learnt-share"][-1])
        print(f"{name}: {result.quantities['rank-correlation']}; shares at the end {shares}")
        print(f"    loss {result.quantities['final-loss']}")
    draw(results).savefig("own_siren.png", bbox_inches="tight", dpi=150)
    print("own_siren.png")
