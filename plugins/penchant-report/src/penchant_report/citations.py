"""What to cite for a run: the papers behind its probes, and Penchant."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path

from penchant.plugins import discovery
from penchant.plugins.registry import Registration
from penchant.results.runs import Run
from penchant.terminal import printable

PENCHANT = """@software{penchant,
  title = {Penchant: measuring what neural networks prefer},
  author = {{The Penchant developers}},
  version = {0.2.0},
  year = {2026},
}"""


def bibtex(run: Run) -> str:
    """BibTeX entries of a run.

    A plugin keeps the entries of its papers in `references.bib` inside its package. Where it has
    none, the reference of the probe's help stands in a comment.
    """
    plugins = discovery.load()
    parts: dict[str, None] = {}
    for label in dict.fromkeys(str(job["labels"]["probe"]) for job in run.jobs):
        name = _probe_name(run, label)
        if not plugins.has("probe", name):
            # What the label says may be on several lines.
            parts[f"% probe {printable(' '.join(name.split()))}: not installed here"] = None
            continue
        parts |= dict.fromkeys(_entries(name, plugins.find("probe", name)))
    return "\n\n".join([*parts, PENCHANT])


def _entries(name: str, registration: Registration) -> Iterator[str]:
    """The reference of a probe, and the entries that its plugin keeps."""
    help_text = inspect.getdoc(registration.component) or ""
    _, _, reference = help_text.partition("Reference: ")
    comment = " ".join(reference.partition("\n\n")[0].split())
    yield f"% probe {name}: {comment or 'no reference'}"
    spec = importlib.util.find_spec(registration.package)
    # A plugin of a single module has no folder of its own.
    for folder in (spec.submodule_search_locations if spec else None) or ():
        file = Path(folder) / "references.bib"
        if file.is_file():
            yield file.read_text(encoding="utf-8").strip()


def _probe_name(run: Run, label: str) -> str:
    """The probe behind a label: labels are the user's words."""
    for job in run.jobs:
        if str(job["labels"]["probe"]) == label and job["status"] in ("done", "failed"):
            probe = run.result(job["id"], arrays=False).record.get("probe")
            return str(probe["name"]) if probe else label
    return label
