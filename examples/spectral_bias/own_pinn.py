"""The spectral bias of a physics-informed network: -u'' = f on [0, 1], with u = 0 at both ends.

The residual of a wave of frequency k has the factor k^2, so that this loss weights fast waves by
k^4. Control: the same network that learns the solution itself, by regression. A minute on one core;
`--quick` takes a shorter training.
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
BANDS = (1, 2, 3, 4, 5)
STEPS = (0, 50, 100, 200) if QUICK else (0, 50, 100, 200, 400, 800, 1600)
POINTS = 128


class Solution(nn.Module):
    """A network that is 0 at both ends."""

    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return x * (1 - x) * self.body(4 * x - 2)


def exact(points):
    """The solution: every frequency with the same amplitude."""
    return sum(torch.sin(2 * math.pi * k * points[:, 0]) for k in BANDS)


def forcing(points):
    """-u'' of the exact solution."""
    return sum((2 * math.pi * k) ** 2 * torch.sin(2 * math.pi * k * points[:, 0]) for k in BANDS)


def residual(network, points):
    """-u'' - f, over the size of f."""
    points = points.requires_grad_()
    u = network(points)
    (slope,) = torch.autograd.grad(u.sum(), points, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), points, create_graph=True)
    return (-bend[:, 0] - forcing(points)) / (2 * math.pi * BANDS[-1]) ** 2


def train(network, folder, *, physics):
    """Checkpoints of a training by the equation, or by regression on its solution."""
    points = (torch.arange(POINTS) / POINTS)[:, None]
    adam = torch.optim.Adam(network.parameters(), lr=2e-3)
    files = []
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            files.append(str(Path(folder) / f"step-{step}.pt"))
            torch.save(network.state_dict(), files[-1])
        off = residual(network, points) if physics else network(points)[:, 0] - exact(points)
        adam.zero_grad()
        off.square().mean().backward()
        adam.step()
    return files


def measure(*, physics, seed=0):
    """What `frequency-learning` says of one training."""
    torch.manual_seed(seed)
    network = Solution()
    with tempfile.TemporaryDirectory() as folder:
        files = train(network, folder, physics=physics)
        return penchant.measure(
            "frequency-learning",
            architecture=Solution(),
            weights=files,
            shape=(1,),
            frequencies=BANDS,
            grid_points=POINTS,
            window="none",
            target_function=exact,
            seed=seed,
        )


def draw(results):
    """Learnt shares along both trainings, and what each has learnt in the end."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    *panels, last = figure.subplots(1, len(results) + 1)
    x = torch.arange(POINTS) / POINTS
    last.plot(x, exact(x[:, None]), color="0.7", linewidth=2.5, label="solution")
    for panel, (name, result) in zip(panels, results.items()):
        shares = result.arrays["learnt-share"].T
        for band, values, colour in zip(BANDS, shares, palette(len(BANDS))):
            panel.plot(values, "o-", color=colour, markersize=3, label=f"{band}")
        panel.axhline(1, color="0.7", linestyle=":")
        panel.set(xlabel="step of training", title=name, ylabel="learnt share of the wave")
        panel.set_xticks(range(len(STEPS)), STEPS, fontsize=8)
        panel.set_ylim(-0.1, 1.55)
        last.plot(x, result.arrays["prediction"][-1].reshape(POINTS), linewidth=1, label=name)
    panels[1].legend(title="frequency", frameon=False, fontsize=8, loc="upper left", ncols=3)
    last.set(xlabel="x", ylabel="u(x)", title="at the end")
    last.legend(frameon=False, fontsize=8)
    caption = "By regression slow waves come first; the equation weights fast ones by k^4."
    return captioned(figure, caption, title="Which waves a physics-informed network learns first")


if __name__ == "__main__":
    torch.set_num_threads(1)
    results = {}
    for name, physics in {"by the equation": True, "by regression": False}.items():
        results[name] = result = measure(physics=physics)
        print(f"{name}: {result.quantities['rank-correlation']}")
        for step, row in zip(result.arrays["steps"], result.arrays["learnt-share"]):
            print(f"    step {step}: shares", ", ".join(f"{share:.2f}" for share in row))
        print(f"    loss {result.quantities['final-loss']}")
    draw(results).savefig("own_pinn.png", bbox_inches="tight", dpi=150)
    print("own_pinn.png")
