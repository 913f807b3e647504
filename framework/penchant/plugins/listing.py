"""The installed components by kind: rows for `--json`, lines for a terminal."""

import itertools
from collections.abc import Sequence
from typing import TypedDict

from penchant.components.component import Component, Probe
from penchant.components.taking import taken
from penchant.errors import Error
from penchant.plugins.discovery import Plugin, Plugins
from penchant.plugins.registry import KERNEL

# In the order in which they are listed: what one measures, with what, and how.
KINDS = ("probe", "architecture", "dataset", "estimator", "executor")
Row = dict[str, str]
LETTERS = "  (F: fresh networks, T: trained, C: follows checkpoints, c: each checkpoint)"


def rows(plugins: Plugins, kind: str | None) -> list[Row]:
    """A row for every component of a kind, in the singular or plural, or of every kind."""
    single = kind.removesuffix("s") if kind else None
    known = (*KINDS, "role")
    if single is not None and single not in known:
        raise Error(f"kind must be one of {', '.join(known)}, found {kind!r}")
    # A role is no component, but people look for it here.
    if single == "role":
        return _roles(plugins)
    return [
        {
            "kind": each,
            "name": plugins.address(registration),
            "summary": registration.component.summary(),
            "plugin": registration.distribution,
            "version": registration.version,
            **_takes(registration.component),
        }
        for each in (KINDS if single is None else (single,))
        for registration in plugins.registrations(each)
    ]


def _takes(component: type[Component]) -> Row:
    """What a probe takes and needs; other components have neither."""
    if not issubclass(component, Probe):
        return {}
    how = taken(component)
    letters = {"fresh": "F", "trained": "T", "trajectory": "C"}
    if how["trajectory"] == "by state":
        letters["trajectory"] = "c"
    return {
        "takes": ", ".join(kind for kind in how if how[kind] != "no"),
        "needs": ", ".join(component.needs),
        "networks": "".join("-" if how[kind] == "no" else letters[kind] for kind in letters),
    }


def _roles(plugins: Plugins) -> list[Row]:
    rows = []
    for role, estimators in plugins.roles().items():
        summary, _, _ = (role.__doc__ or "").partition("\n")
        names = ", ".join(map(plugins.address, estimators))
        rows.append({"kind": "role", "name": role.name, "summary": summary, "estimators": names})
    return rows


def lines(rows: Sequence[Row], width: int) -> list[str]:
    """A heading for every kind, a line for every component; of probes, which networks they take.

    Summaries are cut so that no line is wider than `width`; names never are.
    """
    texts: list[str] = []
    for kind, group in itertools.groupby(rows, key=lambda row: row["kind"]):
        same = list(group)
        # A gap before each heading but the first.
        texts += ["", f"{kind}s"] if texts else [f"{kind}s"]
        if "networks" in same[0]:
            texts.append(LETTERS)
        longest = max(len(row["name"]) for row in same)
        limit = max(width, longest + 5)
        for row in same:
            networks = f"  {row['networks']}" if "networks" in row else ""
            line = f"  {row['name']:{longest}}{networks}  {row['summary']}"
            texts.append(line if len(line) <= limit else line[: limit - 1] + "…")
    return texts


class PluginRow(TypedDict):
    """A plugin, as `penchant plugins --json` prints it."""

    name: str
    distribution: str
    version: str
    status: str
    reason: str
    components: list[str]
    clashes: list[str]


def plugin_rows(plugins: Plugins) -> list[PluginRow]:
    """A row for every plugin, the disabled ones with their reason."""
    return [_plugin_row(plugins, plugin) for plugin in plugins.plugins]


def _plugin_row(plugins: Plugins, plugin: Plugin) -> PluginRow:
    clashes = []
    for component in plugin.components:
        both = plugins.clash(component)
        if both and plugin.distribution != KERNEL:
            what = f"the {component.kind} {component.name!r} is offered by {both}"
            address = f"{plugin.distribution}/{component.name}"
            clashes.append(f"{what}: it is reached as {address!r} only")
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "reason": plugin.reason,
        "components": [f"{each.kind} {each.name}" for each in plugin.components],
        "clashes": clashes,
    }
