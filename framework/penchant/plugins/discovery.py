"""Discovery: every plugin is tried by itself, and what is wrong with one never hurts another."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import pluggy
from penchant.components import builtin, hookspecs
from penchant.components.component import RESERVED, Component, Probe
from penchant.components.roles import role_of
from penchant.errors import Error, suggestion
from penchant.plugins import installed
from penchant.plugins.requirements import (
    base_version,
    metadata_headers,
    normalised,
    unfit,
)

GROUP = "penchant"
KERNEL = "penchant"  # the distribution whose components keep their plain names
OWN = "own"  # stands for the distribution of what a user hands over in Python
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@attrs.frozen
class Offer:
    """A component and the distribution it came from."""

    component: type[Component]
    distribution: str
    version: str

    @property
    def package(self) -> str:
        """The top-level package its declaration is in."""
        package, _, _ = self.component.__module__.partition(".")
        return package


@attrs.frozen
class Plugin:
    """One entry point: what it offers, or why it was set aside."""

    name: str
    distribution: str
    version: str
    reason: str = ""
    components: tuple[type[Component], ...] = ()
    manager: Any = None

    @property
    def status(self) -> str:
        """Set aside, or loaded."""
        return "set aside" if self.reason else "loaded"


class Plugins:
    """All plugins that were found, and a registry of components that knows who gave what."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins = list(plugins)
        self._offers: dict[tuple[str, str], list[Offer]] = {}
        for plugin in self.plugins:
            for component in plugin.components:
                offer = Offer(component, plugin.distribution, plugin.version)
                # Two distributions may offer the same name; then neither takes it from the other.
                key = (component.kind, component.name)
                same = self._offers.setdefault(key, [])
                same.append(offer)

    def offers(self, kind: str | None = None) -> list[Offer]:
        """Every component of a kind, sorted by kind and name."""
        found: list[Offer] = []
        for (each, _), offers in self._offers.items():
            if kind in (None, each):
                found.extend(offers)
        return sorted(found, key=_place)

    def clash(self, component: type[Component]) -> str:
        """The distributions that offer a component of this name, where there are several."""
        key = (component.kind, component.name)
        offers = self._offers[key]
        if len(offers) < 2:
            return ""
        names = [offer.distribution for offer in offers]
        return " and ".join(names)

    def address(self, offer: Offer) -> str:
        """The name that reaches this component."""
        name = offer.component.name
        distribution = offer.distribution
        if distribution == KERNEL or not self.clash(offer.component):
            return name
        return f"{distribution}/{name}"

    def find(
        self,
        kind: str,
        name: str,
        where: str = "",
    ) -> Offer:
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
        key = (kind, short)
        offers = self._offers.get(key, [])
        if distribution:
            wanted = normalised(distribution)
            offers = [offer for offer in offers if offer.distribution == wanted]
        # What the kernel offers keeps its plain name: a plugin cannot take `serial` away.
        kernel = [offer for offer in offers if offer.distribution == KERNEL]
        offers = kernel or offers
        if len(offers) == 1:
            return offers[0]

        place = f" ({where})" if where else ""
        # Several: the message says how each of them is reached.
        if offers:
            versions = [f"{offer.distribution} {offer.version}" for offer in offers]
            addresses = [f"'{offer.distribution}/{short}'" for offer in offers]
            found = " and ".join(versions)
            cure = " or ".join(addresses)
            raise Error(f"the {kind} {name!r} is offered by {found}; write {cure}{place}")
        # None: what is close, what may have it inside, and what is missing altogether.
        known = [self.address(offer) for offer in self.offers(kind)]
        near = suggestion(name, known)
        inside = self._collections(kind, short)
        aside = self._set_aside()
        raise Error(f"unknown {kind} {name!r}{near}{inside}{place}{aside}")

    def _collections(self, kind: str, name: str) -> str:
        """Components that have many under names of their own: `zoo:model=resnet50`."""
        found = []
        for offer in self.offers(kind):
            required = _required(offer.component)
            if len(required) != 1:
                continue
            # Text that is no target: the name of something inside.
            only = required[0]
            if only.type in ("str", str):
                address = self.address(offer)
                found.append(f"'{address}:{only.name}={name}'")
        if not found:
            return ""
        listed = " or ".join(found)
        return f" Or {listed}?"

    def has(self, kind: str, name: str) -> bool:
        """Is there a component of this kind and name?"""
        _, _, short = name.rpartition("/")
        key = (kind, short)
        return key in self._offers

    def _set_aside(self) -> str:
        """What a plugin set aside would have offered is unknown, so an unknown name lists all."""
        lines = []
        for plugin in self.plugins:
            if not plugin.reason:
                continue
            what = f"{plugin.name} {plugin.version}"
            lines.append(f"\n  {what} was set aside: {plugin.reason}")
        return "".join(lines)

    def notify(self, hook: str, **arguments: Any) -> Iterator[str]:
        """Call an event hook one plugin at a time; yields what went wrong, naming the plugin."""
        for plugin in self.plugins:
            if plugin.manager is None:
                continue
            try:
                call = getattr(plugin.manager.hook, hook)
                call(**arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # not even sys.exit in a tracker ends a measurement
                problem = f"{type(error).__name__}: {error}"
                yield f"plugin {plugin.name} {plugin.version} failed in {hook}: {problem}"

    def with_listener(self, name: str, listener: object) -> Plugins:
        """The same plugins and one more that only listens to events."""
        manager = _manager()
        manager.register(listener, name)
        version = kernel_version()
        heard = Plugin(name, KERNEL, version, manager=manager)
        return Plugins([*self.plugins, heard])

    def with_component(self, component: type[Component], base: type[Component]) -> Plugins:
        """The same plugins and one component of the user's own."""
        check_declaration(component, base)
        own = Plugin(
            name=OWN,
            distribution=OWN,
            version="0",
            components=(component,),
        )
        return Plugins([*self.plugins, own])


def _required(component: type[Component]) -> list[Any]:
    """Options that must be given."""
    fields = attrs.fields(component)
    return [field for field in fields if field.default is attrs.NOTHING]


def _place(offer: Offer) -> tuple[str, str, str]:
    component = offer.component
    return component.kind, component.name, offer.distribution


@functools.cache
def kernel_version() -> str:
    """The kernel's version, from its metadata."""
    headers = metadata_headers(installed.distribution(KERNEL))
    return headers["version"][0]


@attrs.frozen
class _Source:
    """An entry point and what its distribution's metadata say, read once."""

    point: Any
    distribution: str
    version: str
    requires: tuple[str, ...] = ()
    problem: str = ""

    @classmethod
    def of(cls, point: Any) -> _Source:
        # Entry points made by hand, as tests do, belong to no distribution.
        if point.dist is None:
            return cls(point, point.name, "0")
        try:
            headers = metadata_headers(point.dist)
            name = normalised(headers["name"][0])
            version, *_ = headers.get("version", ["0"])
            requires = tuple(headers.get("requires-dist", ()))
            return cls(point, name, version, requires)
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
    for point in installed.entry_points(GROUP):
        source = _Source.of(point)
        key = (source.distribution, point.name)
        # The first on the path counts, as for import.
        sources.setdefault(key, source)

    # A misspelt name would leave nothing out.
    names = {source.point.name for source in sources.values()}
    for name in (*without, *sorted(only)):
        if name not in names:
            near = suggestion(name, names)
            raise Error(f"unknown plugin {name!r}{near}")

    # The kernel's own components are never left out: without an executor nothing runs.
    plugins = [_kernel()]
    in_order = sorted(sources.values(), key=lambda source: source.point.name)
    with _uncollected():
        for source in in_order:
            name = source.point.name
            if only and name not in only:
                continue
            if name not in without:
                plugins.append(_try(source))
    return Plugins(plugins)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing that plugins declare is garbage, and every command pays for looking for some."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _kernel() -> Plugin:
    """What the kernel itself offers, as a plugin like all others."""
    manager = _manager()
    components = tuple(_components(builtin, manager))
    return Plugin(
        name=KERNEL,
        distribution=KERNEL,
        version=kernel_version(),
        components=components,
    )


class _Manager(pluggy.PluginManager):
    """Looks only at names that can be hooks: every command pays for each that is looked at."""

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        if not _is_hook(name):
            return None
        return super().parse_hookspec_opts(module_or_class, name)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        # Any other name may be a hook that is misspelt.
        if name.startswith("__"):
            return None
        return super().parse_hookimpl_opts(plugin, name)


def _is_hook(name: str) -> bool:
    return name.startswith(f"{GROUP}_")


def _manager() -> pluggy.PluginManager:
    manager = _Manager(GROUP)
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
    return Plugin(*described, components=components, manager=manager)


def _reason(error: BaseException) -> str:
    words = str(error).split()
    text = " ".join(words)  # pluggy's own messages have many lines
    if isinstance(error, Error):
        return text
    return f"{type(error).__name__}: {text}"


def _check_metadata(source: _Source) -> None:
    """Refuse a plugin that cannot be read, or that was made for another kernel."""
    if source.problem:
        raise Error(source.problem)
    version = base_version(kernel_version())
    for line in source.requires:
        wanted = unfit(line, KERNEL, version)
        if wanted:
            raise Error(f"it wants penchant {wanted}, this is penchant {version}")


def _components(module: Any, manager: pluggy.PluginManager) -> Iterator[type[Component]]:
    """What a module offers through its component hooks, each declaration checked."""
    manager.register(module)
    # A hook that is misspelt would otherwise offer nothing, and nobody would know.
    manager.check_pending()
    if not manager.get_hookcallers(module):
        raise Error("nothing in it is marked with @penchant.hookimpl")
    # Every hook that offers components, one kind after another.
    seen: set[tuple[str, str]] = set()
    for hook, base in hookspecs.COMPONENT_HOOKS.items():
        for component in _offered(manager, hook):
            check_declaration(component, base)
            key = (base.kind, component.name)
            if key in seen:
                raise Error(f"it offers the {base.kind} {component.name!r} twice")
            seen.add(key)
            yield component


def _offered(manager: pluggy.PluginManager, hook: str) -> Iterator[Any]:
    call = getattr(manager.hook, hook)
    for offered in call():
        if not isinstance(offered, (list, tuple)):
            kind = type(offered).__name__
            raise Error(f"{hook} must return a list of classes, found {kind}")
        yield from offered


def check_declaration(component: Any, base: type[Component]) -> None:
    """Refuse a declaration that users could not read, set or run.

    What takes longer (types of options, values of presets) is checked by the kit and when a
    component is used: every command pays for what is done here.
    """
    derived = isinstance(component, type) and issubclass(component, base)
    if not derived:
        raise Error(f"expected classes derived from penchant.{base.__name__}, found {component!r}")
    what = f"{component.__module__}.{component.__qualname__}"
    name = component.name or ""
    if not _NAME.fullmatch(name):
        found = f"found {component.name!r}"
        raise Error(f"the name of {what} must be lower-case words joined by hyphens, {found}")
    # Of the class itself: a docstring or fields of its base say nothing about it.
    own = component.__dict__
    if not own.get("__doc__"):
        raise Error(f"{what} needs a docstring: it is the help text")
    if own.get("__annotations__") and "__attrs_attrs__" not in own:
        raise Error(f"{what} must be decorated with @attrs.frozen")
    for field in attrs.fields(component):
        _check_field(field, what)
    if not component.target:
        raise Error(f"{what} has no target")
    _check_kind(component, base, what)


def _check_kind(
    component: Any,
    base: type[Component],
    what: str,
) -> None:
    """Refuse what is wrong with that which only some kinds have."""
    for listing in ("needs", "accepts", "uses"):
        # Elsewhere the word may be an option.
        if hasattr(base, listing):
            names = getattr(component, listing)
            _check_names(names, f"{what}.{listing}")
    if base.kind == "estimator" and role_of(component) is None:
        role = getattr(component, "role", "")
        raise Error(f"{what} has the role {role!r}, which is neither shared nor a penchant.Role")
    if issubclass(component, Probe):
        _check_preset_names(component, what)


def _check_field(field: Any, what: str) -> None:
    place = f"{what}.{field.name}"
    if "help" not in field.metadata:
        raise Error(f"{place} must be made with penchant.option()")
    # The experiment or the command line would take the value for itself.
    if field.name in RESERVED:
        raise Error(f"{place} has a reserved name")


def _check_names(value: Any, place: str) -> None:
    """Refuse one name where several are expected: `in` would look for a part of it."""
    if isinstance(value, (tuple, list)):
        return
    found = f"found {value!r}"
    if isinstance(value, str):
        found = f"found the text {value!r}: write ({value!r},)"
    raise Error(f"{place} must be a tuple of names, {found}")


def _check_preset_names(probe: type[Probe], what: str) -> None:
    """A preset that sets what a probe has not is a mistake that no user could mend."""
    options = {field.name for field in attrs.fields(probe)}
    known = options | {"estimators", "training"}
    for name, preset in probe.presets.items():
        place = f"preset {name!r} of {what}"
        unknown = preset.keys() - known
        if unknown:
            listed = ", ".join(sorted(unknown))
            raise Error(f"{place} sets unknown options: {listed}")

        # The same for what it chooses estimators for.
        estimators = preset.get("estimators", {})
        roles = estimators.keys() - probe.roles.keys()
        if roles:
            listed = ", ".join(sorted(roles))
            raise Error(f"{place} sets estimators of roles it has not: {listed}")
