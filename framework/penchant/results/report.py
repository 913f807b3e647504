"""The report of a run: answers first, then every job, then how to reproduce it.

One page that opens from disk. It reads no arrays. Figures are part of the page while they are
small; runs of many jobs list them with links to their files.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.results.answers import Answer, Contrast, Entry, Group, answers, clashes, entries_of
from penchant.results.dots import MOST_PANELS, MOST_ROWS, panels
from penchant.results.evidence import Pooled, against_null
from penchant.results.files import atomic, read_json
from penchant.results.lines import distance, grouped
from penchant.results.pages import embedded, write_page
from penchant.results.quantities import Quantity, rounded, short_error
from penchant.results.runs import Run
from penchant.results.tables import FOLDER as TABLES

CSV = "quantities.csv"
MOST_DETAILED = 200  # jobs that have a section of their own
MOST_EMBEDDED = 8_000_000  # bytes of figures in the page
MOST_GROUPS = 300  # rows of a table of answers
WIDE = 5  # groups that stand side by side as columns
MOST_SENTENCES = 4
MOST_WARNINGS = 20
_NOTHING = "–"


def write_report(run: Run) -> Path:
    """Write `report.html` of a run, and its numbers beside it; returns the page's path."""
    entries = entries_of(run)
    _write_csv(run.folder / CSV, entries)
    values = _page(run, entries)
    return write_page(run.folder / "report.html", "report.html.jinja", values)


def _page(run: Run, entries: Sequence[Entry]) -> dict[str, Any]:
    many = len(entries) > MOST_DETAILED
    failed = [entry for entry in entries if entry.status == "failed"]
    # Of many jobs only those that failed have a section: that is where one has to look.
    detailed = failed[:MOST_DETAILED] if many else list(entries)
    waiting = [entry for entry in entries if entry.status not in ("done", "failed")]
    failures = [{**_link(entry), "error": entry.error} for entry in failed]
    shown = {entry.id for entry in detailed}
    warnings = _warnings(entries)
    toml = run.folder / "experiment.toml"
    return {
        "title": run.title,
        "lead": _lead(run, entries),
        "count": len(entries),
        "answers": [answer_values(answer) for answer in answers(entries)],
        "legend": _legend(entries),
        "failures": failures,
        "waiting": len(waiting),
        "reduced": run.record.get("reduced", ""),
        "warnings": warnings[:MOST_WARNINGS],
        "more_warnings": max(0, len(warnings) - MOST_WARNINGS),
        "rows": _rows(run, entries, shown) if many else [],
        "jobs": _jobs(run, detailed),
        "csv": CSV,
        **_reproduction(run),
        "experiment": toml.read_text(encoding="utf-8") if toml.is_file() else "",
    }


def _lead(run: Run, entries: Sequence[Entry]) -> str:
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.status] = counts.get(entry.status, 0) + 1
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    parts = [f"{len(entries)} job{'' if len(entries) == 1 else 's'}: {listed}"]
    seconds = sum(entry.seconds or 0.0 for entry in entries)
    parts.append(f"{_duration(seconds)} of work")
    record = run.folder / "run.json"
    if record.is_file():
        moment = datetime.datetime.fromtimestamp(record.stat().st_mtime)
        parts.append(f"{moment.day} {moment:%B %Y}")
    return " · ".join(parts)


def _duration(seconds: float) -> str:
    """A time in the words of a person.

    >>> _duration(5.21), _duration(754), _duration(90000)
    ('5.2 seconds', '13 minutes', '25 hours')
    """
    if seconds < 120:
        return f"{seconds:.2g} seconds" if seconds < 10 else f"{seconds:.0f} seconds"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours"


def _legend(entries: Sequence[Entry]) -> str:
    seeds = {entry.labels.get("seed") for entry in entries}
    text = (
        "▲ and ▼: above and below the null, ✱: a difference, each by more than its error "
        "(two-sided 1 % point, corrected for the number of comparisons of its table). "
    )
    if len(seeds) > 1:
        text += (
            "Values are means over seeds; their error is the larger of what the seeds' own errors "
            "give and what their spread shows. ≁: seeds differ by more than their errors allow, so "
            "their spread alone is the error. "
        )
    return text + "± is one standard error; of a null, the standard deviation without an effect."


def _link(entry: Entry) -> dict[str, str]:
    return {"anchor": entry.id, "title": entry.title}


def _warnings(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Every warning once, with the jobs that have it."""
    by_id = {entry.id: entry for entry in entries}
    pairs = []
    for entry in entries:
        pairs += [(entry.id, text) for text in entry.warnings]
    found = []
    for text, names in grouped(pairs).items():
        jobs = [_link(by_id[name]) for name in names]
        found.append({"text": text, "jobs": jobs})
    return found


# ---- answers


def answer_values(answer: Answer) -> dict[str, Any]:
    """What the page shows of an answer: sentences, panels and a table."""
    groups = answer.groups[:MOST_GROUPS]
    looks = answer.looks
    wide = len(groups) <= WIDE
    rows = []
    for name, about in answer.meanings.items():
        contrasts = answer.contrasts(name) if wide else []
        row = {
            "name": name,
            "about": about,
            "cells": [_cell(answer, group, name) for group in groups],
            "difference": _contrast_values(contrasts[0], looks) if contrasts else None,
        }
        rows.append(row)
    failed = [entry for entry in answer.entries if entry.status == "failed"]
    return {
        "probe": answer.probe,
        "anchor": f"answer-{answer.probe}",
        "question": answer.question,
        "eyebrow": _eyebrow(answer),
        "failed": len(failed),
        "found": _sentences(answer),
        "nothing": _nothing_found(answer),
        "flags": _flags(answer),
        "panels": panels(answer),
        "panel_caption": _panel_caption(answer),
        "table_caption": _table_caption(answer, len(groups)),
        "by_quantity": wide,
        "axes": ", ".join(answer.axes),
        "columns": [group.label for group in groups],
        "differs": wide and len(groups) > 1,
        "rows": rows,
    }


def _eyebrow(answer: Answer) -> str:
    """What the probe was asked of, in one line."""
    parts = [f"Probe {answer.probe}"]
    if answer.shared:
        parts.append(answer.shared)
    if answer.axes:
        parts.append(f"{len(answer.groups)} {' × '.join(_plural(axis) for axis in answer.axes)}")
    seeds = {entry.labels.get("seed") for entry in answer.entries}
    parts.append(f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}")
    presets = {str(entry.settings.get("preset")) for entry in answer.entries if entry.settings}
    if presets:
        parts.append(f"preset {', '.join(sorted(presets))}")
    return " · ".join(parts)


def _plural(word: str) -> str:
    return f"{word}s"


def _cell(answer: Answer, group: Group, name: str) -> dict[str, Any] | None:
    found = group.quantities.get(name)
    if found is None:
        return None
    quantity = found.quantity
    return {
        "text": value_text(quantity),
        "sort": "" if quantity.missing else repr(quantity.value),
        "null": quantity.null_text,
        "mark": answer.from_null(group, name),
        "restless": found.restless,
    }


def value_text(quantity: Quantity) -> str:
    """A value with its error and unit."""
    if quantity.missing:
        return "missing"
    text = rounded(quantity.value, quantity.stderr)
    if quantity.stderr is not None:
        text += f" ± {short_error(quantity.stderr, quantity.value)}"
    return f"{text} {quantity.unit}".rstrip().replace("-", "−")


def _contrast_values(contrast: Contrast, looks: int) -> dict[str, Any]:
    apart = contrast.difference
    larger, smaller = contrast.second, contrast.first
    if apart.value < 0:
        larger, smaller = smaller, larger
    size = rounded(abs(apart.value), apart.error)
    error = f" ± {short_error(apart.error, apart.value)}" if apart.error else ""
    return {
        "text": f"{size}{error}",
        "sort": repr(abs(apart.value)),
        "exceeds": apart.exceeds(looks),
        "between": f"{larger.label} over {smaller.label}" if apart.value else "none",
    }


def _sentences(answer: Answer) -> list[str]:
    """What stands out, in words: from a null first, then between groups."""
    found = []
    looks = answer.looks
    for name in answer.meanings:
        for group in answer.groups[:MOST_GROUPS]:
            if name in group.quantities and answer.from_null(group, name):
                found.append(_null_sentence(answer, group, name))
    for name in answer.meanings:
        contrasts = answer.contrasts(name)
        if contrasts and contrasts[0].difference.exceeds(looks):
            found.append(_contrast_sentence(contrasts[0], looks))
    if len(found) > MOST_SENTENCES:
        rest = len(found) - MOST_SENTENCES
        # The largest of both kinds are worth more than many of one.
        nulls = [text for text in found if "its null" in text]
        between = [text for text in found if "its null" not in text]
        half = MOST_SENTENCES // 2
        chosen = nulls[: max(half, MOST_SENTENCES - len(between))]
        chosen += between[: MOST_SENTENCES - len(chosen)]
        found = [*chosen, f"{rest} more are marked in the table."]
    return found


def _null_sentence(answer: Answer, group: Group, name: str) -> str:
    pooled = group.quantities[name]
    quantity = pooled.quantity
    side = "above" if answer.from_null(group, name) > 0 else "below"
    who = f" of {group.label}" if len(answer.groups) > 1 else ""
    away = _errors_text(pooled)
    return f"{name}{who} is {value_text(quantity)}, {side} its null of {quantity.null_text}{away}."


def _errors_text(found: Pooled) -> str:
    away = against_null(found)
    if away is None or away.errors is None:
        return ""
    return f" by {_many(away.errors)} errors"


def _many(errors: float) -> str:
    size = abs(errors)
    return f"{size:.2g}" if size < 99.5 else "more than 99"


def _contrast_sentence(contrast: Contrast, looks: int) -> str:
    values = _contrast_values(contrast, looks)
    errors = contrast.difference.errors
    away = f" ({_many(errors)} errors)" if errors is not None else ""
    larger, _, smaller = values["between"].partition(" over ")
    return f"{contrast.quantity}: {larger} exceeds {smaller} by {values['text']}{away}."


def _nothing_found(answer: Answer) -> str:
    nulls = _has_null(answer)
    if nulls and len(answer.groups) > 1:
        return "Nothing differs from its null, or between groups, by more than its error."
    if nulls:
        return "Nothing differs from its null by more than its error."
    if len(answer.groups) > 1:
        return "Nothing differs between groups by more than its error."
    return "There is neither a null nor another group to compare these numbers with."


def _has_null(answer: Answer) -> bool:
    for group in answer.groups:
        if any(found.quantity.null is not None for found in group.quantities.values()):
            return True
    return False


def _flags(answer: Answer) -> list[str]:
    """What keeps groups from being compared."""
    names: dict[str, None] = {}
    for first, second in answer.pairs:
        names.update(dict.fromkeys(clashes(first.conventions, second.conventions)))
    if not names:
        return []
    listed = ", ".join(names)
    return [
        f"Conventions differ between groups ({listed}), so these groups are shown side by side but "
        "not compared."
    ]


def _panel_caption(answer: Answer) -> str:
    seeds = {entry.labels.get("seed") for entry in answer.entries}
    text = "Dots with bars: values ± one standard error"
    if len(seeds) > 1:
        text += ", pooled over seeds; open circles: single seeds"
    text += "."
    if _has_null(answer):
        text += " Dashed, with a band: the null ± its standard deviation."
    if len(answer.meanings) > MOST_PANELS:
        text += f" The first {MOST_PANELS} of {len(answer.meanings)} quantities."
    if len(answer.groups) > MOST_ROWS:
        text += f" The first {MOST_ROWS} of {len(answer.groups)} groups."
    return text


def _table_caption(answer: Answer, shown: int) -> str:
    if len(answer.groups) > shown:
        return f"The first {shown} of {len(answer.groups)} groups; all are in {CSV}."
    return "Value ± standard error" + (", and the null below it." if _has_null(answer) else ".")


# ---- jobs


def _rows(run: Run, entries: Sequence[Entry], detailed: set[str]) -> list[dict[str, Any]]:
    """Jobs as rows of a table, for runs of many."""
    found = []
    for entry in entries:
        labels = {"architecture": "", "dataset": "", "seed": "", **entry.labels}
        files = []
        if entry.status == "done":
            path = f"jobs/{entry.id}"
            files.append(("numbers", f"{path}/result.json"))
            if (run.place(entry.id) / "figures").is_dir():
                files.append(("figures", f"{path}/figures/"))
        row = {
            **_link(entry),
            "detailed": entry.id in detailed,
            "labels": labels,
            "status": entry.status,
            "seconds": _seconds(entry),
            "warnings": len(entry.warnings),
            "files": files,
        }
        found.append(row)
    return found


def _seconds(entry: Entry) -> str:
    return "" if entry.seconds is None else f"{entry.seconds:.1f}"


def _jobs(run: Run, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    pictures = {entry.id: _figures(run.place(entry.id) / "figures") for entry in entries}
    _embed(list(pictures.values()))
    found = []
    for entry in entries:
        found.append(_job(run, entry, pictures[entry.id], single=len(entries) == 1))
    return found


def _job(run: Run, entry: Entry, figures: list[dict[str, Any]], *, single: bool) -> dict[str, Any]:
    record = _record(run.place(entry.id))
    quantities = []
    for name, quantity in entry.quantities.items():
        quantities.append(_quantity_row(name, quantity, entry.meanings.get(name, "")))
    settings = [(name, setting_text(value)) for name, value in entry.settings.items()]
    for figure in figures:
        figure["path"] = f"jobs/{entry.id}/figures/{figure['file']}"
    return {
        **_link(entry),
        "status": entry.status,
        "seconds": _seconds(entry),
        "open": single,
        "summary": _summary(entry, record),
        "error": entry.error,
        "traceback": record.get("traceback") or "",
        "warnings": entry.warnings,
        "figures": figures,
        "quantities": quantities,
        "conventions": entry.conventions,
        "settings": settings,
        "path": f"jobs/{entry.id}",
        "arrays": _arrays(run.place(entry.id), record),
    }


def _record(place: Path) -> dict[str, Any]:
    for name in ("failure.json", "result.json"):
        if (place / name).is_file():
            try:
                return read_json(place / name)
            except Error:
                return {}
    return {}


def _summary(entry: Entry, record: dict[str, Any]) -> str:
    if entry.status not in ("done", "failed"):
        return "Not computed yet."
    parts = [str(record.get("summary") or "")]
    shape = entry.settings.get("shape")
    if shape:
        outputs = entry.settings.get("outputs", 1)
        size = " × ".join(map(str, shape))
        parts.append(f"Inputs {size}, {outputs} output{'' if outputs == 1 else 's'}.")
    return " ".join(part for part in parts if part)


def _quantity_row(name: str, quantity: Quantity, about: str) -> dict[str, Any]:
    over = f"{quantity.count or ''} {quantity.over}".strip()
    return {
        "name": name,
        "about": about,
        "value": value_text(quantity),
        "sort": "" if math.isnan(quantity.value) else repr(quantity.value),
        "null": quantity.null_text or _NOTHING,
        "distance": distance(quantity) or _NOTHING,
        "over": "exact" if quantity.exact else over or _NOTHING,
    }


def setting_text(value: Any) -> str:
    """A setting as a reader sees it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _arrays(place: Path, record: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for name, entry in (record.get("arrays") or {}).items():
        table = f"{TABLES}/{name}.csv"
        path = f"jobs/{place.name}/{table}"
        row = {
            "name": name,
            "about": entry.get("about", ""),
            "shape": " × ".join(map(str, entry.get("shape", []))) or "number",
            "dtype": entry.get("dtype", ""),
            "csv": path if (place / table).is_file() else "",
        }
        found.append(row)
    return found


# ---- figures


def _figures(place: Path) -> list[dict[str, Any]]:
    """Figures in the order in which they were drawn, with their captions; not yet their content."""
    record: dict[str, Any] = {}
    listing = place / "figures.json"
    if listing.is_file():
        try:
            record = read_json(listing)
        except Error:
            record = {}
    captions = record.get("captions") or {}
    # Runs of before captions have pictures only.
    pictures = [*place.glob("*.svg"), *place.glob("*.png")]
    names = list(captions) or sorted({path.stem for path in pictures})
    found = []
    for name in names:
        path = _picture(place, str(name))
        if path is None:
            continue
        caption = str(captions.get(name) or name)
        titles = record.get("titles") or {}
        figure = {
            "name": name,
            "file": path.name,
            "ending": path.suffix[1:],
            "caption": caption,
            "alt": str(titles.get(name) or caption),
            "place": path,
            "data": "",
        }
        found.append(figure)
    return found


def _picture(place: Path, name: str) -> Path | None:
    for ending in ("svg", "png"):
        path = place / f"{name}.{ending}"
        # A link would put another file of this machine into a page that is shown to others.
        if path.parent == place and path.is_file() and not path.is_symlink():
            return path
    return None


def _embed(jobs: Sequence[list[dict[str, Any]]]) -> None:
    """Put figures into the page while there is room: the first of every job before the second."""
    most = max(map(len, jobs), default=0)
    left = MOST_EMBEDDED
    for number in range(most):
        for figures in jobs:
            if number >= len(figures):
                continue
            figure = figures[number]
            size = figure["place"].stat().st_size
            if size <= left:
                left -= size
                content = figure["place"].read_bytes()
                figure["data"] = embedded(content, figure["ending"])


# ---- how to reproduce


def _reproduction(run: Run) -> dict[str, Any]:
    folder = run.folder.name
    seeds = ", ".join(map(str, run.record.get("seeds", [])))
    facts = [("seeds", seeds), ("threads a job", str(run.record.get("threads", 1)))]
    for name, value in (run.record.get("environment") or {}).items():
        facts.append((name, setting_text(value)))
    return {
        "objects": _objects(run),
        "command": f"penchant run {folder}/experiment.toml --out {folder}-again",
        "python": (
            f'import penchant\nrun = penchant.read("{folder}")\nrun.to_pandas()                  '
            "# one row a job and quantity\nrun.results()[0].arrays          # name to array"
        ),
        "facts": [(name, text) for name, text in facts if text],
    }


def _objects(run: Run) -> str:
    """Objects of a script that the experiment names by their content, which no file can hold."""
    asked = run.folder / "experiment.toml"
    text = asked.read_text(encoding="utf-8") if asked.is_file() else ""
    found = re.findall(r'"<(\S+) (?:[0-9a-f]{16}|unidentifiable)>"', text)
    return ", ".join(dict.fromkeys(found))


def _write_csv(path: Path, entries: Sequence[Entry]) -> None:
    """All quantities of all jobs: one row a job and quantity."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    labels = ("probe", "architecture", "dataset", "seed")
    numbers = ("value", "stderr", "null", "null_spread", "null_stderr", "over", "count", "unit")
    writer.writerow(["job", *labels, "quantity", *numbers, "exact"])
    for entry in entries:
        place = [entry.id, *(entry.labels.get(label, "") for label in labels)]
        for name, quantity in entry.quantities.items():
            values = [getattr(quantity, number) for number in numbers]
            writer.writerow([*place, name, *values, quantity.exact])
    with atomic(path, durable=False) as file:
        file.write(text.getvalue().encode(errors="backslashreplace"))
