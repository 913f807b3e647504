"""What a shell may complete: names of components, their options, presets and roles."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from penchant.components.component import Component, Probe
from penchant.plugins.discovery import Plugins


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
        known = [plugins.address(offer) for offer in plugins.offers(kind)]
        return beginning(known, begun)
    if kind is None or not plugins.has(kind, name):
        return []
    # Options before the last comma are typed already.
    before, comma, last = typed.rpartition(",")
    options = option_names(plugins.find(kind, name).component, last)
    return [f"{name}:{before}{comma}{option}" for option in options]


def option_names(component: type[Component], begun: str) -> list[str]:
    """Options of a component that begin so, ready for their value."""
    known = [f"{field.name}=" for field in attrs.fields(component)]
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
        return beginning([f"{name}=" for name in probe.roles], begun)
    known = []
    for offer in plugins.offers("estimator"):
        given = getattr(offer.component, "role", "")
        # A plugin's own role is an object with a name.
        if getattr(given, "name", given) == role:
            known.append(f"{role}={plugins.address(offer)}")
    return beginning(known, begun)


def beginning(known: Iterable[str], begun: str) -> list[str]:
    """Those that begin so, in order."""
    return sorted(name for name in known if name.startswith(begun))
