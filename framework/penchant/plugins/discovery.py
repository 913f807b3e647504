"""Discovery: every plugin is tried by itself, and what is wrong with one never hurts another."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import attrs
import pluggy
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from penchant.components import builtin, hookspecs
from penchant.components.component import Component
from penchant.errors import Error, suggestion
from penchant.plugins.declaration_checks import check_declaration

GROUP = "penchant"
KERNEL = "penchant"  # the distribution whose components keep their plain names
OWN = "own"  # stands for the distribution of what a user hands over in Python


@attrs.frozen
class Registration:
    """A component and the distribution it came from."""

    component: type[Component]
    distribution: str
    version: str

    @property
    def package(self) -> str:
        """The top-level package its declaration is in."""
        return self.component.__module__.partition(".")[0]


@attrs.frozen
class Plugin:
    """One entry point: what it offers, or why it was set aside."""

    name: str
    distribution: str
    version: str
    reason: str = ""
    components: tuple[type[Component], ...] = ()
    manager: pluggy.PluginManager | None = None
    point: EntryPoint | None = None

    @property
    def status(self) -> str:
        """Set aside, or loaded."""
        return "set aside" if self.reason else "loaded"


class Plugins:
    """All plugins that were found, and a registry of components that knows who gave what."""

    def __init__(self, plugins: Iterable[Plugin], without: tuple[str, ...] = ()) -> None:
        self.plugins = list(plugins)
        self.without = without  # names of those that were left out
        self._offers: dict[tuple[str, str], list[Registration]] = {}
        for plugin in self.plugins:
            for component in plugin.components:
                registration = Registration(component, plugin.distribution, plugin.version)
                # Two distributions may offer the same name; then neither takes it from the other.
                self._offers.setdefault((component.kind, component.name), []).append(registration)

    def registrations(self, kind: str | None = None) -> list[Registration]:
        """Every component of a kind, sorted by kind and name."""
        same = [
            registrations
            for (each, _), registrations in self._offers.items()
            if kind in (None, each)
        ]
        return sorted(itertools.chain(*same), key=_sort_key)

    def clash(self, component: type[Component]) -> str:
        """The distributions that offer a component of this name, where there are several."""
        registrations = self._offers[component.kind, component.name]
        return (
            " and ".join(registration.distribution for registration in registrations)
            if len(registrations) > 1
            else ""
        )

    def address(self, registration: Registration) -> str:
        """The name that reaches this component."""
        name = registration.component.name
        if registration.distribution == KERNEL or not self.clash(registration.component):
            return name
        return f"{registration.distribution}/{name}"

    def find(self, kind: str, name: str, where: str = "") -> Registration:
        """The component of this kind with this name (or `distribution/name`).

        Args:
            kind: architecture, dataset, estimator, probe or executor.
            name: Its name, or `distribution/name`.
            where: What asks for it, for the message.

        Returns:
            The component and where it comes from.

        Raises:
            Error: There is none, or there are several; the message says what helps.
        """
        distribution, _, short = name.rpartition("/")
        registrations = self._offers.get((kind, short), [])
        if distribution:
            wanted = canonicalize_name(distribution)
            registrations = [
                registration
                for registration in registrations
                if registration.distribution == wanted
            ]
        # What the kernel offers keeps its plain name: a plugin cannot take `serial` away.
        registrations = [
            registration for registration in registrations if registration.distribution == KERNEL
        ] or registrations
        if len(registrations) == 1:
            return registrations[0]
        place = f" ({where})" if where else ""
        # Several: the message says how each of them is reached.
        if registrations:
            found = " and ".join(
                f"{registration.distribution} {registration.version}"
                for registration in registrations
            )
            cure = " or ".join(
                f"'{registration.distribution}/{short}'" for registration in registrations
            )
            raise Error(f"the {kind} {name!r} is offered by {found}; write {cure}{place}")
        # None: what is close, what may have it inside, and what is missing altogether.
        near = suggestion(
            name, [self.address(registration) for registration in self.registrations(kind)]
        )
        inside = self._collections(kind, short)
        raise Error(f"unknown {kind} {name!r}{near}{inside}{place}{self._set_aside()}")

    def _collections(self, kind: str, name: str) -> str:
        """Components that have many under names of their own: `zoo:model=resnet50`."""
        found = []
        for registration in self.registrations(kind):
            fields = attrs.fields(registration.component)
            required = [field for field in fields if field.default is attrs.NOTHING]
            # Text that is no target: the name of something inside.
            if len(required) == 1 and required[0].type in ("str", str):
                found.append(f"'{self.address(registration)}:{required[0].name}={name}'")
        return f" Or {' or '.join(found)}?" if found else ""

    def has(self, kind: str, name: str) -> bool:
        """Is there a component of this kind and name?"""
        return (kind, name.rpartition("/")[2]) in self._offers

    def _set_aside(self) -> str:
        """What a plugin set aside would have offered is unknown, so an unknown name lists all."""
        aside = [plugin for plugin in self.plugins if plugin.reason]
        lines = [f"\n  {each.name} {each.version} was set aside: {each.reason}" for each in aside]
        return "".join(lines)

    def notify(self, hook: str, **arguments: Any) -> Iterator[str]:
        """Call an event hook one plugin at a time; yields what went wrong, naming the plugin."""
        for plugin in self.plugins:
            if plugin.manager is None:
                continue
            try:
                getattr(plugin.manager.hook, hook)(**arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # not even sys.exit in a tracker ends a measurement
                problem = f"{type(error).__name__}: {error}"
                yield f"plugin {plugin.name} {plugin.version} failed in {hook}: {problem}"

    def announce(self, hook: str, **arguments: Any) -> None:
        """Call an event hook; a listener that fails is reported as a warning and hurts nothing."""
        for problem in self.notify(hook, **arguments):
            # Even with -W error, a failing listener must not stop the run.
            with contextlib.suppress(Warning):
                warnings.warn(problem, stacklevel=2)

    def listening(self, hook: str) -> tuple[EntryPoint, ...]:
        """The entry points of plugins that implement an event hook, for other processes."""
        found = []
        for each in self.plugins:
            if each.point and each.manager and getattr(each.manager.hook, hook).get_hookimpls():
                found.append(each.point)
        return tuple(found)

    def with_listener(self, name: str, listener: object) -> Plugins:
        """The same plugins and one more that only listens to events."""
        manager = _manager()
        manager.register(listener, name)
        listening = Plugin(name, KERNEL, kernel_version(), manager=manager)
        return Plugins([*self.plugins, listening], self.without)

    def with_component(self, component: type[Component], base: type[Component]) -> Plugins:
        """The same plugins and one component of the user's own."""
        check_declaration(component, base)
        own = Plugin(OWN, OWN, "0", components=(component,))
        return Plugins([*self.plugins, own], self.without)


def _sort_key(registration: Registration) -> tuple[str, str, str]:
    return registration.component.kind, registration.component.name, registration.distribution


@functools.cache
def kernel_version() -> str:
    """The kernel's version, from its metadata."""
    return importlib.metadata.version(KERNEL)


@attrs.frozen
class _Source:
    """An entry point and what its distribution's metadata say, read once."""

    point: EntryPoint
    distribution: str
    version: str
    requires: tuple[str, ...] = ()
    problem: str = ""

    @classmethod
    def of(cls, point: EntryPoint) -> _Source:
        # Entry points made by hand, as tests do, belong to no distribution.
        if point.dist is None:
            return cls(point, point.name, "0")
        try:
            metadata = point.dist.metadata
            name = canonicalize_name(metadata["Name"])
            requires = tuple(metadata.get_all("Requires-Dist") or ())
            return cls(point, name, metadata["Version"] or "0", requires)
        except Exception:  # a folder without METADATA, or with an empty one
            return cls(point, point.name, "0", problem="its metadata cannot be read")


@functools.lru_cache(maxsize=8)
def load(without: tuple[str, ...] = ()) -> Plugins:
    """Discover plugins, once per process.

    `PENCHANT_PLUGINS=a,b` limits them and `without` leaves some out.
    """
    listed = os.environ.get("PENCHANT_PLUGINS", "").split(",")
    only = {name.strip() for name in listed if name.strip()}
    # Metadata only: nothing is imported before it is clear what is wanted.
    sources: dict[tuple[str, str], _Source] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        source = _Source.of(point)
        # The first on the path counts, as for import.
        sources.setdefault((source.distribution, point.name), source)
    # A misspelt name would leave nothing out.
    names = {source.point.name for source in sources.values()}
    for name in (*without, *sorted(only)):
        if name not in names:
            raise Error(f"unknown plugin {name!r}{suggestion(name, names)}")
    # The kernel's own components are never left out: without an executor nothing runs.
    own = tuple(_components(builtin, _manager()))
    plugins = [Plugin(KERNEL, KERNEL, kernel_version(), components=own)]
    for source in sorted(sources.values(), key=lambda source: source.point.name):
        name = source.point.name
        if name not in without and (not only or name in only):
            plugins.append(_try(source))
    return Plugins(plugins, without)


@functools.lru_cache(maxsize=8)
def load_only(points: tuple[EntryPoint, ...]) -> Plugins:
    """The plugins of these entry points, once per process: no others are looked for."""
    return Plugins(_try(_Source.of(point)) for point in points)


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    return manager


def _try(source: _Source) -> Plugin:
    """Load one entry point in a manager of its own, so that nothing it does reaches another."""
    manager = _manager()
    described = (source.point.name, source.distribution, source.version)
    try:
        _check_metadata(source)
        # What a plugin prints when it is imported must not end up in a table or in JSON.
        with contextlib.redirect_stdout(sys.stderr):
            components = tuple(_components(source.point.load(), manager))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin may even raise SystemExit
        return Plugin(*described, reason=_reason(error))
    return Plugin(*described, components=components, manager=manager, point=source.point)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())  # pluggy's own messages have many lines
    return text if isinstance(error, Error) else f"{type(error).__name__}: {text}"


def _check_metadata(source: _Source) -> None:
    """Refuse a plugin that cannot be read, or that was made for another kernel."""
    if source.problem:
        raise Error(source.problem)
    version = Version(kernel_version()).base_version
    for line in source.requires:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            raise Error(f"its metadata has a requirement that cannot be read: {line!r}") from None
        specifier = wanted.specifier
        if _is_about_the_kernel(wanted) and not specifier.contains(version, prereleases=True):
            raise Error(f"it wants penchant {specifier}, this is penchant {version}")


def _is_about_the_kernel(requirement: Requirement) -> bool:
    """Is it a version of the kernel that is wanted, here and without an extra?"""
    marker = requirement.marker
    same = canonicalize_name(requirement.name) == KERNEL
    return same and (marker is None or marker.evaluate({"extra": ""}))


def _components(module: object, manager: pluggy.PluginManager) -> Iterator[type[Component]]:
    """What a module offers through its component hooks, each declaration checked."""
    manager.register(module)
    # A hook that is misspelt would otherwise offer nothing, without a message.
    manager.check_pending()
    if not manager.get_hookcallers(module):
        raise Error("nothing in it is marked with @penchant.hookimpl")
    seen: set[tuple[str, str]] = set()
    for hook, base in hookspecs.COMPONENT_HOOKS.items():
        for component in _offered(manager, hook):
            check_declaration(component, base)
            if (base.kind, component.name) in seen:
                raise Error(f"it offers the {base.kind} {component.name!r} twice")
            seen.add((base.kind, component.name))
            yield component


def _offered(manager: pluggy.PluginManager, hook: str) -> Iterator[Any]:
    for offered in getattr(manager.hook, hook)():
        if not isinstance(offered, (list, tuple)):
            raise Error(f"{hook} must return a list of classes, found {type(offered).__name__}")
        yield from offered
