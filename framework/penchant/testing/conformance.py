"""One test a property and component, made from what a distribution offers."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.execution.pools import ProcessPool
from penchant.execution.runner import run_job
from penchant.plugins import discovery
from penchant.plugins.discovery import Offer
from penchant.results.result import Result, read_result
from penchant.testing import checks
from penchant.testing.claims import check_claims
from penchant.testing.parts import only_job

HEAVY = ("torch", "numpy", "scipy", "matplotlib", "jinja2", "rich", "sklearn", "timm")


@attrs.frozen(eq=False)
class Property:
    """One property of one component, ready to be tested."""

    name: str
    check: Callable[[Path], Any]
    slow: bool = False


def _anywhere(function: Callable[..., Any], *arguments: Any) -> Callable[[Path], Any]:
    """A check that needs no folder."""
    return lambda folder: function(*arguments)


def offers(distribution: str) -> list[Offer]:
    """The components of an installed distribution; one set aside is an error with its reason."""
    plugins = discovery.load()
    for plugin in plugins.plugins:
        if plugin.distribution == distribution and plugin.reason:
            raise AssertionError(f"{distribution} was set aside: {plugin.reason}")
    found = [offer for offer in plugins.offers() if offer.distribution == distribution]
    assert found, f"{distribution} offers nothing; is it installed?"
    return found


def label(offer: Offer) -> str:
    """A name for a test of this component."""
    return f"{offer.component.kind}-{offer.component.name}"


def conformance(
    distribution: str,
    *,
    small: Mapping[str, Any] | None = None,
    conditional: Mapping[str, Sequence[str]] | None = None,
) -> Any:
    """A parametrised test: every property of every component of a distribution.

    Args:
        distribution: The plugin's distribution.
        small: Component to options that make it small: for a probe the parts of an experiment, or
            a list of several such, which together show everything it declares; for an architecture
            `shape` and options; for a dataset its options. None: only its declaration is tested.
        conditional: Probe to declared names that no small run produces, each for a reason.

    Returns:
        A test function for pytest.
    """
    import pytest

    cases = []
    for each in _properties(distribution, dict(small or {}), dict(conditional or {})):
        marks = [pytest.mark.slow] if each.slow else []
        cases.append(pytest.param(each, id=each.name, marks=marks))

    @pytest.mark.parametrize("prop", cases)
    def test_conforms(prop: Property, tmp_path: Path) -> None:
        prop.check(tmp_path)

    return test_conforms


def _properties(
    distribution: str, small: dict[str, Any], conditional: dict[str, Sequence[str]]
) -> Iterator[Property]:
    """All properties, those of the whole distribution first."""
    found = offers(distribution)
    names = {offer.component.name for offer in found}
    unknown = (small.keys() | conditional.keys()) - names
    assert not unknown, f"{distribution} offers nothing called {sorted(unknown)}"
    package = found[0].package
    yield Property("light", _anywhere(check_light, package))
    probes: dict[str, Any] = {}
    for offer in found:
        name = offer.component.name
        of = label(offer)
        yield Property(f"{of}-declared", _anywhere(checks.check_component, offer))
        yield Property(f"{of}-in-its-room", _anywhere(check_rooms, offer))
        parts = small.get(name, {})
        if parts is None:
            continue
        if offer.component.kind == "probe":
            runs = list(parts) if isinstance(parts, (list, tuple)) else [parts]
            probes[name] = runs
            yield from _of_a_probe(offer, runs, conditional.get(name, ()))
        elif name in small and offer.component.kind == "architecture":
            check = functools.partial(checks.check_architecture, name, **parts)
            yield Property(f"{of}-drawn", _anywhere(check))
        elif offer.component.kind == "dataset":
            check = functools.partial(checks.check_dataset, name, **parts)
            yield Property(f"{of}-loaded", _anywhere(check))
    if probes:
        yield Property("same-in-processes", lambda folder: check_processes(probes, folder))


def _of_a_probe(
    offer: Offer, runs: list[Mapping[str, Any]], conditional: Sequence[str]
) -> Iterator[Property]:
    """The properties that a probe shows when it runs small."""
    cls: Any = offer.component
    of = label(offer)

    def results() -> list[Result]:
        return [_kept(cls.name, _frozen(parts)) for parts in runs]

    def same_twice(folder: Path) -> None:
        again = checks.small_run(cls.name, folder, {**runs[0], "figures": False})
        checks.assert_same(results()[0], again, "a second run")

    def errors(folder: Path) -> None:
        for result in results():
            checks.check_errors(result)

    def stored(folder: Path) -> None:
        result = results()[0]
        place = Path(result.record["kept_in"])
        checks.assert_same(result, read_result(place), "the disk")

    def device(folder: Path) -> None:
        for number, (parts, result) in enumerate(zip(runs, results())):
            checks.check_on_device(cls.name, folder / str(number), parts, result)

    yield Property(f"{of}-presets", lambda folder: checks.check_presets(offer))
    yield Property(f"{of}-names", lambda folder: checks.check_declared(cls, results(), conditional))
    yield Property(f"{of}-errors", errors)
    yield Property(f"{of}-same-twice", same_twice)
    yield Property(f"{of}-stored", stored)
    yield Property(f"{of}-figures", lambda folder: checks.check_figures(cls, results()))
    yield Property(f"{of}-device", device)
    yield Property(
        f"{of}-claims", lambda folder: check_claims(cls.name, folder, runs[0]), slow=True
    )


def _frozen(value: Any) -> Any:
    """A key for parts of an experiment."""
    if isinstance(value, Mapping):
        return tuple((key, _frozen(part)) for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ("list", *(_frozen(part) for part in value))
    return value


def _thawed(value: Any) -> Any:
    if isinstance(value, tuple) and value[:1] == ("list",):
        return [_thawed(part) for part in value[1:]]
    if isinstance(value, tuple):
        return {key: _thawed(part) for key, part in value}
    return value


@functools.cache
def _kept(name: str, frozen: Any) -> Result:
    """The result of a small run, made once a process: every property looks at the same one."""
    folder = Path(tempfile.mkdtemp(prefix="penchant-"))
    result = checks.small_run(name, folder, {**_thawed(frozen), "figures": False})
    place = folder / "jobs" / result.record["id"]
    return attrs.evolve(result, record={**result.record, "kept_in": str(place)})


def check_light(package: str) -> None:
    """Importing a plugin's declarations imports nothing heavy."""
    code = f"import sys, {package}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", f"importing {package} imports {done.stdout.strip()}"


def check_rooms(offer: Offer) -> None:
    """A component's code stands where its name says: `package.<kind>s.<name>`."""
    cls: Any = offer.component
    room = f"{offer.package}.{cls.kind}s"
    targets = {"target": cls.target}
    if getattr(cls, "figures", ""):
        targets["figures"] = cls.figures
    for kind, target in targets.items():
        if not isinstance(target, str):
            continue
        expected = room if kind == "target" else f"{offer.package}.figures"
        place, _, _ = target.partition(":")
        assert place.startswith(expected), f"{cls.name}: {target} is not in {expected}"


def check_processes(probes: Mapping[str, list[Mapping[str, Any]]], folder: Path) -> None:
    """Shards of every probe give the same in two worker processes."""
    pool = ProcessPool(None, 2, 1)
    try:
        for name, runs in probes.items():
            job = only_job(name, {**runs[0], "figures": False})
            result = run_job(job, folder, pool=pool)
            assert result.status == "done", f"{name} failed in processes: {result.error}"
            here = _kept(name, _frozen(runs[0]))
            checks.assert_same(here, read_result(folder / "jobs" / job.id), f"{name}: processes")
    finally:
        pool.close()
