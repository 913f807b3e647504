"""How often `compare --fail` is wrong, and which slips it finds: `python
tests/tools/card_power.py`.

Every seed of a network is measured once, with the probes and options of a card; a folder that was
begun goes on. False alarms: runs of five seeds of the unchanged network against runs of five other
seeds. The first share is of pairs that have no seed in common, so that its binomial error is right;
the second of many random pairs of the same seeds, which are not independent. Power: five seeds of
the network with a slip against the same five seeds of the network as it was.
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path
from typing import Any

import attrs
import penchant
import torch
from penchant.experiments.typed_text import label_of
from penchant.plugins import discovery
from penchant_card.plans import plan
from penchant_report.answers import Entry, entries_of
from penchant_report.movement import movement
from penchant_report.sources import Source
from torch import nn

SEEDS = 5
PAIRS = 200  # random pairs of the same seeds
PROBES = ("nad", "average-geometry", "hessian-spectrum", "tangent-kernel", "weight-spectra")
DATA = {"name": "digits", "per_class": 20}


@attrs.frozen
class Form:
    """A small residual network, and what a slip may change of it."""

    activation: Any = nn.ReLU
    norm: bool = True
    residual: bool = True
    pooling: Any = nn.AvgPool2d
    padding: str = "zeros"
    stride: int = 1
    bias: bool = True
    gain: float = 1.0
    shift: float = 0.0
    transposed: bool = False


class Network(nn.Module):
    """Two convolutions with a residual connection, pooling, and a linear head."""

    def __init__(self, form: Form, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.form = form
        more: dict[str, Any] = {"padding": 1, "padding_mode": form.padding, "bias": form.bias}
        self.first = nn.Conv2d(channels, 8, 3, stride=form.stride, **more)
        self.second = nn.Conv2d(8, 8, 3, **more)
        self.norm = nn.GroupNorm(2, 8) if form.norm else nn.Identity()
        self.act = form.activation()
        self.pool = form.pooling(2)
        size = 8 * (height // (2 * form.stride)) * (width // (2 * form.stride))
        self.head = nn.Linear(size, outputs, bias=form.bias)
        with torch.no_grad():
            for layer in (self.first, self.second, self.head):
                layer.weight.mul_(form.gain)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        form = self.form
        inputs = inputs - form.shift
        first = self.act(self.norm(self.first(inputs)))
        second = self.act(self.second(first))
        pooled = self.pool(first + second if form.residual else second)
        if form.transposed:
            pooled = pooled.transpose(-1, -2)
        logits: torch.Tensor = self.head(pooled.flatten(1))
        return logits


SLIPS = {
    "as it was": Form(),
    "max pooling for average": Form(pooling=nn.MaxPool2d),
    "residual dropped": Form(residual=False),
    "norm missing": Form(norm=False),
    "gain 1.4 for 1": Form(gain=1.4),
    "GELU for ReLU": Form(activation=nn.GELU),
    "tanh for ReLU": Form(activation=nn.Tanh),
    "circular padding": Form(padding="circular"),
    "stride 2 for 1": Form(stride=2),
    "no bias": Form(bias=False),
    "input mean 0.5": Form(shift=0.5),
    "transposed patches": Form(transposed=True),
}


def measured(name: str, folder: Path, seeds: list[int]) -> list[Entry]:
    """The jobs of a network with these seeds."""
    form = SLIPS[name]

    def make(shape: tuple[int, ...], outputs: int) -> nn.Module:
        return Network(form, shape, outputs)

    # A function in a script is run in this process, and identified by its code and its form.
    table = {"name": "import", "factory": make, "label": "network"}
    settings = {"title": name, "device": "cpu"}
    planned = plan(table, DATA, discovery.load(), settings=settings, seeds=seeds)
    raw = {**planned.experiment.raw, "figures": False, "executor": "serial"}
    raw["probes"] = [entry for entry in raw["probes"] if label_of(entry) in PROBES]
    run = penchant.run(raw, out=folder / name.replace(" ", "-"), progress=False)
    shown = {cls.name: cls.card.quantities for cls in planned.cards.values() if cls.card}
    return [_shown(entry, shown) for entry in entries_of(run)]


def _shown(entry: Entry, shown: dict[str, tuple[str, ...]]) -> Entry:
    """A job with the quantities of a card."""
    names = shown[entry.probe]
    kept = {name: each for name, each in entry.quantities.items() if name in names}
    return attrs.evolve(entry, quantities=kept)


def of_seeds(entries: list[Entry], seeds: list[int]) -> Source:
    """A run of some of the seeds."""
    return Source(Path("run"), [entry for entry in entries if entry.labels["seed"] in seeds])


def alarms(entries: list[Entry], pairs: list[tuple[list[int], list[int]]], level: float) -> int:
    """How many pairs of runs of one network fail."""
    found = [
        movement(of_seeds(entries, one), of_seeds(entries, other), level=level)
        for one, other in pairs
    ]
    return sum(each.fails for each in found)


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/card-power"))
    parser.add_argument("--seeds", type=int, default=200, help="of the network as it was")
    parser.add_argument("--level", type=float, default=0.01)
    parser.add_argument("--slips", nargs="*", default=list(SLIPS)[1:])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    seeds = list(range(asked.seeds))
    base = measured("as it was", asked.out, seeds)
    blocks = [seeds[first : first + SEEDS] for first in range(0, len(seeds) - SEEDS + 1, SEEDS)]
    apart = list(zip(blocks[::2], blocks[1::2]))
    generator = random.Random(0)
    mixed = []
    for _ in range(PAIRS):
        drawn = generator.sample(seeds, 2 * SEEDS)
        mixed.append((drawn[:SEEDS], drawn[SEEDS:]))
    print("| pairs | false alarms | share |\n|---|---|---|")
    for what, pairs in (("no seed in common", apart), ("random, not independent", mixed)):
        count = alarms(base, pairs, asked.level)
        share = count / len(pairs)
        error = math.sqrt(max(share, 1 / len(pairs)) * (1 - share) / len(pairs))
        print(f"| {len(pairs)}, {what} | {count} | {share:.1%} ± {error:.1%} |")
    print("\n| slip | found | by | p |\n|---|---|---|---|")
    for name in asked.slips:
        changed = measured(name, asked.out, seeds[:SEEDS])
        before = of_seeds(base, seeds[:SEEDS])
        found = movement(before, of_seeds(changed, seeds[:SEEDS]), level=asked.level)
        best = min(found.moved, key=lambda row: row.p or 0.0, default=None)
        by = f"{best.probe} {best.quantity} | {best.p:.1e}" if best else " | "
        others = f" and {len(found.moved) - 1} more" if len(found.moved) > 1 else ""
        print(f"| {name} | {'yes' if found.fails else 'no'}{others} | {by} |", flush=True)


if __name__ == "__main__":
    main()
