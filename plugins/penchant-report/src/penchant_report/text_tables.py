"""Tables of a run for a paper or a README: values rounded to their errors."""

from __future__ import annotations

import collections
import csv
import html
import io
import re
from collections.abc import Sequence

import attrs
from penchant.errors import Error, suggestion
from penchant.results.runs import Run
from penchant_numerics.statistics import counted

from penchant_report.answers import Answer, answers, entries_of
from penchant_report.wording import value_text

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


# Inside of a word an underscore is no mark.
_MARKS = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")
_NUMBER = r"([−-]?[\d.]+)(?:e([−-]?\d+))?"
_VALUES = re.compile(rf"{_NUMBER}(?: ± {_NUMBER})?")


def to_markdown(run: Run, quantities: Sequence[str] | None = None) -> str:
    """A table for each probe: one row per quantity, one column per group, seeds pooled."""
    return "\n\n".join(_markdown(answer) for answer in _chosen(run, quantities))


def to_latex(run: Run, quantities: Sequence[str] | None = None) -> str:
    """The same as LaTeX; needs the package booktabs."""
    return "\n\n".join(_latex(answer) for answer in _chosen(run, quantities))


def _chosen(run: Run, quantities: Sequence[str] | None) -> list[Answer]:
    """Answers with these quantities as rows, in this order; without any, those with all."""
    every = list(answers(entries_of(run)))
    if quantities is None:
        return every
    known = dict.fromkeys(name for answer in every for name in answer.meanings)
    for name in quantities:
        if name not in known:
            raise Error(f"this run has no quantity {name!r}{suggestion(name, known)}")
    chosen = []
    for answer in every:
        meanings = {name: answer.meanings[name] for name in quantities if name in answer.meanings}
        if meanings:
            chosen.append(attrs.evolve(answer, meanings=meanings))
    return chosen


def _unfinished(answer: Answer) -> str:
    """How many jobs are not in the table, and how they ended; empty where all are."""
    counts = collections.Counter(entry.status for entry in answer.entries)
    counts.pop("done", None)
    return ", ".join(f"{counted(count, 'job')} {status}" for status, count in counts.items())


def _rows(answer: Answer) -> list[list[str]]:
    """A heading, and a row for each quantity: its name, its value in each group, and the null."""
    rows = [["quantity", *(group.label for group in answer.groups)]]
    for name in answer.meanings:
        cells = [name]
        for group in answer.groups:
            quantity = group.quantities.get(name)
            if quantity is None:
                cells.append("–")
                continue
            null = quantity.quantity.null_text.replace("-", "−")
            cells.append(value_text(quantity.quantity) + (f" (null {null})" if null else ""))
        rows.append(cells)
    return rows


def _markdown(answer: Answer) -> str:
    title = f"**{_markdown_text(answer.probe)}**"
    unfinished = _unfinished(answer)
    if unfinished:
        title += f" ({unfinished})"
    if not answer.groups:
        return title
    head, *rows = _rows(answer)
    rule = ["---", *["--:"] * (len(head) - 1)]
    lines = [_markdown_line(cells) for cells in [head, rule, *rows]]
    return "\n".join([title, "", *lines])


def _markdown_line(cells: Sequence[str]) -> str:
    escaped = map(_markdown_text, cells)
    return f"| {' | '.join(escaped)} |"


def _markdown_text(text: str) -> str:
    r"""A cell in which nothing is a tag, a link or the end of a line.

    >>> print(_markdown_text("<b> | [x](y)"))
    &lt;b&gt; \| \[x\](y)
    """
    line = " ".join(html.escape(text, quote=False).split())
    return _MARKS.sub(r"\\\g<0>", line)


def csv_of(answer: Answer) -> str:
    """The numbers of an answer, unrounded: one row per quantity and group."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["quantity", "group", "value", "stderr", "null", "p", "z"])
    for name in answer.meanings:
        for group in answer.groups:
            pooled = group.quantities.get(name)
            if pooled is None or pooled.quantity.missing:
                continue
            quantity = pooled.quantity
            away = quantity.against_null
            decided = (away.p, away.z) if away else (None, None)
            numbers = (quantity.value, quantity.stderr, quantity.null)
            writer.writerow([name, group.label, *numbers, *decided])
    return text.getvalue()


def latex_of(answer: Answer) -> str:
    """The table of an answer as LaTeX, rounded to its errors."""
    return latex_table(_rows(answer))


def _latex(answer: Answer) -> str:
    unfinished = _unfinished(answer)
    # A second line would be no comment.
    probe = " ".join(answer.probe.split())
    title = f"% {probe}" + (f": {unfinished}" if unfinished else "")
    if not answer.groups:
        return title
    return f"{title}\n{latex_table(_rows(answer))}"


def latex_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts as LaTeX, the first of them the heading."""
    head, *others = rows
    columns = "l" + "r" * (len(head) - 1)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _latex_line(head), r"\midrule"]
    lines += [_latex_line(row) for row in others]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex_text, cells)) + r" \\"


def _latex_text(text: str) -> str:
    r"""A cell as LaTeX.

    >>> print(_latex_text("137.38 ± 0.92 (null 175.66 ± 0.16)"))
    $137.38 \pm 0.92$ (null $175.66 \pm 0.16$)
    """
    escaped = "".join(_LATEX.get(sign, sign) for sign in text).replace("–", "--")
    return _VALUES.sub(_latex_value, escaped) if text[:1] in "−-0123456789" else escaped


def _latex_value(match: re.Match[str]) -> str:
    """A number in mathematics, with its error and its power of ten."""
    value, power, error, error_power = match.groups()
    parts = [_latex_number(value, power)]
    if error is not None:
        parts.append(_latex_number(error, error_power))
    return "$" + r" \pm ".join(parts) + "$"


def _latex_number(value: str, power: str | None) -> str:
    number = value.replace("−", "-")
    return number if power is None else rf"{number} \times 10^{{{power.replace('−', '-')}}}"
