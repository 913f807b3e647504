"""How often `compare --fail` is wrong, and which slips it finds.

`python tests/tools/card_power.py alarms` compares pairs of runs of an unchanged network, five seeds
each. No seed is in two runs, and every run draws its own samples, so pairs are independent and the
interval is the binomial one. `... slips` compares networks with a slip with the same networks as
they were, with the same seeds. `... checkpoints` does it for trained networks: the same weights in
code with a slip. What was measured is stored in `--out`, and a stopped command goes on.

Probes are those of a card with smaller options: the rule of the decision is what is tested.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from pathlib import Path
from typing import Any

import attrs
import penchant
import torch
from penchant.experiments.typed_text import label_of
from penchant.plugins import discovery
from penchant.results.files import SCHEMA
from penchant_card.plans import plan
from penchant_report.answers import Entry, entries_of
from penchant_report.movement import Movement, movement
from penchant_report.sources import Source, source_of, to_records
from scipy import stats
from slip_networks import IMAGES, NETWORKS, SLIPS, Form, data_of
from torch import nn

SEEDS = 5  # of a run, as a card has
GOAL = 0.01
SMALL: dict[str, dict[str, Any]] = {
    "nad": {"networks": 16},
    "average-geometry": {
        "networks": 12,
        "null_draws": 2,
        "estimators": {"directions": {"name": "average-geometry", "inputs": 2}},
    },
    "layer-structure": {"per_class": 4, "eigenvalues": 8, "singular_values": 8},
    "hessian-spectrum": {
        "per_class": 2,
        "lanczos_steps": 6,
        "leading": 2,
        "starts": 1,
        "trace_samples": 8,
    },
    "tangent-kernel": {"samples": 20, "permutations": 20, "groups": 5},
    "neural-collapse": {"per_class": 6, "groups": 5, "permutations": 5},
}
SEQUENCES = 16
TRAINING_STEPS = 600


@attrs.frozen
class OwnData(penchant.Dataset):
    """Samples of the network that is measured, drawn by the seed."""

    name = "own"
    network: str = penchant.option("convolutional", "whose data")

    @staticmethod
    def target(options: OwnData, generator: torch.Generator) -> Any:
        """Draw them."""
        seed = int(torch.randint(2**31, (), generator=generator))
        return data_of(options.network, seed)


def fresh(network: str, form: Form) -> Any:
    """A function that makes networks, which is known by its code and what it holds."""
    cls: Any = NETWORKS[network]

    def make(shape: tuple[int, ...], outputs: int) -> nn.Module:
        made: nn.Module = cls(form, outputs)
        return made

    return make


def measured(source: Any, network: str, seeds: list[int], file: Path) -> list[Entry]:
    """The jobs of a card of a network with these seeds; read where they are stored."""
    if not file.is_file():
        # Without the report, which takes as long as the measurement.
        plugins = discovery.load(without=("report",)).with_component(OwnData, penchant.Dataset)
        table = {"name": "import", "factory": source, "label": "network"}
        data = {"name": "own", "network": network, "label": "own"}
        settings = {"title": network, "device": "cpu"}
        planned = plan(table, data, plugins, settings=settings, seeds=seeds)
        raw = {**planned.experiment.raw, "figures": False, "executor": "serial"}
        entries = [entry for entry in raw["probes"] if label_of(entry) in SMALL]
        raw["probes"] = [{**entry, **small(label_of(entry), network)} for entry in entries]
        with tempfile.TemporaryDirectory() as folder:
            run = penchant.run(raw, out=folder, progress=False, plugins=plugins)
            shown = {cls.name: cls.card.quantities for cls in planned.cards.values() if cls.card}
            record = {"schema": SCHEMA, "network": {}, "jobs": to_records(entries_of(run), shown)}
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".part")
        partial.write_text(json.dumps(record))
        partial.rename(file)
    return source_of(file).entries


def small(probe: str, network: str) -> dict[str, Any]:
    """Smaller options of a probe; of sequences `per_class` is their number altogether."""
    options = SMALL[probe]
    if network in IMAGES or "per_class" not in options:
        return options
    return {**options, "per_class": SEQUENCES}


def blocks(count: int, folder: Path) -> list[list[Entry]]:
    """Runs of an unchanged network, each with seeds of its own."""
    made = fresh("convolutional", Form())
    runs = []
    for number in range(count):
        seeds = list(range(SEEDS * number, SEEDS * (number + 1)))
        runs.append(measured(made, "convolutional", seeds, folder / "alarms" / f"{number}.json"))
    return runs


def alarms(pairs: int, folder: Path, level: float) -> None:
    """Print how many pairs of runs of one network fail, at this level and at larger ones."""
    runs = blocks(2 * pairs, folder)
    disjoint = list(zip(runs[::2], runs[1::2]))
    neighbours = list(zip(runs, runs[1:]))
    for chance in (level, 5 * level, 20 * level):
        failing = [_failing(pairs_of, chance) for pairs_of in (disjoint, neighbours)]
        low, high = stats.binomtest(failing[0], pairs).proportion_ci(method="wilson")
        print(
            f"level {chance:g}: {failing[0]} of {pairs} pairs without a common run fail", end=", "
        )
        print(f"{failing[0] / pairs:.1%} (95 %: {low:.1%} to {high:.1%})", end="; ")
        print(f"{failing[1]} of {len(neighbours)} neighbours, each run in two pairs")
    print(f"{cpu_seconds() / 60:.1f} minutes of CPU in this command")


def _failing(pairs: list[tuple[list[Entry], list[Entry]]], level: float) -> int:
    return sum(moved(one, other, level).fails for one, other in pairs)


def moved(before: list[Entry], after: list[Entry], level: float) -> Movement:
    """What moved from one run to another."""
    return movement(Source(Path("before"), before), Source(Path("after"), after), level=level)


def slips(folder: Path, level: float, count: int) -> None:
    """Print which slips are found in networks at initialisation, by which number."""
    seeds = list(range(10_000, 10_000 + count))
    for network in NETWORKS:
        place = folder / "slips" / network
        base = measured(fresh(network, Form()), network, seeds, place / "base.json")
        for name, (form, networks) in SLIPS.items():
            if network in networks:
                began = cpu_seconds()
                changed = measured(fresh(network, form), network, seeds, place / f"{name}.json")
                cost = cpu_seconds() - began
                for few in sorted({SEEDS, count}):
                    first = moved(_first(base, seeds[:few]), _first(changed, seeds[:few]), level)
                    _print_row(network, f"{name}, {few} seeds", first, cost * few / count)


def _first(entries: list[Entry], seeds: list[int]) -> list[Entry]:
    return [entry for entry in entries if entry.labels["seed"] in seeds]


def checkpoints(folder: Path, level: float) -> None:
    """Print which slips are found where the weights of a trained network are given."""
    for network in NETWORKS:
        weights = _trained(network, folder / "checkpoints" / f"{network}.pt")
        place = folder / "checkpoints" / network
        base = measured(_loaded(network, Form(), weights), network, [0], place / "base.json")
        for name, (form, networks) in SLIPS.items():
            if network not in networks:
                continue
            began = cpu_seconds()
            try:
                source = _loaded(network, form, weights)
            except RuntimeError:
                print(f"| {network} | {name} | the file does not fit | |")
                continue
            changed = measured(source, network, [0], place / f"{name}.json")
            _print_row(network, name, moved(base, changed, level), cpu_seconds() - began)


def _print_row(network: str, name: str, found: Movement, seconds: float) -> None:
    best = min(found.moved, key=lambda row: row.p or 0.0, default=None)
    by = f"{best.probe} {best.quantity}, p {best.p:.1e}" if best else ""
    count = f"{len(found.moved)} of {found.compared}"
    failed = f", {len(found.failed)} failed" if found.failed else ""
    print(f"| {network} | {name} | {count}{failed} | {by} | {seconds:.1f} s |", flush=True)


def _loaded(network: str, form: Form, weights: dict[str, Any]) -> nn.Module:
    cls: Any = NETWORKS[network]
    made: nn.Module = cls(form, 10 if network in IMAGES else 12)
    made.load_state_dict(weights)
    return made.eval()


def _trained(network: str, file: Path) -> dict[str, Any]:
    """Weights of a network as it was, trained on its data with Adam."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        samples = data_of(network, 0).train
        cls: Any = NETWORKS[network]
        made: nn.Module = cls(Form(), 10 if network in IMAGES else 12)
        optimizer = torch.optim.Adam(made.parameters(), lr=3e-3)
        for _ in range(TRAINING_STEPS):
            batch = samples.select(torch.randint(len(samples.inputs), (64,)))
            outputs = made(batch.inputs).flatten(0, -2)
            loss = nn.functional.cross_entropy(outputs, batch.labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(made.state_dict(), file)
    stored: dict[str, Any] = torch.load(file, weights_only=True)
    return stored


def cpu_seconds() -> float:
    """Seconds of the processor that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("alarms", "slips", "checkpoints"))
    parser.add_argument("--out", type=Path, default=Path("runs/card-power"))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=2 * SEEDS, help="of networks with slips")
    parser.add_argument("--level", type=float, default=GOAL)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.what == "alarms":
        alarms(asked.pairs, asked.out, asked.level)
    elif asked.what == "slips":
        slips(asked.out, asked.level, asked.seeds)
    else:
        checkpoints(asked.out, asked.level)


if __name__ == "__main__":
    main()
