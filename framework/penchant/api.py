"""Penchant from Python: `measure` one thing, `run` an experiment, `read` a run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penchant import plugins as discovery
from penchant.components import Probe
from penchant.errors import Error
from penchant.experiment import build, read_toml
from penchant.plugins import Plugin, Plugins, check_declaration
from penchant.report import write_report
from penchant.results import Result
from penchant.runner import run_experiment
from penchant.runs import Run, read

__all__ = ["measure", "read", "run"]

_SETTINGS = ("device", "dtype", "shape", "outputs", "threads", "executor", "workers")


def run(
    experiment: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    plugins: Plugins | None = None,
    where: str = "experiment",
) -> Run:
    """Run an experiment, a TOML file or a dict of the same form, and return the run; what was done before is kept.

    >>> run = penchant.run("examples/quickstart.toml")             # doctest: +SKIP
    >>> run.results(probe="nad")[0].quantities["trace"]            # doctest: +SKIP
    """
    if isinstance(experiment, (str, Path)):
        path = Path(experiment)
        raw, where, stem = read_toml(path), path.name, path.stem
    else:
        raw, stem = dict(experiment), "experiment"
    plugins = plugins or discovery.load()
    found = run_experiment(
        build(raw, plugins, where), plugins, Path(out) if out else Path("runs") / stem, fresh=fresh
    )
    write_report(found)
    return found


def measure(
    probe: str | type[Probe],
    *,
    architecture: Any = None,
    dataset: Any = None,
    seed: int = 0,
    preset: str = "quick",
    estimators: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    weights: str | None = None,
    out: str | Path | None = None,
    **options: Any,
) -> Result:
    """Measure one thing and return its result; a failure is raised.

    `architecture` and `dataset` are a name, a dict with a name and options, or an object of your own: a callable that
    returns a module, a module, a pair of tensors, a torch dataset. `probe` may be a class of your own. Options of the
    probe, and device, dtype, shape, outputs, threads, executor and workers, are keywords.

    >>> penchant.measure("nad", architecture="lenet", samples=200).quantities["trace"]    # doctest: +SKIP
    """
    plugins = discovery.load()
    if not isinstance(probe, str):
        plugins, probe = _with_own(plugins, probe), probe.name
    settings = {name: options.pop(name) for name in _SETTINGS if name in options}
    entry = {
        "name": probe,
        "preset": preset,
        "estimators": estimators or {},
        "training": training or {},
        **options,
    }
    raw: dict[str, Any] = {**settings, "seeds": [seed], "probes": [entry]}
    for kind, given in (("architecture", architecture), ("dataset", dataset)):
        if given is not None:
            raw[f"{kind}s"] = [_component(given)]
            entry[f"{kind}s"] = [raw[f"{kind}s"][0].get("label", raw[f"{kind}s"][0].get("name"))]
    if weights is not None:
        raw["architectures"][0]["weights"] = weights
    with tempfile.TemporaryDirectory() as temporary:
        found = run_experiment(build(raw, plugins, "measure"), plugins, Path(out or temporary))
        if out:
            write_report(found)
        (job,) = found.jobs
        result = found.result(job["id"])
    if result.status != "done":
        raise Error(f"{probe} failed: {result.error}")
    return result


def _component(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"name": given}
    return dict(given) if isinstance(given, Mapping) else {"name": "import", "factory": given}


def _with_own(plugins: Plugins, probe: type[Probe]) -> Plugins:
    check_declaration(probe, Probe)
    return Plugins([*plugins.plugins, Plugin("own", "own", "0", components=(probe,))])
