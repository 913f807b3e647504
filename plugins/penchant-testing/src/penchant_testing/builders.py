"""Bound architectures, data and contexts for tests, as the kernel makes them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penchant.api import component_table, one_probe
from penchant.components.component import Probe
from penchant.execution.job.context import Context
from penchant.execution.job.devices import resolve_device
from penchant.execution.job.loading import loaded
from penchant.execution.job.networks import BoundArchitecture
from penchant.execution.runner import run_experiment
from penchant.experiments.arrays import with_arrays
from penchant.experiments.experiment import build
from penchant.experiments.jobs import BoundComponent, Job
from penchant.experiments.settings import Settings
from penchant.plugins import discovery
from penchant.results.runs import Run
from penchant.seeds import derive

from penchant_testing.tiny import SAMPLES, TINY

_TABLES = {
    "architecture": {"name": "import", "factory": TINY},
    "dataset": {"name": "import", "factory": SAMPLES},
}
_SETTINGS = set(Settings.__annotations__)


def seed(*keys: Any) -> int:
    """The seed that the kernel derives from these keys."""
    return derive(*keys)


def architecture(
    given: Any, *, shape: tuple[int, ...], outputs: int = 1, seed: int = 0
) -> BoundArchitecture:
    """A bound architecture: a callable index -> module, as probes have it.

    Args:
        given: Text such as "lenet:pooling=none", or a dict with a name and options.
        shape: Shape of one input.
        outputs: Number of outputs.
        seed: Seed of its networks.

    Returns:
        The bound architecture.
    """
    table = component_table(given)
    name = table.pop("name")
    registration = discovery.load().find("architecture", name)
    bound = registration.component.bind(table, name)
    component = with_arrays(bound)
    return BoundArchitecture(component, name, tuple(shape), outputs, seed)


def dataset(given: Any, *, seed: int = 0) -> Any:
    """The samples of a dataset, as probes of this seed have them, on the CPU.

    Args:
        given: Text such as "gaussian:train=10", or a dict with a name and options.
        seed: The seed.

    Returns:
        A `penchant_numerics.data.Data`.
    """
    import torch

    table = component_table(given)
    name = table.pop("name")
    registration = discovery.load().find("dataset", name)
    component = registration.component.bind(table, name)
    choice = BoundComponent(component, registration, name)
    cpu = torch.device("cpu")
    return loaded(choice, seed=seed, device=cpu, dtype=torch.float32)


def context(probe: str | type[Probe], folder: Path | None = None, **arguments: Any) -> Context:
    """A real context, as the probe's `run` is given it.

    Args:
        probe: Its name, or a class.
        folder: Where shards and checkpoints go; a temporary folder without one.
        **arguments: `architecture`, `dataset`, `estimators`, `training`, settings such as `shape`,
            `outputs`, `seed`, `device`, and options of the probe. Axes that it needs and that are
            not given are tiny ones.

    Returns:
        The context; its options are the probe's.
    """
    job = only_job(probe, arguments)
    if not folder:
        temporary = tempfile.mkdtemp()
        folder = Path(temporary)
    return Context(job, folder)


def only_job(probe: str | type[Probe], arguments: Mapping[str, Any]) -> Job:
    """The job of an experiment of one probe, given everything small."""
    plugins = discovery.load()
    if not isinstance(probe, str):
        plugins = plugins.with_component(probe, Probe)
        probe = probe.name
    raw = experiment(probe, arguments, plugins)
    device = resolve_device(raw.get("device", "cpu"))
    built = build(raw, plugins, "test")
    (job,) = built.jobs(device.type)
    return job


def experiment(probe: str, arguments: Mapping[str, Any], plugins: Any = None) -> dict[str, Any]:
    """An experiment of one probe; what it needs and is not given is tiny.

    Args:
        probe: Its name.
        arguments: What it is given, settings, and its options, as for `penchant.measure`.
        plugins: Where it is found.

    Returns:
        The experiment as a dict.
    """
    plugins = plugins or discovery.load()
    cls = plugins.find("probe", probe).component
    left = dict(arguments)
    # One table per axis, tiny where the probe needs it and none was given.
    tables: dict[str, list[dict[str, Any]]] = {}
    arrays = any(left.get(name) is not None for name in cls.instead)
    for axis, tiny in _TABLES.items():
        default = tiny if axis in cls.needs and not arrays else None
        given = left.pop(axis, default)
        chosen = tables.setdefault(f"{axis}s", [])
        if given is not None:
            chosen.append(component_table(given))
    # Settings hold for the whole experiment; what is left belongs to the probe.
    settings = {}
    for name in list(left):
        if name in _SETTINGS:
            settings[name] = left.pop(name)
    seed = left.pop("seed", 0)
    raw = one_probe(probe, left, **tables)
    return {"device": "cpu", **raw, **settings, "seeds": [seed]}


def run_unreported(raw: Mapping[str, Any], folder: Path) -> Run:
    """Run an experiment without writing its report, which takes longer than a small measurement.

    Args:
        raw: The experiment as a dict; with `figures` as false it draws nothing at all.
        folder: The run folder.

    Returns:
        The run.
    """
    plugins = discovery.load()
    experiment = build(raw, plugins, "test")
    # The report of a folder that is deleted when the run ends is not written.
    return run_experiment(experiment, plugins, folder, temporary=True)
