"""Discovery: every plugin is tried by itself, and what is wrong with one never hurts another."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import pluggy
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from penchant import builtin, hookspecs
from penchant.components import RESERVED, Component, Probe, hints
from penchant.errors import Error, suggestion
from penchant.roles import role_of
from penchant.training import Training

GROUP = "penchant"


@attrs.frozen
class Offer:
    """A component and the distribution it came from."""

    component: type[Component]
    distribution: str
    version: str


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
        return "set aside" if self.reason else "loaded"


class Plugins:
    """All plugins that were found, and a registry of their components that knows who gave what."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins = list(plugins)
        self._offers: dict[tuple[str, str], list[Offer]] = {}
        for plugin in self.plugins:
            for component in plugin.components:
                offer = Offer(component, plugin.distribution, plugin.version)
                self._offers.setdefault((component.kind, component.name), []).append(offer)

    def offers(self, kind: str | None = None) -> list[Offer]:
        """Every component of a kind, sorted by kind and name; clashing ones under `distribution/name` only."""
        found = [
            offer
            for (each, _), offers in self._offers.items()
            for offer in offers
            if kind in (None, each)
        ]
        return sorted(
            found,
            key=lambda offer: (offer.component.kind, offer.component.name, offer.distribution),
        )

    def clash(self, component: type[Component]) -> str:
        """What stands in the way of a component's plain name: the other distributions that offer it; empty if nothing does."""
        offers = self._offers[component.kind, component.name]
        return " and ".join(offer.distribution for offer in offers) if len(offers) > 1 else ""

    def address(self, offer: Offer) -> str:
        """The name that reaches this component."""
        return (
            f"{offer.distribution}/{offer.component.name}"
            if self.clash(offer.component)
            else offer.component.name
        )

    def find(self, kind: str, name: str, where: str = "") -> Offer:
        """The component of this kind with this name (or `distribution/name`), or an Error that helps."""
        distribution, _, short = name.rpartition("/")
        offers = self._offers.get((kind, short), [])
        if distribution:
            offers = [
                offer for offer in offers if offer.distribution == canonicalize_name(distribution)
            ]
        place = f" ({where})" if where else ""
        if len(offers) > 1:
            both = " and ".join(f"{offer.distribution} {offer.version}" for offer in offers)
            addresses = " or ".join(f"'{offer.distribution}/{short}'" for offer in offers)
            raise Error(f"the {kind} {name!r} is offered by {both}; write {addresses}{place}")
        if not offers:
            known = [self.address(offer) for offer in self.offers(kind)]
            raise Error(
                f"unknown {kind} {name!r}{suggestion(name, known)}{place}{self._set_aside()}"
            )
        return offers[0]

    def _set_aside(self) -> str:
        """What a plugin that was set aside would have offered is unknown, so an unknown name lists them all."""
        lines = [
            f"\n  {each.name} {each.version} was set aside: {each.reason}"
            for each in self.plugins
            if each.reason
        ]
        return "".join(lines)

    def notify(self, hook: str, **arguments: Any) -> Iterator[str]:
        """Call an event hook one plugin at a time; yields what went wrong, naming the plugin."""
        for plugin in self.plugins:
            if plugin.manager is not None:
                try:
                    getattr(plugin.manager.hook, hook)(**arguments)
                except Exception as error:  # a tracker that fails must not hurt a measurement
                    yield f"plugin {plugin.name} {plugin.version} failed in {hook}: {type(error).__name__}: {error}"

    def with_listener(self, name: str, listener: object) -> Plugins:
        """The same plugins and one more that only listens to events."""
        manager = _manager()
        manager.register(listener, name)
        return Plugins([*self.plugins, Plugin(name, "penchant", kernel_version(), manager=manager)])


def kernel_version() -> str:
    """The kernel's version, from its metadata."""
    return importlib.metadata.version("penchant")


@functools.lru_cache(maxsize=8)
def load(without: tuple[str, ...] = ()) -> Plugins:
    """Discover plugins, once per process; `PENCHANT_PLUGINS=a,b` limits them and `without` leaves some out."""
    only = {
        name.strip() for name in os.environ.get("PENCHANT_PLUGINS", "").split(",") if name.strip()
    }
    points: dict[tuple[str, str], importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        points.setdefault(
            (_distribution(point)[0], point.name), point
        )  # the first on the path counts, as for import
    names = {point.name for point in points.values()}
    for name in (*without, *sorted(only)):
        if name not in names:
            raise Error(f"unknown plugin {name!r}{suggestion(name, names)}")
    chosen = [
        point
        for point in points.values()
        if point.name not in without and (not only or point.name in only)
    ]
    found = [_try(point) for point in sorted(chosen, key=lambda point: point.name)]
    kernel = Plugin(
        "penchant", "penchant", kernel_version(), components=tuple(_components(builtin, _manager()))
    )
    return Plugins([kernel, *found])


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    return manager


def _distribution(point: importlib.metadata.EntryPoint) -> tuple[str, str]:
    if point.dist is None:
        return point.name, "0"
    return canonicalize_name(point.dist.name), point.dist.version


def _try(point: importlib.metadata.EntryPoint) -> Plugin:
    """Load one entry point in a manager of its own, so that nothing it does reaches another plugin."""
    distribution, version = _distribution(point)
    manager = _manager()
    try:
        _check_kernel_version(point)
        components = tuple(_components(point.load(), manager))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin may even raise SystemExit
        return Plugin(point.name, distribution, version, reason=_reason(error))
    return Plugin(point.name, distribution, version, components=components, manager=manager)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())  # pluggy's own messages have many lines
    return text if isinstance(error, Error) else f"{type(error).__name__}: {text}"


def _check_kernel_version(point: importlib.metadata.EntryPoint) -> None:
    base = Version(Version(kernel_version()).base_version)
    for line in (point.dist.requires if point.dist else None) or []:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            raise Error(f"its metadata has a requirement that cannot be read: {line!r}") from None
        if canonicalize_name(requirement.name) != "penchant" or not (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            continue
        if not requirement.specifier.contains(base, prereleases=True):
            raise Error(f"it wants penchant {requirement.specifier}, this is penchant {base}")


def _components(module: Any, manager: pluggy.PluginManager) -> Iterator[type[Component]]:
    manager.register(module)
    manager.check_pending()
    if not manager.get_hookcallers(module):
        raise Error("nothing in it is marked with @penchant.hookimpl")
    seen: set[tuple[str, str]] = set()
    for hook, base in hookspecs.COMPONENT_HOOKS.items():
        for offered in getattr(manager.hook, hook)():
            if not isinstance(offered, (list, tuple)):
                raise Error(f"{hook} must return a list of classes, found {type(offered).__name__}")
            for component in offered:
                check_declaration(component, base)
                if (base.kind, component.name) in seen:
                    raise Error(f"it offers the {base.kind} {component.name!r} twice")
                seen.add((base.kind, component.name))
                yield component


def check_declaration(component: Any, base: type[Component]) -> None:
    """Refuse a declaration that users could not read, set or run."""
    if not (isinstance(component, type) and issubclass(component, base)):
        raise Error(f"expected classes derived from penchant.{base.__name__}, found {component!r}")
    what = f"{component.__module__}.{component.__qualname__}"
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", component.name or ""):
        raise Error(
            f"the name of {what} must be lower-case words joined by hyphens, found {component.name!r}"
        )
    if not component.__doc__ or not component.__dict__.get("__doc__"):
        raise Error(f"{what} needs a docstring: it is the help text")
    if component.__dict__.get("__annotations__") and "__attrs_attrs__" not in component.__dict__:
        raise Error(f"{what} must be decorated with @attrs.frozen")
    for field in attrs.fields(component):
        if "help" not in field.metadata:
            raise Error(f"{what}.{field.name} must be made with penchant.option()")
        if field.name in RESERVED:
            raise Error(f"{what}.{field.name} has a reserved name")
        hints(component)  # type: ignore[arg-type]
    if not component.target:
        raise Error(f"{what} has no target")
    if base.kind == "estimator" and role_of(component) is None:
        raise Error(
            f"{what} has the role {getattr(component, 'role', '')!r}, which is neither shared nor a penchant.Role"
        )
    if issubclass(component, Probe):
        _check_presets(component, what)


def _check_presets(probe: type[Probe], what: str) -> None:
    required = {field.name for field in attrs.fields(probe) if field.default is attrs.NOTHING}
    for name, preset in probe.presets.items():
        options = {
            key: value for key, value in preset.items() if key not in ("estimators", "training")
        }
        fields = {field.name: field for field in attrs.fields(probe)}
        if unknown := set(preset.get("estimators", {})) - set(probe.roles):
            raise Error(
                f"preset {name!r} of {what} sets estimators of roles it has not: {', '.join(sorted(unknown))}"
            )
        Training.bind(preset.get("training", {}), f"preset {name!r} of {what}, training")
        if required <= options.keys():
            probe.bind(options, f"preset {name!r} of {what}")
        elif unknown := options.keys() - fields.keys():
            raise Error(
                f"preset {name!r} of {what} sets unknown options: {', '.join(sorted(unknown))}"
            )
