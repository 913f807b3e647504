"""One self-contained HTML page from a run folder: every text that a user wrote is escaped."""

from __future__ import annotations

import base64
import collections
import json
import math
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.results import atomic, read_json
from penchant.runs import Run


def write_report(run: Run) -> Path:
    """Write `report.html` of a run and return its path."""
    import jinja2

    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    text = environment.from_string(template).render(**_page(run))
    path = run.folder / "report.html"
    with atomic(path) as file:
        file.write(text.encode())
    return path


def _page(run: Run) -> dict[str, Any]:
    jobs = [_job(run.folder, job) for job in run.jobs]
    counts = collections.Counter(job["status"] for job in jobs)
    toml = run.folder / "experiment.toml"
    return {
        "title": run.title,
        "counts": f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}: "
        + ", ".join(f"{count} {status}" for status, count in counts.items()),
        "seeds": run.record.get("seeds", []),
        "threads": run.record.get("threads", 1),
        "jobs": jobs,
        "environment": run.record.get("environment", {}),
        "experiment": toml.read_text(encoding="utf-8") if toml.is_file() else "",
    }


def _job(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    labels = {"architecture": "", "dataset": "", "seed": "", **entry["labels"]}
    heading = " · ".join(
        str(part)
        for part in (
            labels["probe"],
            labels["architecture"],
            labels["dataset"],
            f"seed {labels['seed']}",
        )
        if part
    )
    page = {
        **entry,
        "labels": labels,
        "heading": heading,
        "summary": "not computed yet",
        "seconds": "–",
        "error": "",
        "traceback": "",
    }
    page.update(warnings=[], quantities=[], figures=[], conventions={}, components=[], arrays={})
    place = folder / entry["path"]
    if not (place / "result.json").is_file():
        return page
    try:
        record = read_json(place / "result.json")
    except Error as error:
        return {**page, "status": "failed", "summary": "", "error": str(error)}
    return {**page, **_measured(record, place)}


def _measured(record: dict[str, Any], place: Path) -> dict[str, Any]:
    about = record.get("meanings", {})
    return {
        "status": record["status"],
        "summary": f"{record.get('summary', '')} Preset {record.get('preset', 'quick')}, {record.get('dtype')}, {record.get('device')}.",
        "seconds": f"{record['cost']['seconds']:.1f}",
        "error": record.get("error") or "",
        "traceback": record.get("traceback") or "",
        "warnings": record.get("warnings", []),
        "quantities": [
            _row(name, quantity, about.get(name, ""))
            for name, quantity in record.get("quantities", {}).items()
        ],
        "figures": [_figure(path) for path in sorted((place / "figures").glob("*.png"))],
        "conventions": record.get("conventions", {}),
        "components": _components(record),
        "arrays": record.get("arrays", {}),
    }


def _row(name: str, quantity: dict[str, Any], about: str) -> dict[str, str]:
    error, null_error = quantity.get("stderr"), quantity.get("null_stderr")
    over = " ".join(
        str(part) for part in (quantity.get("count") or "", quantity.get("over")) if part
    )
    unit = f" {quantity['unit']}" if quantity.get("unit") else ""
    return {
        "name": name,
        "value": number(quantity.get("value"), error) + unit,
        "stderr": "–" if error is None else f"{error:.2g}",
        "null": "–"
        if quantity.get("null") is None
        else number(quantity["null"], null_error)
        + (f" ± {null_error:.2g}" if null_error is not None else ""),
        "over": over or "–",
        "about": about,
    }


def number(value: float | None, error: float | None = None) -> str:
    """A number with the digits its error leaves: one more than the error's first."""
    if value is None:
        return "missing"
    if not error or not value:
        return f"{value:.6g}"
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) + 2
    return f"{value:.{min(max(digits, 2), 12)}g}"


def _figure(path: Path) -> dict[str, str]:
    return {"name": path.stem, "data": base64.b64encode(path.read_bytes()).decode()}


def _components(record: dict[str, Any]) -> list[tuple[str, str]]:
    named = [
        (kind, record.get(kind))
        for kind in ("probe", "architecture", "dataset", "estimators", "training", "versions")
    ]
    return [(kind, json.dumps(value, indent=1)) for kind, value in named if value]
