"""Results in a notebook: small tables that show themselves, figures with their captions."""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penchant.results.evidence import pooled
from penchant.results.figures import picture
from penchant.results.lines import distance, grouped
from penchant.results.quantities import Quantity

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
    labels = result.record.get("labels") or {}
    title = _labelled(labels) or "Result"
    parts = [f"<strong>{_safe(title)}</strong>"]
    question = result.record.get("question") or result.record.get("summary")
    if question:
        parts.append(f'<div class="soft">{_safe(question)}</div>')
    if result.error:
        parts.append(f'<div class="note">failed: {_safe(result.error)}</div>')
    parts += [f'<div class="note">{_safe(text)}</div>' for text in result.warnings]
    rows = []
    for name, quantity in result.quantities.items():
        rows.append((name, *_columns(quantity), result.meanings.get(name, "")))
    if rows:
        parts.append(_table(("quantity", "value", "null", "apart", "meaning"), rows))
    if result.arrays:
        listed = ", ".join(f"{name} {list(array.shape)}" for name, array in result.arrays.items())
        parts.append(f'<div class="soft">arrays: {_safe(listed)}</div>')
    if result.record.get("figures") and result.arrays:
        parts.append('<div class="soft">figures: <code>.show()</code></div>')
    return _framed(parts)


def run_html(run: Any) -> str:
    """A run as a table of what it found, seeds pooled."""
    parts = [f"<strong>{_safe(run.title)}</strong>", f'<div class="soft">{_safe(run)}</div>']
    ended = [job for job in run.jobs if job["status"] in ("done", "failed")]
    results = [(job, run.result(job["id"], arrays=False)) for job in ended]
    parts += _troubles(results)
    rows = _pooled_rows(results)
    columns = ("measured", "quantity", "value", "null", "apart", "seeds")
    parts.append(_table(columns, rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        more = len(rows) - MOST_ROWS
        parts.append(f'<div class="soft">{more} more rows: <code>.to_pandas()</code></div>')
    return _framed(parts)


def _troubles(results: Sequence[tuple[Mapping[str, Any], Any]]) -> Iterator[str]:
    """Failures, then every warning once."""
    warnings = []
    for job, result in results:
        warnings += [(job["id"], text) for text in result.warnings]
        if result.error:
            text = f"{_labelled(job['labels'])} failed: {result.error}"
            yield f'<div class="note">{_safe(text)}</div>'
    for text, jobs in grouped(warnings).items():
        many = f" ({len(jobs)} jobs)" if len(jobs) > 1 else ""
        yield f'<div class="note">{_safe(text + many)}</div>'


def _pooled_rows(results: Sequence[tuple[Mapping[str, Any], Any]]) -> list[tuple[str, ...]]:
    """A row for each quantity of each cell, over its seeds."""
    found: dict[tuple[str, str], list[Quantity]] = {}
    for job, result in results:
        labels = {axis: label for axis, label in job["labels"].items() if axis != "seed"}
        for name, quantity in result.quantities.items():
            found.setdefault((_labelled(labels), name), []).append(quantity)
    rows: list[tuple[str, ...]] = []
    for (group, name), quantities in found.items():
        together = pooled(quantities)
        rows.append((group, name, *_columns(together.quantity), str(len(quantities))))
    return rows


def _labelled(labels: Mapping[str, Any]) -> str:
    parts = [str(labels[axis]) for axis in ("probe", "architecture", "dataset") if axis in labels]
    if "seed" in labels:
        parts.append(f"seed {labels['seed']}")
    return " · ".join(parts)


def _columns(quantity: Quantity) -> tuple[str, str, str]:
    value = str(quantity).partition(" (null")[0]
    # The unit stands behind the null in a line of text; here it belongs to the value.
    if quantity.null is not None and quantity.unit and not quantity.missing:
        value += f" {quantity.unit}"
    return value, quantity.null_text, distance(quantity)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    numbers = {"value", "null", "apart", "seeds"}
    classes = [' class="number"' if head in numbers else "" for head in heads]
    parts = ["<table><thead><tr>"]
    for head, kind in zip(heads, classes):
        parts.append(f"<th{kind}>{_safe(head)}</th>")
    parts.append("</tr></thead><tbody>")
    for row in rows:
        cells = [f"<td{kind}>{_safe(cell)}</td>" for cell, kind in zip(row, classes)]
        parts.append("<tr>" + "".join(cells) + "</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)


def _safe(text: Any) -> str:
    return html.escape(str(text))


def _framed(parts: Iterable[str]) -> str:
    return f'{_STYLE}<div class="penchant">{"".join(parts)}</div>'


def figure_svg(figure: Any) -> str | None:
    """A figure as SVG; None where it is too large for that."""
    ending, content = picture(figure)
    return content.decode() if ending == "svg" else None


def figures_html(figures: Mapping[str, Any]) -> str:
    """Figures one after another, each with its caption."""
    parts = []
    for name, figure in figures.items():
        ending, content = picture(figure)
        kind = "svg+xml" if ending == "svg" else ending
        data = base64.b64encode(content).decode()
        caption = _safe(figure.get_label() or name)
        image = f'<img src="data:image/{kind};base64,{data}" alt="{caption}">'
        parts.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
    return _framed(parts)


def display(text: str, content: str) -> None:
    """Show HTML where a notebook can, else print text."""
    # Looked up, never imported: without IPython nobody waits for it.
    shell = sys.modules.get("IPython")
    if shell is not None and shell.get_ipython() is not None and "IPKernelApp" in _config(shell):
        from IPython.display import HTML
        from IPython.display import display as show

        show(HTML(content))
        return
    sys.stdout.write(f"{text}\n")


def _config(shell: Any) -> Any:
    return shell.get_ipython().config
