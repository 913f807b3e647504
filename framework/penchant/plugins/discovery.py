"""Discovery: each plugin is loaded by itself, so that a broken one cannot disturb the others."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.metadata
import inspect
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from types import FrameType
from typing import Any, cast

import attrs
import pluggy
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from penchant.components import builtin, hookspecs
from penchant.components.component import (
    Architecture,
    Component,
    Dataset,
    Estimator,
    Executor,
    Probe,
)
from penchant.components.roles import Role, role_of
from penchant.errors import Error, suggestion
from penchant.plugins.declaration_checks import check_declaration
from penchant.plugins.registry import KERNEL, OWN, Registration, Registry

GROUP = "penchant"
SECONDS_TO_NAME = 10.0  # given to a plugin to be imported without a word


@attrs.frozen
class Plugin:
    """One entry point: its components, or the reason why it is disabled."""

    name: str
    distribution: str
    version: str
    reason: str = ""
    components: tuple[type[Component], ...] = ()
    manager: pluggy.PluginManager | None = None
    point: EntryPoint | None = None

    @property
    def status(self) -> str:
        """Disabled, or loaded."""
        return "disabled" if self.reason else "loaded"


class Plugins:
    """All plugins, loaded or disabled, and the components of those that are loaded."""

    def __init__(self, plugins: Iterable[Plugin], without: tuple[str, ...] = ()) -> None:
        self.plugins = list(plugins)
        self.without = without  # names of those that were left out
        # One of the disabled ones may have a name that is unknown.
        reasons = {f"{each.name} {each.version}": each.reason for each in self.plugins}
        lines = [f"\n  {name} is disabled: {why}" for name, why in reasons.items() if why]
        disabled = "".join(lines)
        self.architectures = Registry(Architecture, disabled)
        self.datasets = Registry(Dataset, disabled)
        self.estimators = Registry(Estimator, disabled)
        self.probes = Registry(Probe, disabled)
        self.executors = Registry(Executor, disabled)
        all_kinds: tuple[Registry[Any], ...] = (
            self.architectures,
            self.datasets,
            self.estimators,
            self.executors,
            self.probes,
        )
        self._registries = {registry.kind: registry for registry in all_kinds}
        self._listeners: dict[str, list[Plugin]] = {}  # by hook
        for plugin in self.plugins:
            for component in plugin.components:
                registration = Registration(component, plugin.distribution, plugin.version)
                self._registries[component.kind].add(registration)

    def registrations(self, kind: str | None = None) -> list[Registration]:
        """Every component of a kind, sorted by kind and name."""
        registries = self._registries.values() if kind is None else [self._registries[kind]]
        return [each for registry in registries for each in registry.registrations()]

    def find(self, kind: str, name: str, where: str = "") -> Registration:
        """The component of this kind with this name; see `Registry.find`."""
        return self._registries[kind].find(name, where)

    def has(self, kind: str, name: str) -> bool:
        """Is there a component of this kind and name?"""
        return name in self._registries[kind]

    def clash(self, component: type[Component]) -> str:
        """The distributions with a component of this kind and name, where there are several."""
        return self._registries[component.kind].clash(component.name)

    def address(self, registration: Registration) -> str:
        """The name that reaches this component."""
        return self._registries[registration.component.kind].address(registration)

    def roles(self) -> dict[Role[Any], list[Registration]]:
        """The estimators of every role, sorted by the role's name."""
        estimators: dict[Role[Any], list[Registration]] = {}
        for registration in self.estimators.registrations():
            role = role_of(registration.component)
            if role is not None:
                estimators.setdefault(role, []).append(registration)
        return dict(sorted(estimators.items(), key=lambda pair: pair[0].name))

    def notify(
        self, hook: str, answers: list[Any] | None = None, **arguments: Any
    ) -> Iterator[str]:
        """Call an event hook one plugin at a time; yields what went wrong, naming the plugin.

        What the listeners answer is added to `answers`. A disk that takes no more is no failure of
        a plugin: it is raised when all were called.
        """
        answers = [] if answers is None else answers
        refused: Error | None = None
        for plugin in self._implementing(hook):
            assert plugin.manager is not None
            try:
                answers += getattr(plugin.manager.hook, hook)(**_copies(arguments))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # not even sys.exit in a tracker ends a measurement
                if _is_full(error):
                    refused = cast("Error", error)
                    continue
                problem = f"{type(error).__name__}: {error}"
                yield f"plugin {plugin.name} {plugin.version} failed in {hook}: {problem}"
        if refused is not None:
            raise refused

    def announce(self, hook: str, **arguments: Any) -> list[Any]:
        """Call an event hook, and return the answers; a listener that fails is warned of."""
        answers: list[Any] = []
        for problem in self.notify(hook, answers, **arguments):
            # Even with -W error, a failing listener must not stop the run.
            with contextlib.suppress(Warning):
                warnings.warn(problem, stacklevel=2)
        return answers

    def listening(self, hook: str) -> tuple[EntryPoint, ...]:
        """The entry points of plugins that implement an event hook, for other processes."""
        return tuple(plugin.point for plugin in self._implementing(hook) if plugin.point)

    def _implementing(self, hook: str) -> list[Plugin]:
        """The plugins that implement a hook: most of them listen to no event."""
        if hook not in self._listeners:
            managed = [plugin for plugin in self.plugins if plugin.manager is not None]
            self._listeners[hook] = [
                plugin
                for plugin in managed
                if getattr(plugin.manager.hook, hook).get_hookimpls()  # type: ignore[union-attr]
            ]
        return self._listeners[hook]

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


def _copies(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What one listener is given: a result is its own copy, so that it changes no other's."""
    return {
        name: value._read_only() if hasattr(value, "_read_only") else value
        for name, value in arguments.items()
    }


@functools.cache
def kernel_version() -> str:
    """The kernel's version, from its metadata."""
    return importlib.metadata.version(KERNEL)


@functools.lru_cache(maxsize=8)
def load(without: tuple[str, ...] = ()) -> Plugins:
    """Discover plugins, once per process.

    `PENCHANT_PLUGINS=a,b` limits them and `without` leaves some out.
    """
    listed = os.environ.get("PENCHANT_PLUGINS", "").split(",")
    only = {name.strip() for name in listed if name.strip()}
    # Metadata only: nothing is imported before the selection is known.
    found: dict[tuple[str, str], Plugin] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        plugin = _described(point)
        # The first on the path counts, as for import.
        found.setdefault((plugin.distribution, plugin.name), plugin)
    # A misspelt name would leave nothing out.
    names = {plugin.name for plugin in found.values()}
    for name in (*without, *sorted(only)):
        if name not in names:
            raise Error(f"unknown plugin {name!r}{suggestion(name, names)}")
    # The kernel's own components are never left out: without an executor nothing runs.
    own = tuple(_components(builtin, _manager()))
    plugins = [Plugin(KERNEL, KERNEL, kernel_version(), components=own)]
    for plugin in sorted(found.values(), key=lambda plugin: plugin.name):
        if plugin.name not in without and (not only or plugin.name in only):
            plugins.append(_try(plugin))
    return Plugins(plugins, without)


@functools.lru_cache(maxsize=8)
def load_only(points: tuple[EntryPoint, ...]) -> Plugins:
    """The plugins of these entry points only, loaded once per process."""
    return Plugins(_try(_described(point)) for point in points)


def _is_full(error: BaseException) -> bool:
    """Could a file of the run not be written because the disk is full?"""
    cause = error.__cause__
    full = (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, Error) and isinstance(cause, OSError) and cause.errno in full


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    return manager


def _described(point: EntryPoint) -> Plugin:
    """The plugin of an entry point, from its metadata alone."""
    # Entry points made by hand, as tests do, belong to no distribution.
    if point.dist is None:
        return Plugin(point.name, point.name, "0", point=point)
    try:
        metadata = point.dist.metadata
        distribution = canonicalize_name(metadata["Name"])
        requires = metadata.get_all("Requires-Dist") or []
    except Exception:  # a folder without METADATA, or with an empty one
        return Plugin(point.name, point.name, "0", reason="its metadata cannot be read")
    version = metadata["Version"] or "0"
    return Plugin(point.name, distribution, version, _refusal(requires), point=point)


def _refusal(requires: list[str]) -> str:
    """Why a plugin with these requirements was not made for this kernel; empty if it was."""
    version = Version(kernel_version()).base_version
    for line in requires:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            return f"its metadata has a requirement that cannot be read: {line!r}"
        # Requirements of extras, or of another system, say nothing about this kernel.
        marker = requirement.marker
        holds = marker is None or marker.evaluate({"extra": ""})
        if canonicalize_name(requirement.name) != KERNEL or not holds:
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            return f"it needs penchant {requirement.specifier}, this is penchant {version}"
    return ""


def _try(plugin: Plugin) -> Plugin:
    """Load one plugin in a manager of its own, isolated from the others."""
    if plugin.reason or plugin.point is None:
        return plugin
    manager = _manager()
    try:
        # What a plugin prints when it is imported must not end up in a table or in JSON.
        with _own_interrupts(), contextlib.redirect_stdout(sys.stderr), _named_if_slow(plugin):
            components = tuple(_components(plugin.point.load(), manager))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin may even raise SystemExit
        text = " ".join(str(error).split())  # pluggy's own messages have many lines
        reason = text if isinstance(error, Error) else f"{type(error).__name__}: {text}"
        return attrs.evolve(plugin, reason=reason)
    return attrs.evolve(plugin, components=components, manager=manager)


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Make an error of a KeyboardInterrupt without Ctrl-C: a plugin raised it itself."""
    pressed = False
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        assert callable(before)
        before(number, frame)

    # Ctrl-C reaches the main thread only, and not a process that ignores it.
    noted = callable(before) and threading.current_thread() is threading.main_thread()
    if noted:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    except KeyboardInterrupt as error:
        # SIGTERM raises a kind of its own.
        if pressed or type(error) is not KeyboardInterrupt:
            raise
        raise Error(f"KeyboardInterrupt: {error}") from error
    finally:
        # A plugin may have set a handler of its own.
        if noted and signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _named_if_slow(plugin: Plugin) -> Iterator[None]:
    """Name a plugin on stderr whose import takes long, because the next one waits for it."""

    def name() -> None:
        if sys.stderr is not None:
            what = f"plugin {plugin.name!r} {plugin.version} is still being imported after"
            cure = f"`penchant --without {plugin.name} ...` leaves it out"
            sys.stderr.write(f"penchant: {what} {SECONDS_TO_NAME:g} s; {cure}\n")
            sys.stderr.flush()

    timer = threading.Timer(SECONDS_TO_NAME, name)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _components(module: object, manager: pluggy.PluginManager) -> Iterator[type[Component]]:
    """The components that the hooks of a module return, each declaration checked."""
    _check_hooks(module)
    manager.register(module)
    # A misspelt hook would otherwise be ignored without a message.
    manager.check_pending()
    if not manager.get_hookcallers(module):
        raise Error("nothing in it is marked with @penchant.hookimpl")
    seen: set[tuple[str, str]] = set()
    for hook, base in hookspecs.COMPONENT_HOOKS.items():
        for components in getattr(manager.hook, hook)():
            if not isinstance(components, (list, tuple)):
                kind = type(components).__name__
                raise Error(f"{hook} must return a list of classes, found {kind}")
            for component in components:
                check_declaration(component, base)
                if (base.kind, component.name) in seen:
                    raise Error(f"it offers the {base.kind} {component.name!r} twice")
                seen.add((base.kind, component.name))
                yield component


def _check_hooks(module: object) -> None:
    """Refuse a hook without its mark, and a mark on what is no hook."""
    known = [name for name in vars(hookspecs) if name.startswith(f"{GROUP}_")]
    for name, function in inspect.getmembers(module, inspect.isfunction):
        marked = hasattr(function, f"{GROUP}_impl")
        if name in known and not marked:
            raise Error(f"its function {name} is not marked with @penchant.hookimpl")
        if marked and name not in known:
            raise Error(f"there is no hook {name!r}{suggestion(name, known)}")
