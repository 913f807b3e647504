"""What a shell may complete: names of components, their options, presets and roles."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from penchant.components.component import Component, Probe
from penchant.plugins.discovery import Plugins


def names(
    plugins: Plugins,
    kind: str | None,
    begun: str,
) -> list[str]:
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
        offers = plugins.offers(kind)
        known = [plugins.address(offer) for offer in offers]
        return beginning(known, begun)
    if kind is None or not plugins.has(kind, name):
        return []

    # Options before the last comma are typed already.
    before, comma, last = typed.rpartition(",")
    offer = plugins.find(kind, name)
    options = option_names(offer.component, last)
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


def estimators(
    plugins: Plugins,
    probe: type[Probe],
    begun: str,
) -> list[str]:
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
    for offer in plugins.offers("estimator"):
        given = getattr(offer.component, "role", "")
        # A plugin's own role is an object with a name.
        own = getattr(given, "name", given)
        if own == role:
            address = plugins.address(offer)
            known.append(f"{role}={address}")
    return beginning(known, begun)


def beginning(known: Iterable[str], begun: str) -> list[str]:
    """Those that begin so, in order."""
    fitting = [name for name in known if name.startswith(begun)]
    return sorted(fitting)
