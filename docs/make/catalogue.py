"""Write what follows from declarations: one page per component, and two references."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import panels
from penchant.components.component import Probe
from penchant.components.options import describe_type, hints
from penchant.components.roles import role_of
from penchant.components.taking import AXES, taken
from penchant.components.training import Training
from penchant.experiments.settings import Settings
from penchant.plugins.discovery import load
from penchant.plugins.registry import Registration
from penchant_tools.examples import example

DOCS = Path(__file__).resolve().parent.parent
EXAMPLES = DOCS.parent / "examples"
KINDS = {
    "probe": "Probes",
    "estimator": "Estimators",
    "architecture": "Architectures",
    "dataset": "Datasets",
    "executor": "Executors",
}
# Code and formulas, which may go over a line break.
_VERBATIM = re.compile(r"(`[^`]*`|\$[^$]+\$)")
# Where the first picture shows a special case: the run and figure that stand for the probe.
PICTURED = {
    "curvature-proxies": ("cs-proxies", "errors"),
    "geometry-training": ("gih-training", "correlations"),
    "hessian-spectrum": ("cs-hessian", "spectra"),
}
TEMPLATE = "penchant-example"  # a template for authors
GENERATED = "<!-- Written by docs/make/catalogue.py from the declaration: do not edit. -->"


def pages() -> dict[str, str]:
    """Path below docs/ to text, of the index and of every component of the repository."""
    registrations = [
        registration for registration in load().registrations() if _is_ours(registration)
    ]
    limits = tomllib.loads((DOCS / "make/limits.toml").read_text())
    written = {"catalogue/index.md": _index(registrations)}
    for registration in registrations:
        cls = registration.component
        limit = limits.get(cls.kind, {}).get(cls.name)
        if limit is None:
            raise SystemExit(f"docs/make/limits.toml has no entry for the {cls.kind} {cls.name!r}")
        written[f"catalogue/{_file(cls)}"] = _page(registration, limit)
    written["reference/numerics.md"] = _numerics()
    written["reference/experiment.md"] = _experiment()
    return written


def _numerics() -> str:
    """The reference of the shared library: every module, by its docstrings, room by room."""
    lines = ["---", "search:", "  boost: 0.2", "---", "", GENERATED, "# penchant_numerics", ""]
    lines += [
        "The torch library that plugins share; it does not depend on the kernel. Each file has one"
    ]
    lines += ["method and is named after it; a room exports the names that others use.", ""]
    folder = DOCS.parent / "framework/penchant_numerics"
    for room in sorted(folder.glob("*/__init__.py")):
        tree = ast.parse(room.read_text())
        about = ast.get_docstring(tree) or ""
        lines += [f"## {room.parent.name}", "", about.partition("\n")[0], ""]
        exported = ", ".join(f"`{name}`" for name in _exports(tree))
        lines += [f"`from penchant_numerics.{room.parent.name} import` {exported}", ""]
        for path in sorted(room.parent.glob("*.py")):
            if path.stem != "__init__":
                lines += [f"::: penchant_numerics.{room.parent.name}.{path.stem}", ""]
    lines += ["## Refusals", "", "::: penchant_numerics.refusal"]
    return "\n".join(lines).rstrip() + "\n"


def _exports(room: ast.Module) -> list[str]:
    """What a room offers to others: its `__all__`."""
    for node in room.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _experiment() -> str:
    """The format of experiment files: every key, with its bounds and default."""
    text = (DOCS / "make/experiment.md").read_text()
    tables = {"settings": _option_table(Settings), "training": _option_table(Training)}
    for name, lines in tables.items():
        text = text.replace(f"{{{{ {name} }}}}", "\n".join(lines))
    return f"{GENERATED}\n{text}"


def _is_ours(registration: Registration) -> bool:
    # What else is installed on a machine is not documented here.
    folder = DOCS.parent / "plugins" / registration.distribution
    return registration.distribution == "penchant" or folder.is_dir()


def _file(cls: type) -> str:
    return f"{cls.kind}-{cls.name}.md"


def _summary(cls: type) -> str:
    return (inspect.getdoc(cls) or "").splitlines()[0]


def _index(registrations: list[Registration]) -> str:
    lines = [GENERATED, "# Catalogue", ""]
    lines += [
        "All [components](../glossary.md) of this repository. Each page has a question, options,",
        "outputs, an example, and when not to trust it.",
    ]
    for kind, title in KINDS.items():
        lines += ["", f"## {title}", ""]
        if kind == "probe":
            lines += _probe_table(
                [
                    registration
                    for registration in registrations
                    if registration.component.kind == kind
                ]
            )
            continue
        lines += ["| name | description | plugin |", "|---|---|---|"]
        for registration in registrations:
            cls = registration.component
            if cls.kind == kind:
                link = f"[`{cls.name}`]({_file(cls)})"
                lines.append(f"| {link} | {_cell(_summary(cls))} | {registration.distribution} |")
    return "\n".join(lines) + "\n"


def _probe_table(registrations: list[Registration]) -> list[str]:
    """Probes by family: a picture, the question, and which networks and data each takes."""
    kinds = list(taken(Probe))
    lines = [
        "`fresh`: the probe builds new networks. `trained`: it measures your network, a module or",
        "a file of weights. `trajectory`: it follows the checkpoints of a training (✓), or",
        "measures each of them (by state). `tokens`: inputs may be whole numbers. `sequences`:",
        "every position may have a label. `data`: it uses a dataset.",
    ]
    families: dict[str, list[Registration]] = {}
    for registration in registrations:
        families.setdefault(registration.distribution, []).append(registration)
    for distribution, own in sorted(families.items(), key=_template_last):
        summary = importlib.metadata.metadata(distribution)["Summary"]
        lines += ["", f"### {summary}", "", f"In the distribution `{distribution}`.", ""]
        lines += ['<div class="probes" markdown>', ""]
        lines.append(f"| probe | question | {' | '.join(kinds)} |")
        lines.append("|---" * (len(kinds) + 2) + "|")
        lines += [_probe_row(registration.component, kinds) for registration in own]
        lines += ["", "</div>"]
    return lines


def _template_last(family: tuple[str, list[Registration]]) -> tuple[bool, str]:
    distribution, _ = family
    return distribution == TEMPLATE, distribution


def _probe_row(cls: Any, kinds: list[str]) -> str:
    marks = {"yes": "✓", "no": ""}
    how = taken(cls)
    cells = " | ".join(marks.get(how[kind], how[kind]) for kind in kinds)
    link = f"[`{cls.name}`]({_file(cls)})"
    picture = _thumbnail(cls.name)
    if picture:
        page = _file(cls).replace(".md", ".html")
        image = f'<img class="thumbnail" src="{picture}" alt="" loading="lazy">'
        link += f'<br><a href="{page}">{image}</a>'
    return f"| {link} | {_cell(cls.question or _summary(cls))} | {cells} |"


def _page(registration: Registration, limit: str) -> str:
    cls = registration.component
    lines = [GENERATED, f"# {cls.name}", "", f"*{cls.kind} of `{registration.distribution}`*", ""]
    question = getattr(cls, "question", "")
    if question:
        lines += [f"**{question}**", ""]
    lines += _text(inspect.getdoc(cls) or "")
    lines += _picture(cls)
    lines += ["", '!!! warning "When not to trust it"', "", f"    {limit}", ""]
    role = role_of(cls) if cls.kind == "estimator" else None
    if role is not None:
        lines += [f"Role: `{role.name}`.", ""]
    lines += _options(cls)
    if issubclass(cls, Probe):
        lines += _probe(cls)
    lines += ["", "## Example", "", "```console", f"$ {example(registration, load())}", "```"]
    return "\n".join(lines).rstrip() + "\n"


def _text(docstring: str) -> list[str]:
    """The docstring; the reference is a paragraph of its own."""
    lines = []
    for line in _escaped(docstring).splitlines():
        if line.startswith("Reference:"):
            lines.append("")
        lines.append(line)
    return lines


def _escaped(text: str) -> str:
    """Escape Markdown, except in code between backticks and in formulas between $ signs."""
    pieces = _VERBATIM.split(text)
    for index in range(0, len(pieces), 2):
        for mark in ("*", "_", "<", "["):
            pieces[index] = pieces[index].replace(mark, "\\" + mark)
    return "".join(pieces)


def _cell(text: str) -> str:
    """A cell of a table, with bars escaped."""
    return _escaped(text).replace("|", "\\|")


def _picture(cls: type) -> list[str]:
    """A picture of the component: samples, directions, or a figure of the gallery."""
    if cls.kind == "dataset":
        return _dataset_picture(cls)
    if cls.kind == "architecture":
        return _architecture_picture(cls)
    if cls.kind == "probe":
        return _gallery_picture({cls.name})
    if cls.kind == "estimator":
        role = role_of(cls).name
        probes = [
            registration.component
            for registration in load().registrations("probe")
            if _is_ours(registration)
        ]
        return _gallery_picture({probe.name for probe in probes if role in probe.roles})
    return []


def _shown(title: str, file: str, caption: str) -> list[str]:
    return ["", f"![{title}]({file})", "", f"*{_escaped(caption)}*"]


def _dataset_picture(cls: type) -> list[str]:
    file = f"pictures/{cls.kind}-{cls.name}.png"
    if not (DOCS / "catalogue" / file).is_file():
        return []
    return _shown(cls.name, file, "Training samples, with the default options.")


def _architecture_picture(cls: type) -> list[str]:
    """The card of the atlas, of the first entry with this architecture."""
    atlas = tomllib.loads((EXAMPLES / "atlas.toml").read_text())
    for entry in atlas["architectures"]:
        label = entry.get("label", entry["name"])
        if entry["name"] == cls.name and (DOCS / f"atlas/{label}.md").is_file():
            file = f"../atlas/pictures/{label}.png"
            lines = _shown(cls.name, file, "The directions it prefers before training.")
            return [*lines[:-1], f"{lines[-1]} [Card in the atlas](../atlas/{label}.md)"]
    return []


def _gallery_picture(probes: set[str]) -> list[str]:
    """The first picture of the gallery that one of these probes made."""
    for run, job, picture in _gallery_pictures(probes):
        lines = _shown(job["probe"], f"../gallery/pictures/{picture['file']}", picture["caption"])
        return [*lines, "", f"```console\n$ {run['command']}\n```"]
    return []


def _thumbnail(probe: str) -> str:
    """The address of a picture of its first panels; empty where the gallery has no picture."""
    path = _gallery_file(probe)
    if path is None:
        return ""
    if path.suffix == ".svg" and not panels.window(path.read_text()):
        return f"../gallery/pictures/{path.name}"
    return f"thumbnails/{probe}{path.suffix}"


def _gallery_file(probe: str) -> Path | None:
    """The file of its first picture in the gallery."""
    for _, _, picture in _gallery_pictures({probe}):
        return DOCS / "gallery/pictures" / picture["file"]
    return None


def cut_thumbnails() -> None:
    """Write the thumbnails of figures with several panels."""
    folder = DOCS / "catalogue/thumbnails"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for registration in load().registrations("probe"):
        name = registration.component.name
        path = _gallery_file(name)
        if path is None:
            continue
        if path.suffix != ".svg":
            panels.cut(path).save(folder / f"{name}{path.suffix}", quality=80)
        elif small := panels.window(path.read_text()):
            (folder / f"{name}.svg").write_text(small)


def _gallery_pictures(probes: set[str]) -> Iterator[tuple[Any, Any, Any]]:
    """Runs, jobs and pictures of these probes, those that stand for them first."""
    path = DOCS / "gallery/measured.json"
    measured = json.loads(path.read_text()) if path.is_file() else {}
    found = []
    for name, run in measured.items():
        for job in run["jobs"]:
            if job["probe"] in probes:
                chosen = PICTURED.get(job["probe"])
                found += [
                    ((name, each["figure"]) != chosen, run, job, each) for each in job["pictures"]
                ]
    for _, run, job, picture in sorted(found, key=lambda each: each[0]):
        yield run, job, picture


def _options(cls: type) -> list[str]:
    if not attrs.fields(cls):
        return ["It has no options.", ""]
    return ["## Options", "", *_option_table(cls), ""]


def _option_table(cls: type) -> list[str]:
    lines = ["| option | meaning | type and bounds | default |", "|---|---|---|---|"]
    for field in attrs.fields(cls):
        kind = describe_type(hints(cls)[field.name])
        if field.metadata["array"]:
            kind = "an array, a file.npy or run:FOLDER#array"
        facts = "; ".join([kind, *field.metadata["limits"].describe()])
        default = "must be given" if field.default is attrs.NOTHING else _value(field.default)
        meaning = _cell(field.metadata["help"])
        lines.append(f"| `{field.name}` | {meaning} | {_cell(facts)} | {default} |")
    return lines


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = json.dumps(value)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:56]} ...`"


def _probe(cls: type[Probe]) -> list[str]:
    """What only probes have."""
    needs = [f"`{each}`" for each in cls.needs]
    optional = [each for each in cls.accepts if each in AXES]
    needs += [f"`{each}` (optional)" for each in optional]
    takes = []
    for kind, how in taken(cls).items():
        if how != "no":
            takes.append(f"`{kind}`" if how == "yes" else f"`{kind}` ({how})")
    lines = ["## Needs", "", ", ".join(needs) or "nothing", ""]
    lines += ["## Takes", "", ", ".join(takes) or "nothing", ""]
    for role, default in cls.roles.items():
        names = [default] if isinstance(default, str) else list(default)
        links = [_estimator_link(name) for name in names]
        lines += [f"Estimators of the role `{role}`: {', '.join(links)} by default.", ""]
    lines += _meanings("Quantities", cls.quantities)
    if cls.tables:
        lines += _meanings("Tables", cls.tables)
    if cls.arrays or not cls.tables:
        lines += _meanings("Arrays", cls.arrays)
    lines += ["## Presets", "", "| preset | experiment |", "|---|---|"]
    for preset in cls.presets:
        lines.append(f"| `{preset}` | {_experiments(cls.name, preset)} |")
    return lines


def _estimator_link(name: Any) -> str:
    label = name if isinstance(name, str) else name["name"]
    return f"[`{label}`](estimator-{label}.md)"


def _meanings(title: str, declared: Any) -> list[str]:
    lines = [f"## {title}", "", "| name | meaning |", "|---|---|"]
    for name, meaning in declared.items():
        lines.append(f"| `{name}` | {_cell(meaning)} |")
    return [*lines, ""]


@functools.cache
def _examples() -> dict[Path, Any]:
    """All experiments of examples/, read once for all presets."""
    paths = sorted(EXAMPLES.rglob("*.toml"))
    return {path: tomllib.loads(path.read_text()) for path in paths}


def _experiments(probe: str, preset: str) -> str:
    """Files of examples/ that use this preset."""
    found = []
    for path, experiment in _examples().items():
        for used in experiment["probes"]:
            if used["name"] == probe and used.get("preset", "quick") == preset:
                found.append(f"`{path.relative_to(EXAMPLES.parent)}`")
    return ", ".join(dict.fromkeys(found)) or "—"


def main() -> None:
    """Write every page."""
    written = pages()
    for old in (DOCS / "catalogue").glob("*.md"):
        old.unlink()
    for name, text in written.items():
        (DOCS / name).write_text(text)
    cut_thumbnails()
    sys.stdout.write(f"{len(written)} pages of the catalogue\n")


if __name__ == "__main__":
    main()
