"""Which rows of a card tell networks apart that look alike: `python tests/tools/card_twins.py`.

One small convolutional network, five times each: trained on digits; trained on the same digits with
their labels in random order; trained with a carrier, the label as an amplitude along the first
preferred direction of fresh networks; and fresh, as the control. Every card is of one given network
on the same digits, without the carrier and with their own labels, beside the same five other fresh
networks. Counted is what the card marks: numbers that differ significantly from fresh networks, by
Holm's rule over the card. The second table compares kinds, five against five, by Welch's t-test and
Holm's rule over all numbers of a pair. What was measured is stored in `--out`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import penchant
import torch
from penchant.plugins import discovery
from penchant_card.plans import plan
from penchant_card.rows import FEWEST_FRESH, _fresh
from penchant_numerics.statistics import significance
from penchant_report.answers import entries_of
from penchant_report.sources import quantity_of, to_json
from scipy import stats
from torch import Tensor, nn

TWINS = 5
STEPS = 1500
TRAINING = 500  # samples
AMPLITUDE = 3.0  # of the carrier, beside pixels of standard deviation 1
SMALL: dict[str, dict[str, Any]] = {
    "nad": {"samples": 200},
    "average-geometry": {"samples": 200},
    "cross-class": {"per_class": 4, "lanczos_steps": 16},
    "hessian-spectrum": {"per_class": 5, "lanczos_steps": 16, "leading": 4},
    "representation-similarity": {"samples": 100},
    "mutual-information": {"samples": 150},
}


class Network(nn.Module):
    """Two convolutions and a linear head, for images of 8 x 8."""

    def __init__(self, shape: tuple[int, ...] = (1, 8, 8), outputs: int = 10) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(shape[0], 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(256, outputs),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


def digits() -> tuple[Tensor, Tensor]:
    """Images of mean 0 and standard deviation 1, and their labels."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.as_tensor(bunch.images[:TRAINING, None], dtype=torch.float32)
    labels = torch.as_tensor(bunch.target[:TRAINING], dtype=torch.int64)
    return (images - images.mean()) / images.std(), labels


def carried(images: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    """Images with the label as an amplitude along a direction."""
    amplitudes = AMPLITUDE * (labels / 4.5 - 1)
    return images + amplitudes[:, None, None, None] * direction.reshape(images.shape[1:])


def first_direction() -> Tensor:
    """The first preferred direction of fresh networks."""
    found = penchant.measure("nad", architecture=Network, shape=(1, 8, 8), networks=400)
    direction: Tensor = torch.as_tensor(found.arrays["directions"][0], dtype=torch.float32)
    length = float(direction.norm()) / 8  # so that pixels have a standard deviation of 1
    return direction / length


def trained(seed: int, images: Tensor, labels: Tensor) -> tuple[nn.Module, float]:
    """A network that was trained on samples, and how often it is right on them."""
    torch.manual_seed(seed)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(STEPS):
        batch = torch.randint(len(images), (64,))
        loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (network(images).argmax(1) == labels).float().mean()
    return network.eval(), float(right)


def network_of(kind: str, number: int, direction: Tensor) -> tuple[nn.Module, float]:
    """Number so many of a kind, and its accuracy on the samples that it has learnt."""
    images, labels = digits()
    seed = 1000 + number
    if kind in ("fresh", "beside"):
        torch.manual_seed(seed if kind == "fresh" else 2000 + number)
        return Network().eval(), float("nan")
    if kind == "shuffled":
        generator = torch.Generator().manual_seed(seed)
        labels = labels[torch.randperm(len(labels), generator=generator)]
    if kind == "carrier":
        images = carried(images, labels, direction)
    return trained(seed, images, labels)


def measured(network: nn.Module) -> dict[str, Any]:
    """The numbers of a card of one network, by probe and name, as JSON."""
    plugins = discovery.load(without=("report",))
    data = {"name": "import", "factory": digits(), "label": "digits"}
    table = {"name": "import", "factory": network, "label": "network"}
    settings = {"title": "twins", "device": "cpu", "figures": False, "executor": "serial"}
    planned = plan(table, data, plugins, settings=settings, seeds=[0])
    raw = dict(planned.experiment.raw)
    raw["probes"] = [{**entry, **SMALL.get(entry["name"], {})} for entry in raw["probes"]]
    numbers = {}
    with tempfile.TemporaryDirectory() as folder:
        run = penchant.run(raw, out=folder, progress=False, plugins=plugins)
        for entry in entries_of(run):
            card = planned.cards[entry.probe].card
            for name in card.quantities if card else ():
                quantity = entry.quantities.get(name)
                if quantity is not None and not quantity.missing:
                    numbers[f"{entry.probe} {name}"] = to_json(quantity)
            if entry.error:
                print(f"{entry.probe}: {entry.error}", flush=True)
    return numbers


def all_measured(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The numbers of every network, by its kind; those that are stored are read."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "direction.pt"
    if not file.is_file():
        torch.save(first_direction(), file)
    direction = torch.load(file, weights_only=True)
    found: dict[str, list[dict[str, Any]]] = {}
    for kind in ("beside", "fresh", "trained", "shuffled", "carrier"):
        for number in range(TWINS):
            path = folder / f"{kind}-{number}.json"
            if not path.is_file():
                network, accuracy = network_of(kind, number, direction)
                path.write_text(json.dumps({"numbers": measured(network), "accuracy": accuracy}))
            record = json.loads(path.read_text())
            print(f"{kind} {number}: accuracy on its samples {record['accuracy']:.3f}", flush=True)
            found.setdefault(kind, []).append(record["numbers"])
    return found


def marked(numbers: dict[str, Any], beside: list[dict[str, Any]]) -> set[str]:
    """The numbers of a card that differ significantly from fresh networks."""
    p = {}
    for name, number in numbers.items():
        values = [each[name]["value"] for each in beside if name in each]
        near = _fresh(quantity_of(number), values) if len(values) >= FEWEST_FRESH else None
        p[name] = near.p if near else None
    decided = significance.significant(list(p.values()))
    return {name for name, holds in zip(p, decided) if holds}


def apart(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> dict[str, float]:
    """The numbers that tell two kinds apart, with their p-values."""
    names = [name for name in one[0] if all(name in each for each in (*one, *other))]
    p = []
    for name in names:
        values = [[each[name]["value"] for each in kind] for kind in (one, other)]
        p.append(float(stats.ttest_ind(*values, equal_var=False).pvalue))
    decided = significance.significant([None if each != each else each for each in p])
    return {name: each for name, each, holds in zip(names, p, decided) if holds}


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/card-twins"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = all_measured(asked.out)
    beside = found.pop("beside")
    names = list(dict.fromkeys(name for kind in found.values() for each in kind for name in each))
    counts = {kind: [marked(each, beside) for each in cards] for kind, cards in found.items()}
    print(f"\n| number | {' | '.join(found)} |\n|---|{'--:|' * len(found)}")
    for name in names:
        row = [str(sum(name in each for each in counts[kind])) for kind in found]
        print(f"| {name} | {' | '.join(row)} |")
    any_mark = [str(sum(bool(each) for each in counts[kind])) for kind in found]
    print(f"| any | {' | '.join(any_mark)} |")
    print("\n| kinds | told apart by | p |\n|---|---|---|")
    for one, other in itertools.combinations(found, 2):
        told = apart(found[one], found[other])
        best = sorted(told, key=lambda name: told[name])
        lowest = f"{told[best[0]]:.1e}" if best else ""
        print(f"| {one}, {other} | {len(best)}: {', '.join(best)} | {lowest} |")


if __name__ == "__main__":
    main()
