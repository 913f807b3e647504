"""The report of a run: answers first, then every job, then how to reproduce it.

One page that opens from disk. Each probe shows its lead figure, groups side by side. Other figures
are part of the page while they are small; runs of many jobs list them with links to their files.
"""

from __future__ import annotations

import collections
import csv
import datetime
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penchant.results.bounds import LARGEST_EXPERIMENT, content_of
from penchant.results.files import atomic
from penchant.results.inside import inside
from penchant.results.runs import Run
from penchant_numerics.statistics import counted

from penchant_report.answer_section import CSV, answer_values
from penchant_report.answers import Answer, Entry, answers, entries_of, seeds_of
from penchant_report.job_sections import job_rows, job_sections, link
from penchant_report.merging import by_pattern, merged
from penchant_report.pages import write_page
from penchant_report.wording import Z_MEANING, duration, grouped, level_text, setting_text

MOST_DETAILED = 200  # jobs that have a section of their own
MOST_WARNINGS = 20


def write_report(run: Run) -> Path:
    """Write `report.html` of a run, and its numbers beside it; returns the page's path."""
    entries = entries_of(run)
    _write_csv(inside(run.folder, CSV), entries)
    values = _page(run, entries)
    path = inside(run.folder, "report.html")
    return write_page(path, "report.html.jinja", values)


def _page(run: Run, entries: Sequence[Entry]) -> dict[str, Any]:
    many = len(entries) > MOST_DETAILED
    failed = [entry for entry in entries if entry.status == "failed"]
    # Of many jobs only failed ones have a section.
    detailed = failed[:MOST_DETAILED] if many else list(entries)
    waiting = [entry for entry in entries if entry.status not in ("done", "failed")]
    failures = [{**link(entry), "error": entry.error} for entry in failed]
    shown = {entry.id for entry in detailed}
    return {
        "title": run.title,
        "lead": _lead(run, entries),
        "count": len(entries),
        "answers": [_answer(answer, run) for answer in answers(entries)],
        "legend": _legend(entries),
        "failures": failures,
        "waiting": len(waiting),
        "reduced": run.record.get("reduced", ""),
        "rows": job_rows(run, entries, shown) if many else [],
        "jobs": job_sections(run, detailed),
        "csv": CSV,
        **_reproduction(run),
        "experiment": _asked(run),
    }


def _answer(answer: Answer, run: Run) -> dict[str, Any]:
    """What the page shows of a probe: its answer, and the warnings of its jobs."""
    warnings = _warnings(answer.entries)
    return {
        **answer_values(answer, run),
        "warnings": warnings[:MOST_WARNINGS],
        "more_warnings": max(0, len(warnings) - MOST_WARNINGS),
    }


def _lead(run: Run, entries: Sequence[Entry]) -> str:
    # How many, how they ended, and how long they took.
    jobs = counted(len(entries), "job")
    statuses = [entry.status for entry in entries]
    counts = collections.Counter(statuses)
    endings = [f"{count} {status}" for status, count in counts.items()]
    listed = ", ".join(endings)
    seconds = sum(entry.seconds or 0.0 for entry in entries)
    work = duration(seconds)
    parts = [f"{jobs}: {listed}", f"{work} of work"]

    # The day on which a job ended last.
    record = inside(run.folder, "run.json")
    if record.is_file():
        parts.append(day_of(record))
    return " · ".join(parts)


def day_of(path: Path) -> str:
    """The day on which a file was written."""
    written = path.stat().st_mtime
    try:
        moment = datetime.datetime.fromtimestamp(written)
    except (ValueError, OverflowError, OSError):  # a file may come with any date
        return "on an unknown day"
    return f"{moment.day} {moment:%B %Y}"


def _legend(entries: Sequence[Entry]) -> str:
    text = (
        "▲ and ▼: significantly above and below the null, ✱: a significant difference "
        f"(two-sided {level_text(1)}, corrected for the comparisons of its table). {Z_MEANING} "
    )
    if len(seeds_of(entries)) > 1:
        text += (
            "Values are means over seeds; their standard error is the larger of what the seeds' "
            "own standard errors give and what their spread shows. ≁: seeds differ by more than "
            "their standard errors allow, so their spread alone is the standard error. "
        )
    return text + (
        "± is one standard error; after a null it is the standard deviation of the statistic when "
        "there is no effect."
    )


def _warnings(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Every warning once, with the jobs that have it; other numbers make no other warning."""
    links = {entry.id: link(entry) for entry in entries}
    pairs = [(entry.id, text) for entry in entries for text in entry.warnings]
    jobs = grouped(pairs)
    warnings = []
    for texts in by_pattern({text: text for text in jobs}):
        named = dict.fromkeys(name for text in texts for name in jobs[text])
        warnings.append({"text": merged(texts), "jobs": [links[name] for name in named]})
    return warnings


# ---- how to reproduce


def _reproduction(run: Run) -> dict[str, Any]:
    folder = run.folder.name
    record = run.record
    seeds = map(str, record.get("seeds", []))
    threads = str(record.get("threads", 1))
    facts = [("seeds", ", ".join(seeds)), ("threads per job", threads)]
    environment = record.get("environment") or {}
    for name, value in environment.items():
        facts.append((name, setting_text(value)))
    return {
        "objects": _objects(run),
        "command": f"penchant run experiment.toml --out ../{folder}-again   # in this folder",
        "python": (
            "import penchant\n"
            'run = penchant.read(".")         # in this folder\n'
            "run.to_pandas()                  # one row per job and quantity\n"
            "run.results()[0].arrays          # name to array"
        ),
        "facts": [(name, text) for name, text in facts if text],
    }


def _asked(run: Run) -> str:
    """The experiment as it was written; empty where it was not stored."""
    path = inside(run.folder, "experiment.toml")
    if not path.is_file():
        return ""
    return content_of(path, LARGEST_EXPERIMENT).decode(errors="replace")


def _objects(run: Run) -> str:
    """Objects of a script that the experiment names by their content, which no file can hold."""
    text = _asked(run)
    matches = re.findall(r'"<(\S+) (?:[0-9a-f]{16}|unidentifiable)>"', text)
    once = dict.fromkeys(matches)
    return ", ".join(once)


def _write_csv(path: Path, entries: Sequence[Entry]) -> None:
    """All quantities of all jobs: one row per job and quantity."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    labels = ("probe", "architecture", "dataset", "seed")
    numbers = ("value", "stderr", "null", "null_spread", "null_stderr", "over", "count", "unit")
    writer.writerow(["job", *labels, "quantity", *numbers, "exact", "df", "p", "z"])
    for entry in entries:
        own = [entry.labels.get(label, "") for label in labels]
        for name, quantity in entry.quantities.items():
            values = [getattr(quantity, number) for number in numbers]
            away = quantity.against_null
            decided = (away.p, away.z) if away else (None, None)
            row = [entry.id, *own, name, *values, quantity.exact, quantity.df, *decided]
            writer.writerow(row)

    # A label may hold signs that no file can.
    content = text.getvalue()
    data = content.encode(errors="backslashreplace")
    with atomic(path, durable=False) as file:
        file.write(data)
