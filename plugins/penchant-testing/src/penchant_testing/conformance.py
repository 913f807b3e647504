"""One test per property and component of a distribution."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
from penchant.components.roles import role_of
from penchant.plugins import discovery
from penchant.plugins.registry import Registration
from penchant.results.job_folder import JobFolder
from penchant.results.records import ResultRecord
from penchant.results.result import Result

from penchant_testing import checks
from penchant_testing.builders import experiment, only_job, run_unreported
from penchant_testing.claims import check_claims
from penchant_testing.emulated_device import NAME, emulated_device
from penchant_testing.executors import check_executor, run_in_processes
from penchant_testing.no_effect import check_no_effect
from penchant_testing.on_cuda import check_on_cuda, has_tested_device, on_tested_device
from penchant_testing.on_device import ROUNDING, check_on_device
from penchant_testing.small_calls import small_call
from penchant_testing.takes import CELLS, check_cell

HEAVY = ("torch", "numpy", "scipy", "matplotlib", "jinja2", "rich", "sklearn", "timm")


@attrs.frozen(eq=False)
class Property:
    """One property of one component, ready to be tested."""

    name: str
    check: Callable[[Path], Any]
    slow: bool = False
    cuda: bool = False


def _anywhere(function: Callable[..., Any], *arguments: Any) -> Callable[[Path], Any]:
    """A check that needs no folder."""

    def check(folder: Path) -> Any:
        return function(*arguments)

    return check


def registrations(distribution: str) -> list[Registration]:
    """The components of an installed distribution; a disabled one is an error with its reason."""
    plugins = discovery.load()
    for plugin in plugins.plugins:
        own = plugin.distribution == distribution
        if own and plugin.reason:
            raise AssertionError(f"{distribution} is disabled: {plugin.reason}")
    registrations = [
        registration
        for registration in plugins.registrations()
        if registration.distribution == distribution
    ]
    assert registrations, f"{distribution} registers no components; is it installed?"
    return registrations


def label(registration: Registration) -> str:
    """A name for a test of this component."""
    component = registration.component
    return f"{component.kind}-{component.name}"


def conformance(
    distribution: str,
    *,
    small: Mapping[str, Any] | None = None,
    conditional: Mapping[str, Sequence[str]] | None = None,
    claims: Mapping[str, Any] | None = None,
    unclaimed: Mapping[str, Mapping[str, str]] | None = None,
    without_null: Mapping[str, Mapping[str, str]] | None = None,
    no_effect: Mapping[str, Mapping[str, Any]] | None = None,
    effects: Mapping[str, Mapping[str, str]] | None = None,
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """A parametrised test: every property of every component of a distribution.

    Args:
        distribution: The plugin's distribution.
        small: Component to options that make it small: for a probe arguments of `penchant.measure`,
            or a list of several such, which together show everything it declares; for an
            architecture `shape` and options; for a dataset its options; for an estimator what
            `check_estimator` takes, under `estimator-NAME` where a probe has its name: every
            estimator is called, those of the kernel's roles without arguments, too. None: only
            its declaration is tested, unless it is an estimator.
        conditional: Probe to declared names that no small run produces, each for a reason.
        claims: Probe to arguments, or a list of several such, with which its errors are compared
            with the spread over seeds: what they are over must be drawn again with the seed, and
            no value may be at a bound. Without them these are its small runs. A quantity is
            compared in the first that gives its error.
        unclaimed: Probe to quantities whose errors cannot be compared so, each with its reason.
        without_null: Probe to quantities, or patterns such as `trace-*`, that have no null, each
            with its reason.
        no_effect: Probe to the arguments of a small run in which the effect is absent: an untrained
            network (`training` with `steps = 0`), or shuffled labels. Over twelve seeds no
            quantity may be significant in more than two.
        effects: Probe to quantities that differ from their null in that run, each with its reason.
        own: Probe to arguments of a small run on a trained network, a trajectory or tokens, if
            its first small run does not fit these.

    Returns:
        A test function for pytest.
    """
    import pytest

    exceptions = _Exceptions(
        conditional=dict(conditional or {}),
        claims=dict(claims or {}),
        unclaimed=dict(unclaimed or {}),
        without_null=dict(without_null or {}),
        no_effect=dict(no_effect or {}),
        effects=dict(effects or {}),
        own=dict(own or {}),
    )
    properties = _properties(distribution, dict(small or {}), exceptions)
    cases = []
    for each in properties:
        marks = [pytest.mark.slow] if each.slow else []
        if each.cuda:
            without = pytest.mark.skipif(not has_tested_device(), reason="no CUDA device")
            marks = [pytest.mark.cuda, without]
        case = pytest.param(each, id=each.name, marks=marks)
        cases.append(case)

    @pytest.mark.parametrize("prop", cases)
    def test_conforms(prop: Property, tmp_path: Path) -> None:
        prop.check(tmp_path)

    return test_conforms


@attrs.frozen(eq=False, kw_only=True)
class _Exceptions:
    """Exceptions from the general rules, by probe."""

    conditional: dict[str, Sequence[str]]
    claims: dict[str, Any]
    unclaimed: dict[str, Mapping[str, str]]
    without_null: dict[str, Mapping[str, str]]
    no_effect: dict[str, Mapping[str, Any]]
    effects: dict[str, Mapping[str, str]]
    own: dict[str, Mapping[str, Any]]

    @property
    def names(self) -> set[str]:
        """The probes that any of them is about."""
        return {
            *self.conditional,
            *self.claims,
            *self.unclaimed,
            *self.without_null,
            *self.no_effect,
            *self.effects,
            *self.own,
        }


def _properties(
    distribution: str, small: dict[str, Any], exceptions: _Exceptions
) -> Iterator[Property]:
    """All properties, those of the whole distribution first."""
    components = registrations(distribution)
    names = {registration.component.name for registration in components}
    # A misspelt name would leave its component untested.
    labels = {label(registration) for registration in components}
    unknown = (small.keys() | exceptions.names) - names - labels
    assert not unknown, f"{distribution} offers nothing called {sorted(unknown)}"
    package = components[0].package
    yield Property("light", _anywhere(check_light, package))
    # Options of a name that a probe shares with an estimator are the probe's.
    of_probes = {each.component.name for each in components if each.component.kind == "probe"}
    probes: dict[str, Any] = {}
    for registration in components:
        yield from _of_a_declaration(registration)
        name = registration.component.name
        # An estimator is called in every case: of one that is not, nothing is known.
        if registration.component.kind == "estimator":
            shared = {} if name in of_probes else small.get(name)
            yield _estimator_called(registration, small.get(label(registration), shared))
            continue
        # None: too large for a test, so that only its declaration is checked.
        arguments = small.get(name, {})
        if arguments is None:
            continue
        if registration.component.kind == "probe":
            runs = _several(arguments)
            probes[name] = runs
            yield from _of_a_probe(registration, runs, exceptions)
        elif name in small.keys() - of_probes or registration.component.kind == "dataset":
            yield from _of_an_axis(registration, arguments)
    # One pool for all of them: starting workers takes longer than most probes.
    if probes:
        check = functools.partial(check_processes, probes)
        yield Property("same-in-processes", check)
        on_device = functools.partial(check_processes_on_device, probes)
        yield Property("same-in-processes-on-device", on_device, slow=True)


def _of_a_declaration(registration: Registration) -> Iterator[Property]:
    """The properties that a component shows without running."""
    of = label(registration)
    # Complete in itself.
    declared = _anywhere(checks.check_component, registration)
    yield Property(f"{of}-declared", declared)
    # Its code where others look for it.
    location = _anywhere(check_rooms, registration)
    yield Property(f"{of}-file-location", location)


def _of_an_axis(registration: Registration, arguments: Mapping[str, Any]) -> Iterator[Property]:
    """Build networks, load samples, estimate, execute jobs."""
    of = label(registration)
    name = registration.component.name
    kind = registration.component.kind
    if kind == "architecture":
        check = functools.partial(checks.check_architecture, name, **arguments)
        yield Property(f"{of}-drawn", _anywhere(check))
    elif kind == "dataset":
        check = functools.partial(checks.check_dataset, name, **arguments)
        yield Property(f"{of}-loaded", _anywhere(check))
    elif kind == "executor":
        check = functools.partial(check_executor, name, **arguments)
        yield Property(f"{of}-used-as-all", check)


def _estimator_called(registration: Registration, arguments: Any) -> Property:
    """An estimator that answers the same twice; one whose call is not known fails."""
    of = label(registration)
    cls: Any = registration.component
    role = role_of(cls)
    assert role is not None
    default = small_call(role.name)
    if default is None and not arguments:
        return Property(f"{of}-same-twice", functools.partial(_never_called, of, role.name))
    given = {**(default or {}), **(arguments or {})}
    check = functools.partial(checks.check_estimator, cls.name, **given)
    return Property(f"{of}-same-twice", check)


def _never_called(of: str, role: str, folder: Path) -> None:
    raise AssertionError(
        f"{of} is never called: no small call of the role {role!r} is known, so `small` must have "
        "its arguments, such as {'architecture': ..., 'call': {...}}"
    )


def _of_a_probe(
    registration: Registration, runs: list[Mapping[str, Any]], exceptions: _Exceptions
) -> Iterator[Property]:
    """The properties that a probe shows when it runs small."""
    of = label(registration)
    small = _SmallProbe(registration, runs, exceptions)
    yield Property(f"{of}-presets", small.presets)
    yield Property(f"{of}-names", small.names)
    yield Property(f"{of}-errors", small.errors)
    yield Property(f"{of}-nulls", small.nulls)
    yield Property(f"{of}-same-twice", small.same_twice)
    yield Property(f"{of}-stored", small.stored)
    yield Property(f"{of}-figures", small.figures)
    yield Property(f"{of}-figure-widths", small.figure_widths, slow=True)
    for cell in CELLS:
        yield Property(f"{of}-takes-{cell}", functools.partial(small.takes, cell))
    yield Property(f"{of}-device", small.device)
    yield Property(f"{of}-cuda", small.cuda, cuda=True)
    yield Property(f"{of}-claims", small.claims, slow=True)
    if registration.component.name in exceptions.no_effect:
        yield Property(f"{of}-no-effect", small.no_effect, slow=True)


def _several(arguments: Any) -> list[Mapping[str, Any]]:
    """The arguments of one run, or of several."""
    if isinstance(arguments, (list, tuple)):
        return list(arguments)
    return [arguments]


@attrs.frozen(eq=False)
class _SmallProbe:
    """A probe with the runs that make it small: each method checks one property."""

    registration: Registration
    runs: list[Mapping[str, Any]]
    exceptions: _Exceptions

    @property
    def cls(self) -> Any:
        return self.registration.component

    def results(self) -> list[Result]:
        collected = []
        for arguments in self.runs:
            key = _frozen(arguments)
            collected.append(_cached_result(self.cls.name, key))
        return collected

    def presets(self, folder: Path) -> None:
        checks.check_presets(self.registration)

    def names(self, folder: Path) -> None:
        results = self.results()
        name = self.cls.name
        conditional = self.exceptions.conditional.get(name, ())
        checks.check_declared(self.cls, results, conditional)
        checks.check_tables(self.cls, results)

    def errors(self, folder: Path) -> None:
        for result in self.results():
            checks.check_errors(result)

    def nulls(self, folder: Path) -> None:
        results = self.results()
        name = self.cls.name
        reasons = self.exceptions.without_null.get(name, {})
        checks.check_nulls(self.cls, results, reasons)

    def same_twice(self, folder: Path) -> None:
        arguments = {**self.runs[0], "figures": False}
        again = checks.small_run(self.cls.name, folder, arguments)
        first, *_ = self.results()
        checks.assert_same(first, again, "a second run")

    def stored(self, folder: Path) -> None:
        result, *_ = self.results()
        subfolder = Path(str(dict(result.record)["folder"]))
        read = JobFolder(subfolder).read()
        checks.assert_same(result, read, "the disk")

    def takes(self, cell: str, folder: Path) -> None:
        arguments = self.runs[0]
        if cell not in ("fresh", "data"):
            arguments = self.exceptions.own.get(self.cls.name, arguments)
        check_cell(self.cls, cell, arguments, folder, self.runs[1:])

    def figures(self, folder: Path) -> None:
        checks.check_figures(self.cls, self.results())

    def figure_widths(self, folder: Path) -> None:
        checks.check_figure_widths(self.cls, self.results())

    def device(self, folder: Path) -> None:
        for subfolder, arguments, result in self._subfolders(folder):
            check_on_device(self.cls.name, subfolder, arguments, result)

    def cuda(self, folder: Path) -> None:
        with on_tested_device() as device:
            for subfolder, arguments, result in self._subfolders(folder):
                check_on_cuda(self.cls.name, subfolder, arguments, result, device=device)

    def _subfolders(self, folder: Path) -> Iterator[tuple[Path, Mapping[str, Any], Result]]:
        """A folder for each run elsewhere, its arguments, and its result here."""
        pairs = zip(self.runs, self.results())
        for number, (arguments, result) in enumerate(pairs):
            subfolder = folder / str(number)
            yield subfolder, arguments, result

    def no_effect(self, folder: Path) -> None:
        name = self.cls.name
        arguments = self.exceptions.no_effect[name]
        check_no_effect(name, folder, arguments, self.exceptions.effects.get(name, {}))

    def claims(self, folder: Path) -> None:
        name = self.cls.name
        runs = self.exceptions.claims.get(name, self.runs)
        # Every error that a small run gives must be compared with a spread.
        expected = set()
        for result in self.results():
            for key, quantity in result.quantities.items():
                if quantity.stderr is not None and not quantity.missing:
                    expected.add(key)
        reasons = self.exceptions.unclaimed.get(name)
        check_claims(name, folder, _several(runs), expected=expected, unclaimed=reasons)


def _frozen(value: Any) -> Any:
    """A key for the arguments of an experiment."""
    if isinstance(value, Mapping):
        pairs = [(key, _frozen(item)) for key, item in value.items()]
        return tuple(pairs)
    if isinstance(value, (list, tuple)):
        items = [_frozen(item) for item in value]
        return ("list", *items)
    return value


def _thawed(value: Any) -> Any:
    # Lists are marked, so that they are not taken for tables.
    if isinstance(value, tuple) and value[:1] == ("list",):
        return [_thawed(item) for item in value[1:]]
    if isinstance(value, tuple):
        return {key: _thawed(item) for key, item in value}
    return value


@functools.cache
def _cached_result(name: str, frozen: Any) -> Result:
    """The result of a small run, made once per process: every property checks the same one."""
    temporary = tempfile.mkdtemp(prefix="penchant-")
    folder = Path(temporary)
    arguments = {**_thawed(frozen), "figures": False}
    result = checks.small_run(name, folder, arguments)
    # Where it was written: what is read from there must be the same.
    subfolder = folder / "jobs" / result.record["id"]
    # A stored result knows of the arrays that it has, the job of all that are declared.
    job = only_job(name, arguments)
    record = {**result.record, "folder": str(subfolder), "about": job.record["about"]}
    return attrs.evolve(result, record=cast("ResultRecord", record))


def check_light(package: str) -> None:
    """Importing a plugin's declarations imports nothing heavy."""
    listing = f"[name for name in {HEAVY!r} if name in sys.modules]"
    code = f"import sys, {package}; print({listing})"
    command = [sys.executable, "-c", code]
    # In a process of its own: this one has imported everything long ago.
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.strip()
    assert printed == "[]", f"importing {package} imports {printed}"


def check_rooms(registration: Registration) -> None:
    """A component's code stands where its name says.

    A probe has a folder of its name with `probe.py` and `figures.py`, other components stand
    in `package.<kind>s`.
    """
    cls: Any = registration.component
    folder = f"{registration.package}.{cls.name.replace('-', '_')}"
    others = f"{registration.package}.{cls.kind}s"
    targets = {"target": cls.target}
    if getattr(cls, "figures", ""):
        targets["figures"] = cls.figures
    target_module = f"{folder}.probe" if cls.kind == "probe" else others
    rooms = {"target": target_module, "figures": f"{folder}.figures"}
    for kind, target in targets.items():
        # A class of the user's own has no package to stand in.
        if not isinstance(target, str):
            continue
        expected = rooms[kind]
        subfolder, _, _ = target.partition(":")
        assert subfolder.startswith(expected), f"{cls.name}: {target} is not in {expected}"


def check_processes_on_device(probes: Mapping[str, list[Mapping[str, Any]]], folder: Path) -> None:
    """Every probe gives the same in two worker processes with the emulated device as in one."""
    arguments = {"figures": False, "device": NAME}
    with emulated_device(rounding=ROUNDING):
        jobs = {name: only_job(name, {**runs[0], **arguments}) for name, runs in probes.items()}
        run_in_processes(list(jobs.values()), folder / "processes")
        for name, job in jobs.items():
            there = JobFolder.of(folder / "processes", job.id).read()
            assert there.status == "done", f"{name} failed in processes: {there.error}"
            raw = {**experiment(name, {**probes[name][0], **arguments}), "executor": "serial"}
            here = checks.only_result(run_unreported(raw, folder / name))
            checks.assert_same(here, there, f"{name}: processes on the device")


def check_processes(probes: Mapping[str, list[Mapping[str, Any]]], folder: Path) -> None:
    """Every probe gives the same in two worker processes."""
    jobs = {}
    for name, runs in probes.items():
        jobs[name] = only_job(name, {**runs[0], "figures": False})
    run_in_processes(list(jobs.values()), folder)
    for name, job in jobs.items():
        there = JobFolder.of(folder, job.id).read()
        assert there.status == "done", f"{name} failed in processes: {there.error}"
        # Compared with the run in this process.
        here = _cached_result(name, _frozen(probes[name][0]))
        checks.assert_same(here, there, f"{name}: processes")
