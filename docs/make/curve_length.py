"""Do petals make waves easier to learn, or does the length of the curve?

`python docs/make/curve_length.py FOLDER` writes `table.json`; the gallery shows it. A flower of
eight petals is longer than the unit circle, and what is learnt along a longer curve is learnt more
easily, whatever it is. So the same networks learn the same waves along the circle, the flower and a
circle as long as the flower. The control learns values in random order.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import torch
from penchant_numerics.statistics import mean_and_stderr
from penchant_synthetic.datasets.flower import curve
from torch import Tensor, nn

PETALS = 8
SEED = 740
CURVES = ("circle", "flower", "long-circle")


@attrs.frozen
class Task:
    """What is learnt along a curve, by as many networks as there are phases."""

    samples: int
    steps: int
    trainings: int
    frequencies: tuple[tuple[int, ...], ...]  # one target each
    is_binary: bool


LOSS = Task(128, 1000, 8, ((4, 8, 12, 16, 20, 24),), is_binary=False)
ACCURACY = Task(200, 300, 8, ((20,), (40,)), is_binary=True)


def points(name: str, samples: int) -> Tensor:
    """Samples of a curve (samples, 2)."""
    positions = torch.arange(samples, dtype=torch.float64, device="cpu") / samples
    if name == "flower":
        return curve(positions, PETALS).float()
    radius = length(PETALS) / length(0) if name == "long-circle" else 1.0
    return (radius * curve(positions, 0)).float()


def length(petals: int) -> float:
    """The length of a flower, by a polygon of many sides."""
    closed = curve(torch.linspace(0, 1, 100_001, dtype=torch.float64, device="cpu"), petals)
    return float((closed[1:] - closed[:-1]).norm(dim=1).sum())


def target(task: Task, frequencies: tuple[int, ...], training: int, *, permuted: bool) -> Tensor:
    """Waves of random phases, as values or as classes; `permuted` puts them in random order."""
    generator = torch.Generator("cpu").manual_seed(1000 * SEED + training)
    phases = 2 * math.pi * torch.rand(len(frequencies), generator=generator, device="cpu")
    positions = torch.arange(task.samples, device="cpu") / task.samples
    angles = 2 * math.pi * torch.tensor(frequencies, device="cpu") * positions[:, None] + phases
    values = torch.sin(angles).sum(1)
    if task.is_binary:
        values = (values > 0).float()
    if permuted:
        values = values[torch.randperm(task.samples, generator=generator, device="cpu")]
    return values


def learnt(task: Task, inputs: Tensor, values: Tensor, training: int) -> float:
    """The final loss of a new network, or its share of right classes; on training samples."""
    torch.manual_seed(1000 * SEED + training)
    widths = (2, 128, 128, 128, 128, 128)
    layers: list[nn.Module] = []
    for inside, outside in zip(widths, widths[1:]):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Linear(widths[-1], 1))
    loss: Callable[[Tensor, Tensor], Tensor] = nn.MSELoss()
    if task.is_binary:
        loss = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(task.steps):
        optimizer.zero_grad()
        loss(network(inputs)[:, 0], values).backward()
        optimizer.step()
    with torch.no_grad():
        outputs = network(inputs)[:, 0]
    if task.is_binary:
        return float(((outputs > 0).float() == values).double().mean())
    return float(loss(outputs, values))


def measured(task: Task, *, permuted: bool) -> Tensor:
    """Numbers (curves, targets, trainings)."""
    numbers = torch.zeros(len(CURVES), len(task.frequencies), task.trainings, dtype=torch.float64)
    for row, name in enumerate(CURVES):
        inputs = points(name, task.samples)
        for column, frequencies in enumerate(task.frequencies):
            for training in range(task.trainings):
                values = target(task, frequencies, training, permuted=permuted)
                numbers[row, column, training] = learnt(task, inputs, values, training)
    return numbers


def gains(numbers: Tensor, task: Task) -> dict[str, Tensor]:
    """By how much each training is better along a curve than along another; over targets."""
    sign = 1 if task.is_binary else -1
    circle, flower, long_circle = sign * numbers.mean(1)
    found = {
        "flower-gain": flower - circle,
        "length-gain": long_circle - circle,
        "beyond-length": flower - long_circle,
    }
    if task.is_binary:
        low, high = numbers.mean(0)
        found["frequency-loss"] = low - high
    return found


def main(folder: Path) -> None:
    """Train along all curves, and write the table."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    quantities: dict[str, Any] = {}
    rows = [["gain of the flower of eight petals", "waves", "values in random order"]]
    for kind, task in (("loss", LOSS), ("accuracy", ACCURACY)):
        found = {}
        for order, permuted in (("", False), ("permuted-", True)):
            found[order] = gains(measured(task, permuted=permuted), task)
            for name, values in found[order].items():
                quantities[f"{order}{kind}-{name}"] = quantity(values)
        for name in found[""]:
            cells = [mean_and_stderr(found[order][name]) for order in found]
            texts = [f"{mean:.3f} ± {error:.3f}" for mean, error in cells]
            rows.append([f"{kind}: {name.replace('-', ' ')}", *texts])
    table = {"name": "curve-length", "probe": "", "quantities": quantities, "rows": rows}
    table |= {"places": {}, "pictures": [], "warnings": []}
    (folder / "table.json").write_text(json.dumps(table, indent=1) + "\n")


def quantity(values: Tensor) -> dict[str, Any]:
    """The mean over trainings with its error, and 0 as its null."""
    mean, error = mean_and_stderr(values)
    counted = {"count": len(values), "df": len(values) - 1, "over": "trainings"}
    return {"value": float(mean), "stderr": float(error), "null": 0.0, **counted}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
