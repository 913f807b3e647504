"""Is a declaration one that users can read, set and run?"""

import re
from collections.abc import Collection
from typing import Any

import attrs
from penchant.components.component import RESERVED, RESERVED_FOR_PROBES, Component, Probe
from penchant.components.names import name_and_axes, placeholders
from penchant.components.roles import role_of
from penchant.components.taking import ACCEPTS, KINDS, NEEDS
from penchant.errors import Error, suggestion

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Attributes that list names, and the words that are known; components have any name.
_LISTINGS = {"needs": NEEDS, "accepts": ACCEPTS, "takes": KINDS, "uses": None}


def check_declaration(component: object, base: type[Component]) -> None:
    """Refuse a declaration that users could not read, set or run.

    Slower checks (types of options, values of presets) are made by the conformance tests and when a
    component is used, because every command pays for what is done here.
    """
    if not (isinstance(component, type) and issubclass(component, base)):
        raise Error(f"expected classes derived from penchant.{base.__name__}, found {component!r}")
    what = f"{component.__module__}.{component.__qualname__}"
    if not _NAME.fullmatch(component.name or ""):
        found = f"found {component.name!r}"
        raise Error(f"the name of {what} must be lower-case words joined by hyphens, {found}")
    # Of the class itself: a docstring or fields of its base say nothing about it.
    own = component.__dict__
    if not own.get("__doc__"):
        raise Error(f"{what} needs a docstring: it is the help text")
    if own.get("__annotations__") and "__attrs_attrs__" not in own:
        raise Error(f"{what} must be decorated with @attrs.frozen")
    reserved = RESERVED_FOR_PROBES if issubclass(component, Probe) else RESERVED
    for field in attrs.fields(component):
        _check_field(field, f"{what}.{field.name}", reserved)
    if not component.target:
        raise Error(f"{what} has no target")
    _check_kind(component, base, what)


def _check_kind(component: Any, base: type[Component], what: str) -> None:
    """Refuse what is wrong with that which only some kinds have."""
    for listing, known in _LISTINGS.items():
        # Elsewhere the word may be an option.
        if hasattr(base, listing):
            _check_names(getattr(component, listing), known, f"{what}.{listing}")
    if base.kind == "estimator" and role_of(component) is None:
        role = getattr(component, "role", "")
        raise Error(f"{what} has the role {role!r}, which is neither shared nor a penchant.Role")
    if issubclass(component, Probe):
        _check_preset_names(component, what)
        known_options = {field.name for field in attrs.fields(component)}
        _check_names(component.instead, known_options, f"{what}.instead")
        for declared in component.tables:
            name_and_axes(declared)
        _check_headline(component, what)
        _check_card(component, what)


def _check_headline(probe: type[Probe], what: str) -> None:
    headline = probe.headline
    if headline is not None and headline.quantity not in probe.quantities:
        found = f"found {headline.quantity!r}{suggestion(headline.quantity, probe.quantities)}"
        raise Error(f"the headline of {what} must be about a quantity of it, {found}")


def _check_card(probe: type[Probe], what: str) -> None:
    card = probe.card
    if card is None:
        return
    # Names with braces depend on options.
    plain = not any(placeholders(name) for name in probe.quantities)
    for name in card.quantities:
        if plain and name not in probe.quantities:
            hint = suggestion(name, probe.quantities)
            raise Error(f"the card of {what} must have quantities of it, found {name!r}{hint}")
    known = {field.name for field in attrs.fields(probe)} | {"estimators"}
    for option in card.options:
        if option not in known:
            hint = suggestion(option, known)
            raise Error(f"the card of {what} sets an unknown option: {option!r}{hint}")


def _check_field(field: Any, where: str, reserved: Collection[str]) -> None:
    if "help" not in field.metadata:
        raise Error(f"{where} must be made with penchant.option()")
    if not field.metadata["help"]:
        raise Error(f"{where} has no help text")
    # The experiment or the command line would take the value for itself.
    if field.name in reserved:
        raise Error(f"{where} has a reserved name")


def _check_names(value: object, known: Collection[str] | None, where: str) -> None:
    """Refuse what is no tuple, and an unknown word: a misspelt need would never be checked."""
    if not isinstance(value, (tuple, list)):
        # With text, `in` would look for a part of it.
        found = f"the text {value!r}: write ({value!r},)" if isinstance(value, str) else repr(value)
        raise Error(f"{where} must be a tuple of names, found {found}")
    for name in value:
        if known is not None and name not in known:
            raise Error(f"{where} has {name!r}{suggestion(name, known)}")


def _check_preset_names(probe: type[Probe], what: str) -> None:
    """A preset that sets what a probe has not is a mistake that no user could mend."""
    known = {field.name for field in attrs.fields(probe)} | {"estimators", "training"}
    for name, preset in probe.presets.items():
        where = f"preset {name!r} of {what}"
        if unknown := preset.keys() - known:
            raise Error(f"{where} sets unknown options: {', '.join(sorted(unknown))}")
        if roles := preset.get("estimators", {}).keys() - probe.roles.keys():
            listed = ", ".join(sorted(roles))
            raise Error(f"{where} sets estimators of roles it has not: {listed}")
