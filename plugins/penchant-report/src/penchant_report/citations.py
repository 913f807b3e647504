"""What to cite for a run: the papers behind its probes, and Penchant."""

from __future__ import annotations

import importlib.resources
import inspect

from penchant.plugins import discovery
from penchant.results.runs import Run

PENCHANT = """@software{penchant,
  title = {Penchant: measuring what neural networks prefer},
  author = {{The Penchant developers}},
  version = {0.1.0},
  year = {2026},
}"""


def bibtex(run: Run) -> str:
    """BibTeX entries of a run.

    A plugin keeps the entries of its papers in `references.bib` inside its package. Where it has
    none, the reference of the probe's help stands in a comment.
    """
    plugins = discovery.load()
    parts: dict[str, None] = {}
    for name in dict.fromkeys(str(job["labels"]["probe"]) for job in run.jobs):
        probe = _probe_name(run, name)
        registration = plugins.find("probe", probe)
        package = registration.component.__module__.partition(".")[0]
        file = importlib.resources.files(package) / "references.bib"
        help_text = inspect.getdoc(registration.component) or ""
        _, _, reference = help_text.partition("Reference: ")
        comment = " ".join(reference.partition("\n\n")[0].split())
        parts[f"% probe {probe}: {comment or 'no reference'}"] = None
        if file.is_file():
            parts[file.read_text(encoding="utf-8").strip()] = None
    return "\n\n".join([*parts, PENCHANT])


def _probe_name(run: Run, label: str) -> str:
    """The probe behind a label: labels are the user's words."""
    for job in run.jobs:
        if str(job["labels"]["probe"]) == label and job["status"] in ("done", "failed"):
            record = run.result(job["id"], arrays=False).record
            return str(record["probe"]["name"])
    return label
