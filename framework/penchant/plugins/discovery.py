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
from typing import Any, Generic, TypeVar, cast

import attrs
import pluggy
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from penchant.components import builtin, hookspecs
from penchant.components.component import Component, Estimator, Probe
from penchant.components.roles import Role, role_of
from penchant.errors import Error, suggestion
from penchant.plugins.declaration_checks import check_declaration

GROUP = "penchant"
KERNEL = "penchant"  # the distribution whose components keep their plain names
SECONDS_TO_NAME = 10.0  # given to a plugin to be imported without a word
OWN = "own"  # the distribution of components that a user defines in Python


C = TypeVar("C", bound=Component)


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


@attrs.frozen
class Registry(Generic[C]):
    """The components of one kind, by name: `plugins.probes.get("nad")`."""

    base: type[C]
    plugins: Plugins

    def get(self, name: str, where: str = "") -> type[C]:
        """The component of this name (or `distribution/name`); see `Plugins.find`."""
        return cast("type[C]", self.plugins.find(self.base.kind, name, where).component)

    def __iter__(self) -> Iterator[type[C]]:
        """Every component, sorted by name."""
        registrations = self.plugins.registrations(self.base.kind)
        return iter([cast("type[C]", each.component) for each in registrations])


class Plugins:
    """All plugins, loaded or disabled, and the components of those that are loaded."""

    def __init__(self, plugins: Iterable[Plugin], without: tuple[str, ...] = ()) -> None:
        self.plugins = list(plugins)
        self.without = without  # names of those that were left out
        self.estimators = Registry(Estimator, self)
        self.probes = Registry(Probe, self)
        self._registrations: dict[tuple[str, str], list[Registration]] = {}
        self._listeners: dict[str, list[Plugin]] = {}  # by hook
        for plugin in self.plugins:
            for component in plugin.components:
                registration = Registration(component, plugin.distribution, plugin.version)
                # Several distributions may have a component of the same name.
                key = (component.kind, component.name)
                self._registrations.setdefault(key, []).append(registration)

    def registrations(self, kind: str | None = None) -> list[Registration]:
        """Every component of a kind, sorted by kind and name."""
        registrations = []
        for key, same in sorted(self._registrations.items(), key=lambda pair: pair[0]):
            if kind in (None, key[0]):
                registrations += sorted(same, key=lambda each: each.distribution)
        return registrations

    def roles(self) -> dict[Role[Any], list[Registration]]:
        """The estimators of every role, sorted by the role's name."""
        estimators: dict[Role[Any], list[Registration]] = {}
        for registration in self.registrations("estimator"):
            role = role_of(registration.component)
            if role is not None:
                estimators.setdefault(role, []).append(registration)
        return dict(sorted(estimators.items(), key=lambda pair: pair[0].name))

    def clash(self, component: type[Component]) -> str:
        """The distributions with a component of this kind and name, where there are several."""
        registrations = self._registrations[component.kind, component.name]
        return " and ".join(each.distribution for each in registrations if len(registrations) > 1)

    def address(self, registration: Registration) -> str:
        """The name that reaches this component."""
        name = registration.component.name
        if registration.distribution == KERNEL or not self.clash(registration.component):
            return name
        return f"{registration.distribution}/{name}"

    def find(self, kind: str, name: str, where: str = "") -> Registration:
        """The component of this kind with this name (or `distribution/name`).

        An error names the key `where`, and a hint: there is none, or there are several.
        """
        distribution, _, short = name.rpartition("/")
        same = self._registrations.get((kind, short), [])
        if distribution:
            same = [each for each in same if each.distribution == canonicalize_name(distribution)]
        # The kernel's components keep their plain name: a plugin cannot replace `serial`.
        same = [each for each in same if each.distribution == KERNEL] or same
        if len(same) == 1:
            return same[0]
        location = f" ({where})" if where else ""
        if same:
            sources = " and ".join(f"{each.distribution} {each.version}" for each in same)
            hint = " or ".join(f"'{each.distribution}/{short}'" for each in same)
            raise Error(f"the {kind} {name!r} is offered by {sources}; write {hint}{location}")
        near = suggestion(name, [self.address(each) for each in self.registrations(kind)])
        inside = self._collections(kind, short)
        raise Error(f"unknown {kind} {name!r}{near}{inside}{location}{self._disabled()}")

    def _collections(self, kind: str, name: str) -> str:
        """Components that have many under names of their own: `zoo:model=resnet50`."""
        texts = []
        for registration in self.registrations(kind):
            fields = attrs.fields(registration.component)
            required = [field for field in fields if field.default is attrs.NOTHING]
            # Text that is no target: the name of something inside.
            if len(required) == 1 and required[0].type in ("str", str):
                texts.append(f"'{self.address(registration)}:{required[0].name}={name}'")
        return f" Or {' or '.join(texts)}?" if texts else ""

    def _disabled(self) -> str:
        """Disabled plugins with their reasons: one of them may have the unknown name."""
        reasons = {f"{each.name} {each.version}": each.reason for each in self.plugins}
        return "".join(f"\n  {name} is disabled: {why}" for name, why in reasons.items() if why)

    def has(self, kind: str, name: str) -> bool:
        """Is there a component of this kind and name?"""
        return (kind, name.rpartition("/")[2]) in self._registrations

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
