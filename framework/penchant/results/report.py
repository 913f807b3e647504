"""One self-contained HTML page from a run folder: every text that a user wrote is escaped."""

from __future__ import annotations

import base64
import collections
import json
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.results.files import atomic, read_json
from penchant.results.quantities import Quantity, rounded, short_error
from penchant.results.result import Result
from penchant.results.runs import Run

_COMPONENTS = ("probe", "architecture", "dataset", "estimators", "training", "versions")
_NOTHING = "–"


def write_report(run: Run) -> Path:
    """Write `report.html` of a run and return its path."""
    import jinja2

    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    # Labels, warnings and tracebacks may hold anything, also what a browser would run.
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    text = environment.from_string(template).render(**_page(run))
    path = run.folder / "report.html"
    with atomic(path) as file:
        file.write(text.encode(errors="backslashreplace"))
    return path


def _page(run: Run) -> dict[str, Any]:
    jobs = [_job(run, entry) for entry in run.jobs]
    counts = collections.Counter(job["status"] for job in jobs)
    parts = [f"{count} {status}" for status, count in counts.items()]
    listed = ", ".join(parts)
    plural = "" if len(jobs) == 1 else "s"
    toml = run.folder / "experiment.toml"
    # Runs of before some of these were kept are shown without them.
    return {
        "title": run.title,
        "counts": f"{len(jobs)} job{plural}: {listed}",
        "seeds": run.record.get("seeds", []),
        "threads": run.record.get("threads", 1),
        "jobs": jobs,
        "environment": run.record.get("environment", {}),
        "experiment": toml.read_text(encoding="utf-8") if toml.is_file() else "",
    }


def _job(run: Run, entry: dict[str, Any]) -> dict[str, Any]:
    labels = {"architecture": "", "dataset": "", "seed": "", **entry["labels"]}
    names = (
        labels["probe"],
        labels["architecture"],
        labels["dataset"],
        f"seed {labels['seed']}",
    )
    # What a job shows that was not computed, or cannot be read.
    page: dict[str, Any] = {
        **entry,
        "labels": labels,
        "heading": " · ".join(str(name) for name in names if name),
        "summary": "not computed yet",
        "seconds": _NOTHING,
        "error": "",
        "traceback": "",
        "warnings": [],
        "quantities": [],
        "figures": [],
        "conventions": {},
        "components": [],
        "arrays": {},
    }
    # Only what ended has anything to show.
    if entry["status"] not in ("done", "failed"):
        return page
    try:
        result = run.result(entry["id"], arrays=False)
        return {**page, **_measured(result, run.place(entry["id"]))}
    except (Error, KeyError, TypeError, AttributeError) as error:
        # One damaged result must not cost the page of all others.
        return {**page, "status": "failed", "summary": "", "error": str(error)}


def _measured(result: Result, place: Path) -> dict[str, Any]:
    record = result.record
    settings = f"Preset {record.get('preset', 'quick')}, {record.get('dtype')}"
    shape = " x ".join(map(str, result.shape)) if result.shape else ""
    inputs = f", inputs {shape}, {result.outputs} outputs" if shape else ""
    quantities = []
    meanings = result.meanings
    for name, quantity in result.quantities.items():
        row = _row(name, quantity, meanings.get(name, ""))
        quantities.append(row)
    return {
        "status": result.status,
        "summary": f"{record.get('summary', '')} {settings}, {record.get('device')}{inputs}.",
        "seconds": f"{float(result.cost.get('seconds', 0)):.1f}",
        "error": result.error or "",
        "traceback": record.get("traceback") or "",
        "warnings": result.warnings,
        "quantities": quantities,
        "figures": _figures(place / "figures"),
        "conventions": result.conventions,
        "components": _components(record),
        "arrays": _arrays(place),
    }


def _row(name: str, quantity: Quantity, about: str) -> dict[str, str]:
    """A quantity as a row of the table."""
    parts = (quantity.count or "", quantity.over)
    over = " ".join(str(part) for part in parts if part)
    unit = f" {quantity.unit}" if quantity.unit else ""
    null = _NOTHING
    if quantity.null is not None:
        uncertain = quantity.null_spread or quantity.null_stderr
        null = rounded(quantity.null, uncertain)
        if quantity.null_spread is not None:
            null += f" ± {short_error(quantity.null_spread)}"
    error = _NOTHING if quantity.stderr is None else short_error(quantity.stderr)
    return {
        "name": name,
        "value": rounded(quantity.value, quantity.stderr) + unit,
        "stderr": "exact" if quantity.exact else error,
        "null": null,
        "over": over or _NOTHING,
        "about": about,
    }


def _figures(place: Path) -> list[dict[str, str]]:
    """Pictures in the order in which they were drawn, with their captions."""
    captions: dict[str, str] = {}
    path = place / "figures.json"
    if path.is_file():
        try:
            captions = dict(read_json(path)["captions"])
        except (Error, KeyError, TypeError, ValueError):
            captions = {}
    # Runs of before captions have pictures only.
    pictures = [path.stem for path in place.glob("*.png")]
    known = list(captions) or sorted(pictures)
    found = []
    for name in known:
        path = place / f"{name}.png"
        # A link would put another file of this machine into a page that is shown to others.
        if path.is_symlink() or not path.is_file():
            continue
        data = base64.b64encode(path.read_bytes()).decode()
        found.append({"name": name, "caption": captions.get(name, ""), "data": data})
    return found


def _arrays(place: Path) -> dict[str, Any]:
    path = place / "result.json"
    if not path.is_file():
        return {}
    record = read_json(path)
    return dict(record.get("arrays", {}))


def _components(record: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for kind in _COMPONENTS:
        value = record.get(kind)
        if value:
            found.append((kind, json.dumps(value, indent=1)))
    return found
