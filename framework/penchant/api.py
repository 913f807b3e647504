"""Penchant from Python: `measure` one thing, make a `card`, `run` an experiment, `read` a run."""

import inspect
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.components.component import Estimator, Probe
from penchant.components.targets import resolve
from penchant.errors import Error, suggestion
from penchant.experiments.settings import Settings
from penchant.experiments.typed_text import label_of, parse_component
from penchant.extras import extra
from penchant.plugins import discovery
from penchant.plugins.discovery import Plugins
from penchant.request import Request
from penchant.results.result import Result
from penchant.results.runs import Run, read
from penchant.terminal import with_display

__all__ = ["card", "compare", "measure", "read", "run"]

_SETTINGS = {field.name for field in attrs.fields(Settings)} - {"seeds", "title", "quick"}


def run(
    experiment: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    quick: bool = False,
    progress: bool = True,
    only: Sequence[str] = (),
    plugins: Plugins | None = None,
    where: str = "experiment",
) -> Run:
    """Run an experiment and return the run; finished jobs are not computed again.

    Args:
        experiment: A TOML file, or a dict of the same form.
        out: The run folder; by default `runs/` and the file's name.
        fresh: Move an old run in this folder aside.
        quick: Run a reduced form: each probe's quick preset.
        progress: Print a line for each job on stderr; on a terminal or in a notebook show bars.
        only: Run only jobs whose id or labels match one of these patterns.
        plugins: The plugins with its components; by default all that are installed.
        where: The name of the experiment in messages.

    Returns:
        The run.

    >>> run = penchant.run("examples/quickstart.toml")             # doctest: +SKIP
    >>> run.results(probe="nad")[0].quantities["trace"]            # doctest: +SKIP
    """
    request = Request.of(experiment, where)
    # A dict may hold a torch device or an array where a file has text or a list.
    own = {name: request.raw[name] for name in _SETTINGS & request.raw.keys()}
    request = request.with_settings(_plain_settings(own))
    plugins = plugins or discovery.load()
    if progress:
        plugins = with_display(plugins, quantities=False)
    if quick:
        request = request.quick(plugins)
    return request.run(plugins, out, fresh=fresh, only=only)


def measure(
    probe: str | type[Probe],
    *,
    architecture: Any = None,
    dataset: Any = None,
    seed: int = 0,
    preset: str = "quick",
    estimators: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    weights: str | Path | Sequence[str | Path] | None = None,
    strict: bool | None = None,
    output: str | int | None = None,
    unit: int | Sequence[int] | None = None,
    label: str | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    **options: Any,
) -> Result:
    """Measure one thing and return its result; a failure is raised.

    It runs in this process, with everything you have defined or patched. With `workers` or
    `executor` it runs in worker processes, which import everything anew.

    Args:
        probe: Its name, or a class of your own.
        architecture: A name, with options as in "mlp:widths=[64]", a dict with a name and options,
            or an object of your own: a module class, a callable that returns a module, a module.
        dataset: The same for data: a name, a dict, a pair of tensors or arrays, a torch dataset or
            loader, columns or rows with names, a callable.
        seed: Seed of all random numbers.
        preset: Preset of the probe.
        estimators: Role to estimator: a name, with options as in
            "gradient-covariance:method=autograd", a dict with a name and options, or a class of
            your own; a list of these where a probe takes several.
        training: How networks are trained; for a network of your own it means: train it further.
        weights: A file of weights for the architecture, for probes that measure one network; or the
            checkpoints of one training, for curves over its steps: a pattern such as "run/*.pt", a
            folder, a list of files.
        strict: False leaves out weights that the network does not have.
        output: Of a network of your own that returns a dict, a tuple or an object: the entry that
            is its output, such as "logits" or 0.
        unit: Of a network of your own with several outputs: the only one that is measured; where
            outputs have several axes, its index along each, such as (0, 2, 2).
        label: The name of the architecture in results.
        out: Folder that stores the run, with its figures and report.
        fresh: Move an old run in this folder aside.
        **options: Options of the probe, and device, dtype, shape, outputs, threads, executor,
            workers and time_limit.

    Returns:
        Quantities, arrays, conventions and warnings.

    >>> penchant.measure("nad", architecture="lenet", networks=200)    # doctest: +SKIP
    """
    if "seeds" in options:
        hint = "measure with each, or give penchant.run an experiment with seeds"
        raise Error(f"measure takes one seed, found seeds {options['seeds']!r}: {hint}")
    plugins = with_display(discovery.load(), lines=False)
    drawing: Any = ""
    # A class of the user's own is registered like those of plugins.
    if not isinstance(probe, str):
        plugins = plugins.with_component(probe, Probe)
        # It is not installed, so that its result cannot be drawn by its name.
        drawing = probe.figures and resolve(probe.figures, f"the figures of {probe.name}")
        probe = probe.name
    chosen, plugins = _named_estimators(estimators or {}, plugins)
    settings = {name: options.pop(name) for name in _SETTINGS & options.keys()}
    _check_names(options, plugins.probes.get(probe, "measure"))
    own = {"weights": weights, "strict": strict, "output": output, "unit": unit, "label": label}
    raw = one_probe(
        probe,
        options,
        architectures=_architectures(architecture, own),
        datasets=[] if dataset is None else [_dataset(dataset)],
        preset=preset,
        estimators=chosen,
        training=dict(training or {}),
    )
    raw |= {**_plain_settings(settings), "seeds": [seed]}
    if raw.keys().isdisjoint(("executor", "workers")):
        raw["executor"] = "serial"
    if not out:
        # Skip figures: the folder is temporary.
        raw["figures"] = False
    with tempfile.TemporaryDirectory() as temporary:
        request = Request(raw, "measure", Path(temporary))
        run = request.run(plugins, out, fresh=fresh, temporary=not out)
        # Read before the temporary folder is deleted.
        (job,) = run.jobs
        result = run.result(job["id"])
    if result.status != "done":
        # One sentence in the last line, the traceback above it.
        error = Error(f"{probe} failed: {result.error}")
        if details := result.record.get("traceback"):
            error.add_note(details)
        raise error
    if drawing:
        result.record["figures"] = drawing
    return result


def card(network: Any, data: Any = None, *, minutes: float = 5.0, **options: Any) -> Any:
    """What a network prefers, on one page: every probe that takes it, until the minutes are used.

    Args:
        network: A module, a function or class that makes one, or an architecture's name.
        data: Samples for probes that need some: a pair of inputs and labels, a loader, a dataset's
            name.
        minutes: Time to use. What does not fit is named, with the minutes that it would take.
        **options: `weights`, a file for the network; `out`, the run folder; `shape` and `outputs`
            where there are no data; `seed`, `seeds`, `label`, `device`, `workers` and `fresh`.

    Returns:
        The card: print it, or see `.folder / "card.html"`; `.run` is the run, `.rows` its rows.

    >>> penchant.card("lenet", "digits:resize=32", minutes=2)          # doctest: +SKIP
    """
    return extra("card")(network, data, minutes=minutes, **options)


def compare(*runs: str | Path | Run) -> Any:
    """Compare runs with the first of them: the same probe, seed by seed where seeds are the same.

    Args:
        *runs: Two or more runs, or their folders.

    Returns:
        Differences with standard errors: `.table()`, `.to_pandas()`, `.write("compare.html")`.

    >>> penchant.compare("runs/before", "runs/after")              # doctest: +SKIP
    """
    return extra("compare")(*runs)


def one_probe(
    probe: str,
    options: Mapping[str, Any],
    *,
    architectures: list[dict[str, Any]],
    datasets: list[dict[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """The tables of an experiment of one probe, which is given everything.

    `more` are its preset, estimators and training; empty ones are left out.
    """
    given = {name: value for name, value in more.items() if value}
    entry: dict[str, Any] = {"name": probe, **options, **given}
    raw: dict[str, Any] = {"probes": [entry]}
    # The label that selects each table for the probe: it is given all of them.
    for key, tables in (("architectures", architectures), ("datasets", datasets)):
        if tables:
            raw[key] = _with_labels(tables)
            entry[key] = [label_of(table) for table in raw[key]]
    return raw


def _with_labels(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same tables; where a name stands twice, each with a label of its own."""
    names = [table.get("name") for table in tables]
    # A label that was given stays, also where another has the same name.
    return [
        {"label": f"{name}-{index}", **table} if names.count(name) > 1 else table
        for index, (name, table) in enumerate(zip(names, tables))
    ]


def _architectures(given: object, own: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of an architecture with weights, output and so on; none where none is given."""
    keys = {name: value for name, value in own.items() if value is not None}
    if given is None and keys:
        raise Error(f"{' and '.join(keys)} belong to an architecture, found none")
    if given is None:
        return []
    if isinstance(given, (list, tuple)):
        hint = "penchant.run takes an experiment with several"
        raise Error(f"measure takes one architecture, found {len(given)} in a list; {hint}")
    # A position is written as text, as in TOML.
    if isinstance(output := keys.get("output"), int):
        keys["output"] = str(output)
    return [{**component_table(given), **keys}]


def _dataset(given: object) -> dict[str, Any]:
    """The table of a dataset; a dict without a name holds the data themselves."""
    if isinstance(given, Mapping) and not isinstance(given.get("name"), str):
        return {"name": "import", "factory": given}
    return component_table(given)


def component_table(given: object) -> dict[str, Any]:
    """The table of an architecture or dataset: from text, a table, or an object."""
    if isinstance(given, str):
        return parse_component(given)
    if isinstance(given, Mapping):
        if not isinstance(given.get("name"), str):
            listed = ", ".join(map(repr, given))
            raise Error(f"expected a dict with a name and options, found one with {listed}")
        return dict(given)
    # An object of the user's own: `import` takes it as it is.
    return {"name": "import", "factory": given}


def _named_estimators(given: Mapping[str, Any], plugins: Plugins) -> tuple[dict[str, Any], Plugins]:
    """Estimators by name, and the plugins with the classes that were given in place of a name."""
    known = {each.component for each in plugins.registrations("estimator")}
    named: dict[str, Any] = {}
    for role, each in given.items():
        several = each if isinstance(each, (list, tuple)) else [each]
        for cls in filter(_is_estimator, several):
            if cls not in known:
                known.add(cls)
                plugins = plugins.with_component(cls, Estimator)
        names = [cls.name if _is_estimator(cls) else cls for cls in several]
        named[role] = names if several is each else names[0]
    return named, plugins


def _is_estimator(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, Estimator)


def _check_names(options: Mapping[str, Any], cls: type[Probe]) -> None:
    """Refuse an option that neither the probe nor `measure` has, with the nearest name."""
    of_probe = {field.name for field in attrs.fields(cls)}
    for name in options:
        if name not in of_probe:
            of_measure = inspect.signature(measure).parameters.keys() - {"options"}
            hint = suggestion(name, of_probe | of_measure | _SETTINGS)
            raise Error(f"neither measure nor {cls.name} has an option {name!r}{hint}")


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as TOML has them: torch's names of devices and types as text, arrays as lists."""
    plain = {}
    for name, value in settings.items():
        if name in ("device", "dtype"):
            value = str(value).removeprefix("torch.")
        elif hasattr(value, "tolist"):
            value = value.tolist()
        plain[name] = value
    return plain
