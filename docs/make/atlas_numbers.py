"""Numbers of the atlas for cards: `python docs/make/atlas_numbers.py`.

The card compares fresh networks with those of docs/atlas/measured.json, where both were measured in
the same way. This writes what it needs of them into penchant-card.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from penchant.execution.job.devices import job_device
from penchant.experiments.experiment import build
from penchant.plugins import discovery

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "docs/atlas/measured.json"
EXPERIMENT = ROOT / "examples/atlas.toml"
OUT = ROOT / "plugins/penchant-card/src/penchant_card/atlas.json"
DIGITS = 6
# Options that change nothing of networks before training, and what is stored.
IGNORED = {
    "nad": ("samples", "store_directions", "store_matrix"),
    "average-geometry": ("samples", "split", "store_directions"),
    "tangent-kernel": ("store_kernel",),
}


def numbers() -> dict[str, Any]:
    """Conditions and numbers by probe."""
    measured = json.loads(MEASURED.read_text())["architectures"]
    raw = tomllib.loads(EXPERIMENT.read_text())
    experiment = build(raw, discovery.load(), EXPERIMENT.name)
    found: dict[str, Any] = {}
    for job in experiment.jobs(*job_device("cpu")):
        name = job.probe.label
        # A card compares with the networks that all architectures have, not with the twelve's 100.
        if name == job.probe.component.name and name not in found:
            values = _values(measured, name)
            found[name] = {"conditions": _conditions(job, experiment.settings), "values": values}
    return found


def _conditions(job: Any, settings: Any) -> dict[str, Any]:
    """What must be the same for a number to be comparable."""
    estimators = {}
    for role, chosen in job.record["estimators"].items():
        estimators[role] = {"name": chosen["name"], "options": chosen["options"]}
    data = job.record["dataset"]
    options = job.record["probe"]["options"]
    ignored = IGNORED[job.probe.label]
    return {
        "shape": list(settings.shape),
        "outputs": settings.outputs if data is None else 10,
        "data": None if data is None else data["options"],
        "options": {name: value for name, value in options.items() if name not in ignored},
        "estimators": estimators,
    }


def _values(measured: dict[str, Any], probe: str) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for label, entry in measured.items():
        for name, quantity in entry[probe].get("quantities", {}).items():
            value = quantity["value"]
            # Not a number: it is missing.
            if value == value:
                values.setdefault(name, {})[label] = float(f"{value:.{DIGITS}g}")
    return values


def text() -> str:
    """The file."""
    return json.dumps(numbers(), indent=1) + "\n"


if __name__ == "__main__":
    OUT.write_text(text())
