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
    known = (*KINDS, "role")
    if single is not None and single not in known:
        listed = ", ".join(known)
        raise Error(f"kind must be one of {listed}, found {kind!r}")
    # A role is no component, but people look for it here.
    if single == "role":
        return _roles(plugins)

    kinds = KINDS if single is None else (single,)
    found = []
    for each in kinds:
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
        text = role.__doc__ or ""
        summary, _, _ = text.partition("\n")
        names = [plugins.address(offer) for offer in estimators]
        row = {
            "kind": "role",
            "name": role.name,
            "summary": summary,
            "estimators": ", ".join(names),
        }
        found.append(row)
    return found


def lines(rows: Sequence[Row], width: int) -> list[str]:
    """A heading for every kind, a line for every component.

    Summaries are cut so that no line is wider than `width`; names never are.
    """
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        members = by_kind.setdefault(row["kind"], [])
        members.append(row)

    found: list[str] = []
    for kind, same in by_kind.items():
        # A gap before each heading but the first.
        if found:
            found.append("")
        found.append(f"{kind}s")

        lengths = [len(row["name"]) for row in same]
        longest = max(lengths)
        for row in same:
            line = f"  {row['name']:{longest}}  {row['summary']}"
            room = max(width, longest + 5)
            if len(line) > room:
                line = line[: room - 1] + "…"
            found.append(line)
    return found
