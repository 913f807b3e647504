"""Results in a notebook: small tables that show themselves, figures with their captions."""

from __future__ import annotations

import base64
import functools
import html
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penchant.errors import Error, suggestion
from penchant.results.quantities import Quantity, distance

from penchant_report.figures import figures_of_result, picture, resized
from penchant_report.pooling import Pooled, pooled
from penchant_report.wording import grouped

MOST_ROWS = 60
# Colours of the notebook itself, so that it is right in the dark as well.
_STYLE = (
    "<style>.penchant{font-variant-numeric:tabular-nums;max-width:64rem}"
    ".penchant table{border-collapse:collapse;margin:.4em 0}"
    ".penchant th,.penchant td{text-align:left!important;padding:.2em 1.2em .2em 0;"
    "vertical-align:top;background:none}"
    ".penchant td.number,.penchant th.number{text-align:right!important;white-space:nowrap}"
    ".penchant .soft{opacity:.75}.penchant figure{margin:1em 0}"
    ".penchant img{max-width:100%;background:#fff}"
    ".penchant .note{border-left:3px solid #d9822b;padding-left:.6em;margin:.3em 0}</style>"
)


def result_html(result: Any) -> str:
    """A result as a table of its quantities, after whatever must be known before."""
    record = result.record
    labels = record.get("labels") or {}
    title = _labelled(labels) or "Result"
    parts = [f"<strong>{_safe(title)}</strong>"]
    question = record.get("question") or record.get("summary")
    if question:
        parts.append(_soft(_safe(question)))
    # What must be known before the numbers are believed.
    if result.error:
        parts.append(_note(f"failed: {result.error}"))
    for text in result.warnings:
        parts.append(_note(text))
    rows = []
    meanings = result.meanings
    for name, quantity in result.quantities.items():
        meaning = meanings.get(name, "")
        rows.append((name, *_columns(Pooled(quantity)), meaning))
    if rows:
        heads = ("quantity", "value", "null", "z", "meaning")
        parts.append(_table(heads, rows))
    # Arrays and figures are named, not shown.
    shapes = [f"{name} {list(array.shape)}" for name, array in result.arrays.items()]
    if shapes:
        listed = ", ".join(shapes)
        parts.append(_soft(f"arrays: {_safe(listed)}"))
    if record.get("figures") and result.arrays:
        parts.append(_soft("figures: <code>.show()</code>"))
    return _framed(parts)


def run_html(run: Any) -> str:
    """A run as a table of what it found, seeds pooled."""
    title = _safe(run.title)
    # Failures have notes of their own.
    counts = repr(run).partition("\n")[0]
    parts = [f"<strong>{title}</strong>", _soft(_safe(counts))]
    results = []
    for job in run.jobs:
        if job["status"] in ("done", "failed"):
            result = run.result(job["id"], arrays=False)
            results.append((job, result))
    parts += _troubles(results)
    # The table, as far as it is worth reading here.
    rows = _pooled_rows(results)
    heads = ("measured", "quantity", "value", "null", "z", "seeds")
    parts.append(_table(heads, rows[:MOST_ROWS]))
    more = len(rows) - MOST_ROWS
    if more > 0:
        parts.append(_soft(f"{more} more rows: <code>.to_pandas()</code>"))
    return _framed(parts)


def _troubles(results: Sequence[tuple[Mapping[str, Any], Any]]) -> Iterator[str]:
    """Failures, then every warning once."""
    warnings = []
    for job, result in results:
        for text in result.warnings:
            warnings.append((job["id"], text))
        if result.error:
            what = _labelled(job["labels"])
            yield _note(f"{what} failed: {result.error}")
    for text, jobs in grouped(warnings).items():
        if len(jobs) > 1:
            text += f" ({len(jobs)} jobs)"
        yield _note(text)


def _pooled_rows(results: Sequence[tuple[Mapping[str, Any], Any]]) -> list[tuple[str, ...]]:
    """A row for each quantity of each cell, over its seeds."""
    found: dict[tuple[str, str], list[Quantity]] = {}
    for job, result in results:
        labels = dict(job["labels"])
        labels.pop("seed", None)
        group = _labelled(labels)
        for name, quantity in result.quantities.items():
            seeds = found.setdefault((group, name), [])
            seeds.append(quantity)
    rows: list[tuple[str, ...]] = []
    for (group, name), quantities in found.items():
        together = pooled(quantities)
        columns = _columns(together)
        count = str(len(quantities))
        rows.append((group, name, *columns, count))
    return rows


def _labelled(labels: Mapping[str, Any]) -> str:
    parts = []
    for axis in ("probe", "architecture", "dataset"):
        if axis in labels:
            parts.append(str(labels[axis]))
    if "seed" in labels:
        parts.append(f"seed {labels['seed']}")
    return " · ".join(parts)


def _columns(found: Pooled) -> tuple[str, str, str]:
    quantity = found.quantity
    value, _, _ = str(quantity).partition(" (null")
    # The unit stands behind the null in a line of text; here it belongs to the value.
    if quantity.null is not None and quantity.unit and not quantity.missing:
        value += f" {quantity.unit}"
    return value, quantity.null_text, distance(quantity, found.against_null)


# ---- HTML


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    numbers = {"value", "null", "z", "seeds"}
    classes = [' class="number"' if head in numbers else "" for head in heads]
    parts = ["<table><thead><tr>"]
    for head, kind in zip(heads, classes):
        parts.append(f"<th{kind}>{_safe(head)}</th>")
    parts.append("</tr></thead><tbody>")
    for row in rows:
        parts.append("<tr>")
        for cell, kind in zip(row, classes):
            parts.append(f"<td{kind}>{_safe(cell)}</td>")
        parts.append("</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)


def _safe(text: Any) -> str:
    return html.escape(str(text))


def _soft(content: str) -> str:
    """A line that stands back; its content is escaped already."""
    return f'<div class="soft">{content}</div>'


def _note(text: str) -> str:
    """A line that stands out, escaped here."""
    return f'<div class="note">{_safe(text)}</div>'


def _framed(parts: Iterable[str]) -> str:
    content = "".join(parts)
    return f'{_STYLE}<div class="penchant">{content}</div>'


def figure_of(
    result: Any, name: str, *, width: float | str | None = None, style: bool = True
) -> Any:
    """One figure of a result, which shows itself in a notebook.

    Args:
        result: The result.
        name: Which figure.
        width: Inches, "column" or "text"; None: as it was drawn.
        style: Draw in our style; else in the user's own `rcParams`.

    Returns:
        The figure.
    """
    figures = figures_of_result(result, style=style)
    if name not in figures:
        raise Error(f"there is no figure {name!r}{suggestion(name, figures)}")
    figure = figures[name]
    if width is not None:
        resized(figure, width)
    # Figures that pyplot does not know show themselves only if they are taught to.
    figure._repr_svg_ = functools.partial(figure_svg, figure)
    return figure


def show(result: Any) -> None:
    """Show quantities and figures in a notebook; elsewhere print the quantities."""
    content = result_html(result)
    text = repr(result)
    if result.record.get("figures") and result.arrays:
        figures = result.figures()
        names = ", ".join(figures)
        content += figures_html(figures)
        text += f"\n  figures: {names}"
    display(text, content)


def figure_svg(figure: Any) -> str | None:
    """A figure as SVG; None where it is too large for that."""
    ending, content = picture(figure)
    if ending != "svg":
        return None
    return content.decode()


def figures_html(figures: Mapping[str, Any]) -> str:
    """Figures one after another, each with its caption."""
    parts = []
    for name, figure in figures.items():
        # The picture is part of the page, so that a notebook can be sent to others.
        ending, content = picture(figure)
        kind = "svg+xml" if ending == "svg" else ending
        data = base64.b64encode(content).decode()
        address = f"data:image/{kind};base64,{data}"
        caption = _safe(figure.get_label() or name)
        parts.append("<figure>")
        parts.append(f'<img src="{address}" alt="{caption}">')
        parts.append(f"<figcaption>{caption}</figcaption>")
        parts.append("</figure>")
    return _framed(parts)


def display(text: str, content: str) -> None:
    """Show HTML where a notebook can, else print text."""
    # Looked up in sys.modules, never imported: IPython takes long to load.
    package = sys.modules.get("IPython")
    shell = None if package is None else package.get_ipython()
    if shell is not None and "IPKernelApp" in shell.config:
        from IPython.display import HTML
        from IPython.display import display as show

        show(HTML(content))
        return
    sys.stdout.write(f"{text}\n")
