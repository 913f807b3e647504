"""Jobs in a report: a section each with its figures, or a row each where there are many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.results.files import read_json
from penchant.results.job_folder import JobFolder
from penchant.results.quantities import Quantity, distance
from penchant.results.runs import Run
from penchant_numerics.rounding import counted

from penchant_report.answers import Entry
from penchant_report.pages import embedded
from penchant_report.tables import FOLDER as TABLES
from penchant_report.wording import setting_text, value_text

MOST_EMBEDDED = 600_000  # bytes of figures in the sections of jobs
_NOTHING = "–"


def link(entry: Entry) -> dict[str, str]:
    """Where the page shows a job, and what it calls it."""
    return {"anchor": entry.id, "title": entry.title}


def job_rows(run: Run, entries: Sequence[Entry], detailed: set[str]) -> list[dict[str, Any]]:
    """Jobs as rows of a table, for runs of many.

    Args:
        run: The run.
        entries: Its jobs.
        detailed: Ids of those that have a section of their own.

    Returns:
        What the page shows of each.
    """
    rows = []
    for entry in entries:
        labels = {"architecture": "", "dataset": "", "seed": "", **entry.labels}
        files = []
        if entry.status == "done":
            path = f"jobs/{entry.id}"
            files.append(("numbers", f"{path}/result.json"))
            if (JobFolder.of(run.folder, entry.id).path / "figures").is_dir():
                files.append(("figures", f"{path}/figures/"))
        row = {
            **link(entry),
            "detailed": entry.id in detailed,
            "labels": labels,
            "status": entry.status,
            "seconds": _seconds(entry),
            "warnings": len(entry.warnings),
            "files": files,
        }
        rows.append(row)
    return rows


def _seconds(entry: Entry) -> str:
    if entry.seconds is None:
        return ""
    return f"{entry.seconds:.1f}"


def job_sections(run: Run, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """A section a job, with its figures."""
    # All figures first: what is put into the page is shared out between jobs.
    pictures = {}
    for entry in entries:
        folder = JobFolder.of(run.folder, entry.id).path
        pictures[entry.id] = _figures(folder / "figures")
    _embed(list(pictures.values()))
    single = len(entries) == 1
    sections = []
    for entry in entries:
        figures = pictures[entry.id]
        sections.append(_job(run, entry, figures, single=single))
    return sections


def _job(run: Run, entry: Entry, figures: list[dict[str, Any]], *, single: bool) -> dict[str, Any]:
    folder = JobFolder.of(run.folder, entry.id).path
    record = _record(folder)
    path = f"jobs/{entry.id}"
    quantities = []
    for name, quantity in entry.quantities.items():
        meaning = entry.meanings.get(name, "")
        quantities.append(_quantity_row(name, quantity, meaning))
    settings = [(name, setting_text(value)) for name, value in entry.settings.items()]
    for figure in figures:
        figure["path"] = f"{path}/figures/{figure['file']}"
    return {
        **link(entry),
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
        "arrays": _arrays(folder, record),
    }


def _record(folder: Path) -> dict[str, Any]:
    for name in ("failure.json", "result.json"):
        path = folder / name
        if not path.is_file():
            continue
        # A damaged file has been reported already.
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
        outputs_text = counted(outputs, "output")
        parts.append(f"Inputs {size}, {outputs_text}.")
    return " ".join(parts)


def _quantity_row(name: str, quantity: Quantity, about: str) -> dict[str, Any]:
    over = f"{quantity.count or ''} {quantity.over}".strip()
    return {
        "name": name,
        "about": about,
        "value": value_text(quantity),
        "sort": "" if math.isnan(quantity.value) else repr(quantity.value),
        "null": quantity.null_text or _NOTHING,
        "distance": distance(quantity, quantity.against_null) or _NOTHING,
        "over": "exact" if quantity.exact else over or _NOTHING,
    }


def _arrays(folder: Path, record: dict[str, Any]) -> list[dict[str, Any]]:
    tables = []
    arrays = record.get("arrays") or {}
    for name, entry in arrays.items():
        lengths = map(str, entry.get("shape", []))
        # Large arrays have no table.
        table = f"{TABLES}/{name}.csv"
        written = (folder / table).is_file()
        row = {
            "name": name,
            "about": entry.get("about", ""),
            "shape": " × ".join(lengths) or "number",
            "dtype": entry.get("dtype", ""),
            "csv": f"jobs/{folder.name}/{table}" if written else "",
        }
        tables.append(row)
    return tables


# ---- figures


def _figures(folder: Path) -> list[dict[str, Any]]:
    """Figures in the order in which they were drawn, with their captions; not yet their content."""
    record: dict[str, Any] = {}
    listing = folder / "figures.json"
    if listing.is_file():
        try:
            record = read_json(listing)
        except Error:
            record = {}
    captions = record.get("captions") or {}
    titles = record.get("titles") or {}
    # Runs made before captions existed have pictures only.
    pictures = [*folder.glob("*.svg"), *folder.glob("*.png")]
    names = list(captions) or sorted({path.stem for path in pictures})
    figures = []
    for name in names:
        path = _picture(folder, str(name))
        if path is None:
            continue
        caption = str(captions.get(name) or name)
        figure = {
            "name": name,
            "file": path.name,
            "ending": path.suffix[1:],
            "caption": caption,
            "alt": str(titles.get(name) or caption),
            "folder": path,
            "data": "",
        }
        figures.append(figure)
    return figures


def _picture(folder: Path, name: str) -> Path | None:
    for ending in ("svg", "png"):
        path = folder / f"{name}.{ending}"
        if path.parent != folder:
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
            path = figure["folder"]
            size = path.stat().st_size
            if size <= left:
                left -= size
                content = path.read_bytes()
                figure["data"] = embedded(content, figure["ending"])
