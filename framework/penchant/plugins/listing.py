"""Everything that is installed, by kind: rows for machines, lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from penchant.errors import Error
from penchant.plugins.discovery import Plugins

# In the order in which they are listed: what one measures, with what, and how.
KINDS = ("probe", "architecture", "dataset", "estimator", "executor")
Row = dict[str, str]


def rows(plugins: Plugins, kind: str | None) -> list[Row]:
    """A row for every component of a kind, in the singular or plural, or of every kind."""
    single = kind.removesuffix("s") if kind else None
    if single not in (None, "role", *KINDS):
        listed = ", ".join((*KINDS, "role"))
        raise Error(f"kind must be one of {listed}, found {kind!r}")
    if single == "role":
        return _roles(plugins)
    found = []
    for each in KINDS if single is None else (single,):
        found += _components(plugins, each)
    return found


def _components(plugins: Plugins, kind: str) -> list[Row]:
    found = []
    for offer in plugins.offers(kind):
        row = {
            "kind": kind,
            "name": plugins.address(offer),
            "summary": offer.component.summary(),
            "plugin": offer.distribution,
            "version": offer.version,
        }
        found.append(row)
    return found


def _roles(plugins: Plugins) -> list[Row]:
    from penchant.plugins.explain import roles

    found = []
    for role, estimators in roles(plugins).items():
        summary, _, _ = (role.__doc__ or "").partition("\n")
        names = ", ".join(plugins.address(offer) for offer in estimators)
        row = {"kind": "role", "name": role.name, "summary": summary, "estimators": names}
        found.append(row)
    return found


def lines(rows: Sequence[Row], width: int) -> list[str]:
    """A heading for every kind, a line for every component, none wider than `width`."""
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(row["kind"], []).append(row)
    found: list[str] = []
    for kind, same in by_kind.items():
        gap = [""] if found else []
        found += [*gap, f"{kind}s"]
        names = max(len(row["name"]) for row in same)
        for row in same:
            line = f"  {row['name']:{names}}  {row['summary']}"
            found.append(line if len(line) <= width else f"{line[: width - 1]}…")
    return found
