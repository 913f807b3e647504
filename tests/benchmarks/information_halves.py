"""Every estimator of information on tasks that none was tuned to: within two errors, warned, silent.

`python tests/benchmarks/information_halves.py FOLDER open` prints the table of the open half, with
`kept` that of the half that is for a last look only. Estimates are stored one by one: a script that
was interrupted goes on with the next. `--draws 1 2` takes further samples of every task.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from penchant_mine.standalone import mutual_information
from second_tasks import ALL, KEPT, OPEN

SAMPLES = 1500
# Small networks and few steps: an estimate that has not levelled off must say so.
SMALL = {"trainings": 2, "null_trainings": 0, "steps": 200}
NEURAL = ("mine", "mine-f", "nwj", "info-nce", "smile")
OTHERS = ("ksg", "gaussian", "binned")
HALVES = {"open": OPEN, "kept": KEPT}
OUTCOMES = ("within", "warned", "silent")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("half", choices=HALVES)
    arguments.add_argument("--draws", type=int, nargs="+", default=[1])
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for draw in chosen.draws:
        answers = {}
        for name in (*OTHERS, *NEURAL):
            path = chosen.folder / f"{chosen.half}-{draw}-{name}.json"
            answers[name] = estimates(path, name, HALVES[chosen.half], draw)
        print(f"\n{chosen.half} half, draw {draw}\n")
        print("\n".join(table(answers)))


def estimates(path: Path, name: str, tasks: list[str], draw: int) -> dict[str, Any]:
    """What the file has, and what it lacks."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for task in tasks:
        if task not in found:
            found[task] = estimate(name, task, draw)
            path.write_text(json.dumps(found, indent=1) + "\n")
    return found


def estimate(name: str, task: str, draw: int) -> dict[str, Any]:
    """One estimate beside the exact value."""
    x, z = ALL[task].draw(SAMPLES, np.random.default_rng(draw))
    options: dict[str, Any] = SMALL if name in NEURAL else {"shuffles": 0}
    found = mutual_information(x, z, estimator=name, seed=draw, **options)
    truth = ALL[task].truth()
    near = abs(found.value - truth) <= 2 * found.stderr
    outcome = "within" if near else "warned" if found.warnings else "silent"
    numbers = {"value": found.value, "stderr": found.stderr, "truth": truth}
    return {**numbers, "outcome": outcome, "warnings": list(found.warnings)}


def table(answers: dict[str, dict[str, Any]]) -> list[str]:
    """A row for each task, and counts; an estimate within two errors that was warned has a star."""
    tasks = list(next(iter(answers.values())))
    rows = [["task", "exact", *answers], ["---"] * (2 + len(answers))]
    for task in tasks:
        truth = next(iter(answers.values()))[task]["truth"]
        rows.append([task, f"{truth:.3f}", *(cell(found[task]) for found in answers.values())])
    for outcome in OUTCOMES:
        counts = [
            sum(one["outcome"] == outcome for one in found.values()) for found in answers.values()
        ]
        rows.append([f"**{outcome}**", str(sum(counts)), *map(str, counts)])
    return ["| " + " | ".join(row) + " |" for row in rows]


def cell(one: dict[str, Any]) -> str:
    star = "*" if one["outcome"] == "within" and one["warnings"] else ""
    return f"{one['value']:.3f} ± {one['stderr']:.3f} {one['outcome']}{star}"


if __name__ == "__main__":
    main()
