"""What draws a result: the function that the installed probe of its name declares.

A run folder may come from anybody. Nothing that it names is imported.
"""

from __future__ import annotations

from typing import Any

from penchant.components.component import Probe
from penchant.components.headline import Headline
from penchant.components.names import name_and_axes
from penchant.errors import Error
from penchant.plugins import discovery
from penchant.plugins.discovery import Plugins


def drawing_of(result: Any, plugins: Plugins | None = None) -> Any:
    """The function that draws a result, or its name as a target.

    Args:
        result: The result.
        plugins: Where its probe is looked up; None: those that are installed.

    Returns:
        The function; empty where its probe draws nothing.

    Raises:
        Error: No probe of this name is installed.
    """
    given = result.record.get("figures")
    # A probe of a script draws with a function; text only says that there are figures.
    if not given or callable(given):
        return given
    return _probe_of(result, plugins).figures


def refuse_untabled(result: Any, plugins: Plugins | None = None) -> None:
    """Refuse a result of an older version, whose tables were stored without their axes.

    Raises:
        Error: Its probe draws from tables, and the result has arrays in their place.
    """
    given = result.record.get("figures")
    # A probe of a script draws what it has just measured.
    if not given or callable(given):
        return
    declared = [name_and_axes(each)[0] for each in _probe_of(result, plugins).tables]
    plain = [name for name in declared if name in result.arrays and name not in result.tables]
    if plain:
        raise Error(
            f"figures are drawn from tables, and an older version stored {plain[0]!r} without its "
            "axes: measure again to draw them; `result.arrays` has the numbers"
        )


def declared_headline(result: Any, plugins: Plugins | None = None) -> Headline | None:
    """The headline that the probe of a result declares; None where it declares none.

    Raises:
        Error: The result has one, and no probe of this name is installed.
    """
    # Results of older versions do not say whether they have one.
    try:
        return _probe_of(result, plugins).headline
    except Error:
        if result.record.get("headline"):
            raise
        return None


def _probe_of(result: Any, plugins: Plugins | None) -> type[Probe]:
    """The installed probe of a result."""
    plugins = plugins or discovery.load()
    probe = result.record.get("probe") or {}
    name = str(probe.get("name", ""))
    # Where several distributions have it, that of the result.
    for address in (name, f"{probe.get('plugin')}/{name}"):
        try:
            return plugins.probes.get(address)
        except Error:
            continue
    found = f"no installed probe is called {name[:60]!r}, so nothing is drawn for it"
    raise Error(f"{found}: what a run folder names is never imported, see `penchant plugins`")
