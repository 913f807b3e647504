"""Every estimator of mutual information on tasks with exact values: near, warned, or silently off.

`python docs/make/information_tasks.py FOLDER` writes `table.json`; the gallery shows it. Tasks are
those of an outside benchmark (Czyz et al., Beyond Normal, NeurIPS 2023), drawn anew from the
definitions of their distributions. An estimate is *within* when the exact value lies within two of
its standard errors, *warned* when it lies outside and the estimate came with a warning, else
*silent*. Estimators are done one by one: a script that was interrupted goes on with the next.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from penchant_mine.shared.information.families import FAMILIES, Setting
from penchant_mine.standalone import mutual_information

SAMPLES = 1500
TASKS = [
    *(("gaussian", 0.75, Setting()), ("gaussian", 0.3, Setting(5, 5))),
    *(("gaussian", 0.5, Setting(20, 20)), ("gaussian", 0.0, Setting(3, 3))),
    *((name, 0.75, Setting()) for name in ("asinh", "half-cube", "wiggly", "bimodal")),
    ("half-cube", 0.5, Setting(5, 5)),
    *(("uniform", width, Setting()) for width in (0.1, 0.75)),
    *(("dense", 0.5, Setting(size, size)) for size in (2, 5, 25)),
    *(("sparse", 0.8, Setting(size, size)) for size in (3, 5, 25)),
    *(("student", freedom, Setting(5, 5, rho=0.0)) for freedom in (2.0, 5.0)),
    *(("asinh-student", 2.0, Setting(size, size, rho=0.0)) for size in (1, 3, 5)),
    ("spiral", 0.8, Setting(3, 3, turns=0.5)),
    ("mixture", 0.5, Setting()),
]
# Small networks and few steps: an estimate that has not levelled off must say so.
SMALL = {"trainings": 2, "null_trainings": 0, "steps": 200}
ESTIMATORS: dict[str, dict[str, Any]] = {
    "ksg": {"shuffles": 0},
    "gaussian": {"shuffles": 0},
    "binned": {"shuffles": 0},
    **dict.fromkeys(("mine", "info-nce", "smile", "nwj", "mine-f"), SMALL),
}
OUTCOMES = ("within", "warned", "silent")


def main(folder: Path) -> None:
    """Do the estimators that are missing, then write the table."""
    folder.mkdir(parents=True, exist_ok=True)
    answers = {}
    for name in ESTIMATORS:
        path = folder / f"{name}.json"
        if not path.is_file():
            path.write_text(json.dumps([answer(name, task) for task in range(len(TASKS))]))
        answers[name] = json.loads(path.read_text())
    (folder / "table.json").write_text(json.dumps(table(answers), indent=1) + "\n")


def answer(name: str, task: int) -> dict[str, Any]:
    """One estimate beside the exact value."""
    family, parameter, setting = TASKS[task]
    generator = torch.Generator(device="cpu").manual_seed(3)
    x, z = FAMILIES[family].draw(setting, parameter, SAMPLES, generator)
    found = mutual_information(x, z, estimator=name, **ESTIMATORS[name])
    truth = FAMILIES[family].truth(setting, parameter)
    near = abs(found.value - truth) <= 2 * found.stderr
    outcome = "within" if near else "warned" if found.warnings else "silent"
    return {"value": found.value, "stderr": found.stderr, "truth": truth, "outcome": outcome}


def table(answers: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Counts as quantities, and a row for each task."""
    quantities = {}
    for name, found in answers.items():
        counts = {each: sum(one["outcome"] == each for one in found) for each in OUTCOMES}
        counts["outside"] = counts["warned"] + counts["silent"]
        for each, count in counts.items():
            quantities[f"{each}-{name}"] = {"value": float(count), "exact": True}
    for each in (*OUTCOMES, "outside"):
        total = sum(quantities[f"{each}-{name}"]["value"] for name in answers)
        quantities[each] = {"value": total, "exact": True}
    rows = [["task", "exact", *answers]]
    for number, (family, parameter, setting) in enumerate(TASKS):
        title = f"{family} {parameter:g}, {setting.x_size} + {setting.z_size}"
        truth = next(iter(answers.values()))[number]["truth"]
        rows.append([title, f"{truth:.3f}", *(_cell(each[number]) for each in answers.values())])
    return {
        "name": "tasks",
        "probe": "",
        "quantities": quantities,
        "places": {},
        "pictures": [],
        "warnings": [],
        "rows": rows,
    }


def _cell(one: dict[str, Any]) -> str:
    return f"{one['value']:.3f} ± {one['stderr']:.3f} {one['outcome']}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
