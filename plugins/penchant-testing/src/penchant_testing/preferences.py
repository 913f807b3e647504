"""Does a network still prefer what it did? A test for CI, against a card or a run folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penchant.api import component_table
from penchant.errors import Error
from penchant.execution.job.devices import job_device
from penchant.execution.runner import run_experiment
from penchant.experiments.experiment import build, read_toml
from penchant.plugins import discovery
from penchant.results.files import read_json
from penchant_report.movement import Movement, movement
from penchant_report.sources import CARD, source_of

WHERE = "preferences"


def preferences(
    network: Any,
    baseline: str | Path,
    *,
    data: Any = None,
    level: float = 0.01,
    out: str | Path | None = None,
) -> Movement:
    """Measure a network as its baseline was, and fail if a quantity has moved.

    Args:
        network: A class or function that makes networks, a module, or an architecture's name.
        baseline: A `card.json`, or a run folder.
        data: Samples, where the baseline has some: a pair, a loader, a dataset's name.
        level: The chance of failing where nothing has changed.
        out: The run folder; by default a temporary one.

    Returns:
        What was compared.

    Raises:
        AssertionError: Something has moved, or fails now; one line for each.

    >>> def test_preferences():                                    # doctest: +SKIP
    ...     penchant_testing.preferences(Net, "tests/card.json", data=(inputs, labels))
    """
    path = Path(baseline)
    if not path.exists():
        hint = "`penchant card NETWORK -d DATA --out DIR` writes DIR/card.json"
        raise Error(f"there is no baseline {str(path)!r}: {hint}")
    raw = _with_tables(_experiment(path), network, data)
    known = {
        (entry.labels["probe"], entry.labels["seed"])
        for entry in source_of(path).entries
        if entry.status == "done"
    }
    plugins = discovery.load()
    experiment = build(raw, plugins, WHERE)
    jobs = experiment.jobs(*job_device(experiment.settings.device))
    chosen = [job.id for job in jobs if (job.labels["probe"], job.seed) in known]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(out or temporary)
        run = run_experiment(experiment, plugins, folder, only=chosen, temporary=not out)
        moved = movement(path, run, level=level)
    if moved.fails:
        raise AssertionError("\n".join(moved.lines()))
    return moved


def _experiment(path: Path) -> dict[str, Any]:
    """The experiment of a card, or of a run folder."""
    if path.is_dir():
        return dict(read_toml(path / "experiment.toml"))
    record = read_json(path)
    if not isinstance(record.get("experiment"), dict):
        raise Error(f"{path} has no experiment: expected the {CARD} of `penchant card`")
    return dict(record["experiment"])


def _with_tables(raw: dict[str, Any], network: Any, data: Any) -> dict[str, Any]:
    """The experiment with this network and these data, under the labels of the baseline."""
    labels = {key: _labels(raw, key) for key in ("architectures", "datasets")}
    if len(labels["architectures"]) != 1 or len(labels["datasets"]) > 1:
        raise Error("a baseline has one network and at most one dataset, found several")
    raw = {**raw, "figures": False, "executor": "serial"}
    raw["architectures"] = [{**component_table(network), "label": labels["architectures"][0]}]
    raw.pop("datasets", None)
    if labels["datasets"]:
        if data is None:
            raise Error(f"the baseline has data, {labels['datasets'][0]!r}: give `data`")
        given = isinstance(data, Mapping) and not isinstance(data.get("name"), str)
        table = {"name": "import", "factory": data} if given else component_table(data)
        raw["datasets"] = [{**table, "label": labels["datasets"][0]}]
    return raw


def _labels(raw: Mapping[str, Any], key: str) -> list[str]:
    return list(dict.fromkeys(label for entry in raw["probes"] for label in entry.get(key, ())))
