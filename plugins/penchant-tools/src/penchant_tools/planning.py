"""Which cells of an experiment can run: where one is refused, the others are planned without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from penchant.errors import Error
from penchant.execution.job.devices import job_device
from penchant.experiments.experiment import Experiment, build
from penchant.experiments.jobs import Job
from penchant.plugins.discovery import Plugins

from penchant_tools.forecast import Cell


@attrs.frozen(eq=False)
class Plan:
    """An experiment as far as it can run.

    Attributes:
        experiment: The experiment, or some part of it that was not refused.
        jobs: All jobs of the parts that were not refused.
        refused: The other cells, and why.
    """

    experiment: Experiment
    jobs: list[Job]
    refused: list[Cell]


def plan(raw: Mapping[str, Any], plugins: Plugins, where: str) -> Plan:
    """What can run of an experiment; an Error where nothing can.

    Args:
        raw: Its tables.
        plugins: Where its components are searched.
        where: What messages call it.

    Returns:
        Its jobs, and the cells that are refused.
    """
    try:
        experiment = build(raw, plugins, where)
        return Plan(experiment, _jobs(experiment), [])
    except Error as error:
        # A run would refuse the whole; here every cell is tried by itself.
        whole = error
    experiments: list[Experiment] = []
    refused: list[Cell] = []
    for name, part in _parts(raw, plugins):
        try:
            experiments.append(build(part, plugins, where))
        except Error as error:
            refused.append(Cell(name, 0, refused=str(error)))
    if not experiments:
        raise whole
    jobs = [job for experiment in experiments for job in _jobs(experiment)]
    return Plan(experiments[0], jobs, refused)


def _jobs(experiment: Experiment) -> list[Job]:
    """All jobs on the device that the experiment would run on."""
    kind, gpu = job_device(experiment.settings.device)
    return experiment.jobs(kind, gpu)


def _parts(raw: Mapping[str, Any], plugins: Plugins) -> Iterator[tuple[str, dict[str, Any]]]:
    """Experiments of one cell each, with their names."""
    for probe in _tables(raw, "probes"):
        for architecture in _selected(raw, probe, "architecture", plugins):
            for dataset in _selected(raw, probe, "dataset", plugins):
                entry = dict(probe)
                part = {**raw, "probes": [entry]}
                labels = [_label(probe)]
                # The probe is given the tables of this cell, and no others.
                given = {"architectures": architecture, "datasets": dataset}
                for key, table in given.items():
                    part[key] = []
                    entry.pop(key, None)
                    if table is not None:
                        label = _label(table)
                        part[key] = [table]
                        entry[key] = [label]
                        labels.append(label)
                yield " ".join(labels), part


def _selected(
    raw: Mapping[str, Any], probe: Mapping[str, Any], axis: str, plugins: Plugins
) -> Sequence[Any]:
    """The tables of an axis that a probe is given; None where it is given none."""
    key = f"{axis}s"
    labels = probe.get(key)
    tables = _tables(raw, key)
    if labels is not None:
        named: list[Any] = [table for table in tables if _label(table) in labels]
        return named or [None]
    name = str(probe.get("name"))
    # What an unknown probe needs is unknown, too: one cell says so.
    if not plugins.has("probe", name):
        return [None]
    cls: Any = plugins.find("probe", name).component
    # Arrays stand for networks and data.
    if any(probe.get(option) is not None for option in cls.instead):
        return [None]
    only = axis in cls.accepts and len(tables) == 1
    if tables and (axis in cls.needs or only):
        return tables
    return [None]


def _tables(raw: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = raw.get(key, [])
    if not isinstance(value, (list, tuple)):
        return []
    return [table for table in value if isinstance(table, Mapping)]


def _label(table: Mapping[str, Any]) -> str:
    # Without a label a component goes by its name, not by its distribution's.
    _, _, name = str(table.get("name")).rpartition("/")
    return str(table.get("label", name))
