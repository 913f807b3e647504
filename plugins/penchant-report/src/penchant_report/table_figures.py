"""Figures of tables, for probes that draw none of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from penchant.results.result import Result
    from penchant.results.tables import Table

MOST_LINES = 8  # of a table of two axes; more are a map


def figures_of_tables(result: Result) -> dict[str, Figure]:
    """A figure for each table of one or two axes, in the order of the tables."""
    return {
        name: _figure(result, name, table)
        for name, table in result.tables.items()
        if 1 <= len(table.axes) <= 2 and table.values.size > 1
    }


def _figure(result: Result, name: str, table: Table) -> Figure:
    from penchant_numerics.pictures import captioned

    about = str(result.record.get("about", {}).get(name) or name)
    title = name.replace("-", " ").capitalize()
    figure, errors = _drawn(name, table)
    caption = about[:1].upper() + about[1:].rstrip(".") + errors + "."
    return captioned(figure, caption, title=title)


def _drawn(name: str, table: Table) -> tuple[Figure, str]:
    """The figure of a table, and what its caption says of errors and nulls."""
    from penchant_numerics.pictures.curves import curves

    label = f"{name.replace('-', ' ')} ({table.unit})" if table.unit else name.replace("-", " ")
    x, *others = _order(table)
    if others and len(table.axes[others[0]]) > MOST_LINES:
        return _map(table, x, others[0], label), ""
    text = ""
    if table.error is not None:
        over = " over " + f"{table.count or ''} {table.over}".strip() if table.over else ""
        text = f"; bars and bands are standard errors{over}"
    level: Any = None
    # One null for all is a line across.
    if isinstance(table.null, float):
        level, table = table.null, _without_null(table)
    elif table.null is not None:
        text += "; dashed: without the effect"
    return curves(table, x=x, y=label, level=level, level_label="null"), text


def _without_null(table: Table) -> Table:
    import attrs

    return attrs.evolve(table, null=None)


def _order(table: Table) -> list[str]:
    """The axes, first the one along which curves are drawn: the last one, unless it has names.

    It is the first one if only that leaves few curves.
    """
    axes = list(reversed(table.axes))
    first, *others = axes
    if not others:
        return axes
    (other,) = others
    many = len(table.axes[other]) > MOST_LINES >= len(table.axes[first])
    if isinstance(table.axes[first][0], str) or many:
        return [other, first]
    return axes


def _map(table: Table, x: str, y: str, label: str) -> Figure:
    """Colours for the numbers of many coordinates of both axes."""
    import numpy as np
    from matplotlib.figure import Figure
    from penchant_numerics.pictures import heat_map

    positions = {}
    for axis in (x, y):
        entries = table.axes[axis]
        named = isinstance(entries[0], str)
        positions[axis] = range(len(entries)) if named else [float(each) for each in entries]
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    heat_map(
        np.asarray(table.transposed(y, x).values, dtype=float),
        columns=positions[x],
        rows=positions[y],
        xlabel=x,
        ylabel=y,
        label=label,
        axes=figure.subplots(),
    )
    return figure
