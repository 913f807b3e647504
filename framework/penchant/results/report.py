"""The report of a run: answers first, then every job, then how to reproduce it.

One page that opens from disk. It reads no arrays. Figures are part of the page while they are
small; runs of many jobs list them with links to their files.
"""

from __future__ import annotations

import collections
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
    path = run.folder / "report.html"
    return write_page(path, "report.html.jinja", values)


def _page(run: Run, entries: Sequence[Entry]) -> dict[str, Any]:
    many = len(entries) > MOST_DETAILED
    failed = [entry for entry in entries if entry.status == "failed"]
    # Of many jobs only those that failed have a section: that is where one has to look.
    detailed = failed[:MOST_DETAILED] if many else list(entries)
    waiting = [entry for entry in entries if entry.status not in ("done", "failed")]
    failures = [{**_link(entry), "error": entry.error} for entry in failed]
    shown = {entry.id for entry in detailed}
    warnings = _warnings(entries)
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
        "experiment": _asked(run),
    }


def _lead(run: Run, entries: Sequence[Entry]) -> str:
    # How many, how they ended, and how long they took.
    jobs = _counted(len(entries), "job")
    counts = collections.Counter(entry.status for entry in entries)
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    seconds = sum(entry.seconds or 0.0 for entry in entries)
    work = _duration(seconds)
    parts = [f"{jobs}: {listed}", f"{work} of work"]
    # The day on which a job ended last.
    record = run.folder / "run.json"
    if record.is_file():
        written = record.stat().st_mtime
        moment = datetime.datetime.fromtimestamp(written)
        parts.append(f"{moment.day} {moment:%B %Y}")
    return " · ".join(parts)


def _counted(count: int, word: str) -> str:
    """A number and its noun.

    >>> _counted(1, "job"), _counted(3, "job")
    ('1 job', '3 jobs')
    """
    ending = "" if count == 1 else "s"
    return f"{count} {word}{ending}"


def _duration(seconds: float) -> str:
    """A time in the words of a person.

    >>> _duration(5.21), _duration(754), _duration(90000)
    ('5.2 seconds', '13 minutes', '25 hours')
    """
    if seconds < 10:
        return f"{seconds:.2g} seconds"
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    if seconds < 7200:
        minutes = seconds / 60
        return f"{minutes:.0f} minutes"
    hours = seconds / 3600
    return f"{hours:.0f} hours"


def _legend(entries: Sequence[Entry]) -> str:
    text = (
        "▲ and ▼: above and below the null, ✱: a difference, each by more than its error "
        "(two-sided 1 % point, corrected for the number of comparisons of its table). "
    )
    if len(_seeds(entries)) > 1:
        text += (
            "Values are means over seeds; their error is the larger of what the seeds' own errors "
            "give and what their spread shows. ≁: seeds differ by more than their errors allow, so "
            "their spread alone is the error. "
        )
    return text + "± is one standard error; of a null, the standard deviation without an effect."


def _seeds(entries: Sequence[Entry]) -> set[Any]:
    return {entry.labels.get("seed") for entry in entries}


def _link(entry: Entry) -> dict[str, str]:
    return {
        "anchor": entry.id,
        "title": entry.title,
    }


def _warnings(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Every warning once, with the jobs that have it."""
    links = {}
    pairs = []
    for entry in entries:
        links[entry.id] = _link(entry)
        for text in entry.warnings:
            pairs.append((entry.id, text))
    found = []
    for text, names in grouped(pairs).items():
        jobs = [links[name] for name in names]
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
        axes = " × ".join(f"{axis}s" for axis in answer.axes)
        parts.append(f"{len(answer.groups)} {axes}")
    seeds = _seeds(answer.entries)
    parts.append(_counted(len(seeds), "seed"))
    # Jobs without a result have no settings.
    presets = {str(entry.settings.get("preset")) for entry in answer.entries if entry.settings}
    if presets:
        listed = ", ".join(sorted(presets))
        parts.append(f"preset {listed}")
    return " · ".join(parts)


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
        error = short_error(quantity.stderr, quantity.value)
        text += f" ± {error}"
    text = f"{text} {quantity.unit}".rstrip()
    return text.replace("-", "−")


def _contrast_values(contrast: Contrast, looks: int) -> dict[str, Any]:
    apart = contrast.difference
    larger, smaller = contrast.second, contrast.first
    if apart.value < 0:
        larger, smaller = smaller, larger
    between = "none"
    if apart.value:
        between = f"{larger.label} over {smaller.label}"
    # The names say the sign.
    size = abs(apart.value)
    text = rounded(size, apart.error)
    if apart.error:
        error = short_error(apart.error, apart.value)
        text += f" ± {error}"
    return {
        "text": text,
        "sort": repr(size),
        "exceeds": apart.exceeds(looks),
        "between": between,
    }


def _sentences(answer: Answer) -> list[str]:
    """What stands out, in words: from a null first, then between groups."""
    found = []
    looks = answer.looks
    groups = answer.groups[:MOST_GROUPS]
    for name in answer.meanings:
        for group in groups:
            if name in group.quantities and answer.from_null(group, name):
                found.append(_null_sentence(answer, group, name))
    for name in answer.meanings:
        contrasts = answer.contrasts(name)
        if not contrasts:
            continue
        # The largest speaks for its quantity.
        largest = contrasts[0]
        if largest.difference.exceeds(looks):
            found.append(_contrast_sentence(largest, looks))
    rest = len(found) - MOST_SENTENCES
    if rest > 0:
        # The largest of both kinds are worth more than many of one.
        nulls = [text for text in found if "its null" in text]
        between = [text for text in found if "its null" not in text]
        half = MOST_SENTENCES // 2
        room = max(half, MOST_SENTENCES - len(between))
        found = nulls[:room]
        found += between[: MOST_SENTENCES - len(found)]
        found.append(f"{rest} more are marked in the table.")
    return found


def _null_sentence(answer: Answer, group: Group, name: str) -> str:
    pooled = group.quantities[name]
    quantity = pooled.quantity
    # One group alone needs no name.
    who = name
    if len(answer.groups) > 1:
        who = f"{name} of {group.label}"
    side = "above" if answer.from_null(group, name) > 0 else "below"
    value = value_text(quantity)
    away = _errors_text(pooled)
    return f"{who} is {value}, {side} its null of {quantity.null_text}{away}."


def _errors_text(found: Pooled) -> str:
    away = against_null(found)
    if away is None or away.errors is None:
        return ""
    many = _many(away.errors)
    return f" by {many} errors"


def _many(errors: float) -> str:
    size = abs(errors)
    if size < 99.5:
        return f"{size:.2g}"
    return "more than 99"


def _contrast_sentence(contrast: Contrast, looks: int) -> str:
    values = _contrast_values(contrast, looks)
    between = values["between"]
    larger, _, smaller = between.partition(" over ")
    size = values["text"]
    errors = contrast.difference.errors
    if errors is not None:
        size += f" ({_many(errors)} errors)"
    return f"{contrast.quantity}: {larger} exceeds {smaller} by {size}."


def _nothing_found(answer: Answer) -> str:
    nulls = _has_null(answer)
    several = len(answer.groups) > 1
    if nulls and several:
        return "Nothing differs from its null, or between groups, by more than its error."
    if nulls:
        return "Nothing differs from its null by more than its error."
    if several:
        return "Nothing differs between groups by more than its error."
    return "There is neither a null nor another group to compare these numbers with."


def _has_null(answer: Answer) -> bool:
    for group in answer.groups:
        for found in group.quantities.values():
            if found.quantity.null is not None:
                return True
    return False


def _flags(answer: Answer) -> list[str]:
    """What keeps groups from being compared."""
    names: dict[str, None] = {}
    for first, second in answer.pairs:
        differing = clashes(first.conventions, second.conventions)
        names.update(dict.fromkeys(differing))
    if not names:
        return []
    listed = ", ".join(names)
    return [
        f"Conventions differ between groups ({listed}), so these groups are shown side by side but "
        "not compared."
    ]


def _panel_caption(answer: Answer) -> str:
    text = "Dots with bars: values ± one standard error"
    if len(_seeds(answer.entries)) > 1:
        text += ", pooled over seeds; open circles: single seeds"
    text += "."
    if _has_null(answer):
        text += " Dashed, with a band: the null ± its standard deviation."
    # What there was no room for.
    quantities = len(answer.meanings)
    if quantities > MOST_PANELS:
        text += f" The first {MOST_PANELS} of {quantities} quantities."
    groups = len(answer.groups)
    if groups > MOST_ROWS:
        text += f" The first {MOST_ROWS} of {groups} groups."
    return text


def _table_caption(answer: Answer, shown: int) -> str:
    groups = len(answer.groups)
    if groups > shown:
        return f"The first {shown} of {groups} groups; all are in {CSV}."
    if _has_null(answer):
        return "Value ± standard error, and the null below it."
    return "Value ± standard error."


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
    if entry.seconds is None:
        return ""
    return f"{entry.seconds:.1f}"


def _jobs(run: Run, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    # All figures first: what is put into the page is shared out between jobs.
    pictures = {}
    for entry in entries:
        place = run.place(entry.id)
        pictures[entry.id] = _figures(place / "figures")
    _embed(list(pictures.values()))
    single = len(entries) == 1
    found = []
    for entry in entries:
        figures = pictures[entry.id]
        found.append(_job(run, entry, figures, single=single))
    return found


def _job(run: Run, entry: Entry, figures: list[dict[str, Any]], *, single: bool) -> dict[str, Any]:
    place = run.place(entry.id)
    record = _record(place)
    path = f"jobs/{entry.id}"
    quantities = []
    for name, quantity in entry.quantities.items():
        meaning = entry.meanings.get(name, "")
        quantities.append(_quantity_row(name, quantity, meaning))
    settings = [(name, setting_text(value)) for name, value in entry.settings.items()]
    for figure in figures:
        figure["path"] = f"{path}/figures/{figure['file']}"
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
        "path": path,
        "arrays": _arrays(place, record),
    }


def _record(place: Path) -> dict[str, Any]:
    for name in ("failure.json", "result.json"):
        path = place / name
        if not path.is_file():
            continue
        # A damaged file has been told of already.
        try:
            return read_json(path)
        except Error:
            return {}
    return {}


def _summary(entry: Entry, record: dict[str, Any]) -> str:
    if entry.status not in ("done", "failed"):
        return "Not computed yet."
    summary = str(record.get("summary") or "")
    parts = [summary] if summary else []
    shape = entry.settings.get("shape")
    if shape:
        size = " × ".join(map(str, shape))
        outputs = entry.settings.get("outputs", 1)
        told = _counted(outputs, "output")
        parts.append(f"Inputs {size}, {told}.")
    return " ".join(parts)


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
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _arrays(place: Path, record: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    arrays = record.get("arrays") or {}
    for name, entry in arrays.items():
        lengths = map(str, entry.get("shape", []))
        # Large arrays have no table.
        table = f"{TABLES}/{name}.csv"
        written = (place / table).is_file()
        row = {
            "name": name,
            "about": entry.get("about", ""),
            "shape": " × ".join(lengths) or "number",
            "dtype": entry.get("dtype", ""),
            "csv": f"jobs/{place.name}/{table}" if written else "",
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
    titles = record.get("titles") or {}
    # Runs of before captions have pictures only.
    pictures = [*place.glob("*.svg"), *place.glob("*.png")]
    names = list(captions) or sorted({path.stem for path in pictures})
    found = []
    for name in names:
        path = _picture(place, str(name))
        if path is None:
            continue
        caption = str(captions.get(name) or name)
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
        if path.parent != place:
            continue
        # A link would put another file of this machine into a page that is shown to others.
        if path.is_file() and not path.is_symlink():
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
            path = figure["place"]
            size = path.stat().st_size
            if size <= left:
                left -= size
                content = path.read_bytes()
                figure["data"] = embedded(content, figure["ending"])


# ---- how to reproduce


def _reproduction(run: Run) -> dict[str, Any]:
    folder = run.folder.name
    record = run.record
    seeds = map(str, record.get("seeds", []))
    threads = str(record.get("threads", 1))
    facts = [("seeds", ", ".join(seeds)), ("threads a job", threads)]
    environment = record.get("environment") or {}
    for name, value in environment.items():
        facts.append((name, setting_text(value)))
    return {
        "objects": _objects(run),
        "command": f"penchant run {folder}/experiment.toml --out {folder}-again",
        "python": (
            "import penchant\n"
            f'run = penchant.read("{folder}")\n'
            "run.to_pandas()                  # one row a job and quantity\n"
            "run.results()[0].arrays          # name to array"
        ),
        "facts": [(name, text) for name, text in facts if text],
    }


def _asked(run: Run) -> str:
    """The experiment as it was written; empty where nobody kept it."""
    path = run.folder / "experiment.toml"
    if not path.is_file():
        return ""
    return path.read_text(encoding="utf-8")


def _objects(run: Run) -> str:
    """Objects of a script that the experiment names by their content, which no file can hold."""
    text = _asked(run)
    found = re.findall(r'"<(\S+) (?:[0-9a-f]{16}|unidentifiable)>"', text)
    once = dict.fromkeys(found)
    return ", ".join(once)


def _write_csv(path: Path, entries: Sequence[Entry]) -> None:
    """All quantities of all jobs: one row a job and quantity."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    labels = ("probe", "architecture", "dataset", "seed")
    numbers = ("value", "stderr", "null", "null_spread", "null_stderr", "over", "count", "unit")
    writer.writerow(["job", *labels, "quantity", *numbers, "exact"])
    for entry in entries:
        own = [entry.labels.get(label, "") for label in labels]
        for name, quantity in entry.quantities.items():
            values = [getattr(quantity, number) for number in numbers]
            row = [entry.id, *own, name, *values, quantity.exact]
            writer.writerow(row)
    content = text.getvalue()
    with atomic(path, durable=False) as file:
        file.write(content.encode(errors="backslashreplace"))
