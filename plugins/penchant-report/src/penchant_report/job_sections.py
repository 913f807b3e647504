"""Jobs in a report: a section each with its figures, or a row each where there are many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.results.bounds import LARGEST_PICTURE, content_of
from penchant.results.files import read_json
from penchant.results.inside import inside
from penchant.results.job_folder import JobFolder
from penchant.results.quantities import Quantity, distance
from penchant.results.records import accuracy_text
from penchant.results.runs import Run
from penchant_numerics.statistics import counted

from penchant_report import table_views
from penchant_report.answers import Entry
from penchant_report.drawings import is_picture
from penchant_report.hover_points import checked
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
            if inside(run.folder, f"{path}/figures").is_dir():
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
        pictures[entry.id] = _figures(inside(folder, "figures"))
    _embed([figures for figures, _ in pictures.values()])
    sections = []
    for entry in entries:
        figures, left_out = pictures[entry.id]
        section = _job(run, entry, figures)
        section["open"] = len(entries) == 1
        section["warnings"] = [*entry.warnings, *left_out]
        sections.append(section)
    return sections


def _job(run: Run, entry: Entry, figures: list[dict[str, Any]]) -> dict[str, Any]:
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
        figure["pdf"] = f"{path}/figures/{figure['pdf']}" if figure["pdf"] else ""
    return {
        **link(entry),
        "status": entry.status,
        "seconds": _seconds(entry),
        "summary": _summary(entry, record),
        "error": entry.error,
        "traceback": record.get("traceback") or "",
        "figures": figures,
        "quantities": quantities,
        "conventions": entry.conventions,
        "settings": settings,
        "path": path,
        "tables": _tables(folder, record),
        "arrays": _arrays(folder, record),
    }


def _record(folder: Path) -> dict[str, Any]:
    # A damaged file has been reported already.
    try:
        return JobFolder(folder).record()
    except Error:
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
    accuracy = record.get("accuracy")
    if accuracy:
        parts.append(f"The network is {accuracy_text(accuracy)}.")
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


def _tables(folder: Path, record: dict[str, Any]) -> list[dict[str, str]]:
    """Tables as they are shown and as they are copied; of large ones the first rows."""
    entries = record.get("arrays") or {}
    if not any("axes" in entry for entry in entries.values()):
        return []
    try:
        tables = JobFolder(folder).read().tables
    except Error:
        return []  # a damaged file has been reported already
    return [
        {
            "name": name,
            "about": entries[name].get("about", ""),
            "error": f"± standard errors over {table.over}" if table.over else "",
            "html": table_views.to_html(table),
            # A page has no room for the numbers of large tables, which are in a file.
            "csv": "" if table_views.rest(table) else table_views.to_csv(table),
            "file": _csv_file(folder, name),
            "latex": table_views.to_latex(table),
        }
        for name, table in tables.items()
        if table.values.size
    ]


def _arrays(folder: Path, record: dict[str, Any]) -> list[dict[str, Any]]:
    tables = []
    arrays = record.get("arrays") or {}
    for name, entry in arrays.items():
        lengths = map(str, entry.get("shape", []))
        row = {
            "name": name,
            "about": entry.get("about", ""),
            "shape": " × ".join(lengths) or "number",
            "dtype": entry.get("dtype", ""),
            "csv": _csv_file(folder, name),
        }
        tables.append(row)
    return tables


def _csv_file(folder: Path, name: str) -> str:
    """Where the page finds the numbers of a table or an array as CSV; large ones have no file."""
    file = f"{TABLES}/{name}.csv"
    return f"jobs/{folder.name}/{file}" if inside(folder, file).is_file() else ""


# ---- figures


def _figures(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Figures in the order in which they were drawn, with their captions; not yet their content.

    And sentences about those that are left out.
    """
    record: dict[str, Any] = {}
    listing = inside(folder, "figures.json")
    if listing.is_file():
        try:
            record = read_json(listing)
        except Error:
            record = {}
    captions = _texts(record, "captions")
    titles = _texts(record, "titles")
    points = record.get("points")
    # Runs made before captions existed have pictures only.
    pictures = [*folder.glob("*.svg"), *folder.glob("*.png")]
    names = list(captions) or sorted({path.stem for path in pictures})
    figures = []
    left_out: list[str] = []
    for name in names:
        path = _picture(folder, str(name))
        if path is None:
            continue
        # A page that is shown to others must not lead to what runs in their browser.
        if not is_picture(content_of(path, LARGEST_PICTURE), path.suffix[1:]):
            left_out.append(f"{path.name} is left out: it is more than a drawing")
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
            "points": checked(points.get(name)) if isinstance(points, dict) else [],
            "pdf": _pdf(folder, str(name)),
        }
        figures.append(figure)
    return figures, left_out


def _texts(record: dict[str, Any], name: str) -> dict[str, str]:
    """A table of texts; empty where the file has something else."""
    table = record.get(name)
    if not isinstance(table, dict):
        return {}
    return {key: text for key, text in table.items() if isinstance(text, str)}


def _picture(folder: Path, name: str) -> Path | None:
    for ending in ("svg", "png"):
        # A link would put another file of this machine into a page that is shown to others.
        try:
            path = inside(folder, f"{name}.{ending}")
        except Error:
            continue
        if path.parent == folder and path.is_file():
            return path
    return None


def _pdf(folder: Path, name: str) -> str:
    """The name of a figure's PDF; empty where there is none, or it is more than a drawing."""
    try:
        path = inside(folder, f"{name}.pdf")
    except Error:
        return ""
    there = path.parent == folder and path.is_file()
    return path.name if there and is_picture(content_of(path, LARGEST_PICTURE), "pdf") else ""


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
                content = content_of(path, LARGEST_PICTURE)
                figure["data"] = embedded(content, figure["ending"])
