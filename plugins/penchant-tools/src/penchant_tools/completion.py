"""What a shell may complete: names of components, their options, presets and roles."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import click
from penchant.components.component import Component, Probe
from penchant.errors import Error
from penchant.plugins import discovery
from penchant.plugins.discovery import Plugins
from penchant.plugins.listing import KINDS

# Parameters that are names of components, and of which kind; None: of any.
_KINDS = {
    "architectures": "architecture",
    "datasets": "dataset",
    "executor": "executor",
    "name": "probe",
}


def complete(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """What a word of a command may become, as click asks for it; nothing where a plugin is broken.

    Args:
        ctx: The command as far as it is typed.
        param: The parameter that the word belongs to.
        begun: The beginning of the word.

    Returns:
        Whole words.
    """
    without = tuple(ctx.find_root().params.get("without") or ())
    try:
        return _words(discovery.load(without), ctx, param.name or "", begun)
    except Error:
        return []


def _words(plugins: Plugins, ctx: click.Context, parameter: str, begun: str) -> list[str]:
    if parameter == "kind":
        return beginning([f"{kind}s" for kind in (*KINDS, "role")], begun)
    if parameter == "options_":
        return option_names(_typed(plugins, ctx), begun)
    if parameter == "preset":
        return presets(_typed(plugins, ctx), begun)
    if parameter == "estimators":
        return estimators(plugins, _typed(plugins, ctx), begun)
    kind = None if ctx.info_name == "explain" else _KINDS[parameter]
    return names(plugins, kind, begun)


def _typed(plugins: Plugins, ctx: click.Context) -> type[Probe]:
    """The probe that stands in a command of which an option still lacks its value."""
    # Click stops at such an option and leaves the rest.
    left = ctx.args[0] if ctx.args else ""
    component = plugins.find("probe", ctx.params.get("name") or left).component
    assert issubclass(component, Probe)
    return component


def names(plugins: Plugins, kind: str | None, begun: str) -> list[str]:
    """Components of a kind, or of any, whose names begin so; after a colon, their options.

    Args:
        plugins: What is installed.
        kind: architecture, dataset, estimator, probe or executor; None: all of them.
        begun: What was typed of `name` or `name:option=value,option`.

    Returns:
        What it may become.
    """
    name, colon, typed = begun.partition(":")
    if not colon:
        registrations = plugins.registrations(kind)
        known = [plugins.address(registration) for registration in registrations]
        return beginning(known, begun)
    if kind is None or not plugins.has(kind, name):
        return []

    # Options before the last comma are typed already.
    before, comma, last = typed.rpartition(",")
    registration = plugins.find(kind, name)
    options = option_names(registration.component, last)
    return [f"{name}:{before}{comma}{option}" for option in options]


def option_names(component: type[Component], begun: str) -> list[str]:
    """Options of a component that begin so, ready for their value."""
    known = []
    for field in attrs.fields(component):
        known.append(f"{field.name}=")
    return beginning(known, begun)


def presets(probe: type[Probe], begun: str) -> list[str]:
    """Presets of a probe that begin so."""
    return beginning(probe.presets, begun)


def estimators(plugins: Plugins, probe: type[Probe], begun: str) -> list[str]:
    """`ROLE=` of a probe, and behind it the estimators of that role.

    Args:
        plugins: What is installed.
        probe: The probe they are for.
        begun: What was typed of `role=estimator`.

    Returns:
        What it may become.
    """
    role, equals, _ = begun.partition("=")
    if not equals:
        known = [f"{name}=" for name in probe.roles]
        return beginning(known, begun)
    # The role is typed: what fits it.
    known = []
    for registration in plugins.registrations("estimator"):
        given = getattr(registration.component, "role", "")
        # A plugin's own role is an object with a name.
        own = getattr(given, "name", given)
        if own == role:
            address = plugins.address(registration)
            known.append(f"{role}={address}")
    return beginning(known, begun)


def beginning(known: Iterable[str], begun: str) -> list[str]:
    """Those that begin so, in order."""
    fitting = [name for name in known if name.startswith(begun)]
    return sorted(fitting)
