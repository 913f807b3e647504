"""Write the gallery: what the papers claim, what comes out here, and a verdict for each figure.

`python docs/make/gallery.py` writes the pages from `docs/gallery/measured.json`;
`python docs/make/gallery.py runs/gallery` gathers that file and the pictures from runs first.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from gather import gathered
from verdicts import (
    NEEDS_A_GPU,
    NOT_MEASURED,
    OUT_OF_TIME,
    REPRODUCED,
    VERDICTS,
    number,
    runs_of,
    verdict,
)

ROOT = Path(__file__).resolve().parent.parent.parent
GALLERY = ROOT / "docs/gallery"
GENERATED = "<!-- Written by docs/make/gallery.py from what was measured: do not edit. -->"
MARKS = ("<!-- gallery -->", "<!-- /gallery -->")
SIGNS = dict(zip(VERDICTS, ("✔", "◐", "✘", "○", "…")))
UNSEEN = (NEEDS_A_GPU, NOT_MEASURED)
MEANINGS = """\
- **reproduced**: every declared test holds, on a smaller form of the paper's own experiment: the
  same kind of data, and at least one of the figure's networks, or a smaller one of its kind.
- **partly**: only some of the tests hold; or they hold where other data or another network stands
  in for the paper's, or for a part of what the figure claims.
- **not**: none of the tests holds at this scale. The entry says why, as far as we know.
- **needs a GPU**: the command was run and did not end in two minutes of one core.
- **not measured**: nothing was run, or the command ended with an error; the entry says why.

A test compares numbers of the run. *Above* and *below* are significant differences: two-sided 1 %
level, by Student's t with the degrees of freedom of the standard error, or by the p-value that the
number carries; where a test names a distance, by that much. *Near* is significantly nearer than
the distance that the test names. z is the difference in standard errors; with few repetitions, the
normal deviate with the same p-value. Verdicts are computed from the numbers; where a picture was
judged by eye, the entry says so. All runs have one seed, and a standard error is what the probe
states it to be: over networks, trainings or samples."""


def main(folder: Path | None) -> None:
    """Write every page, gathering the numbers of runs first where a folder is given."""
    gallery = tomllib.loads((GALLERY / "entries.toml").read_text())
    runs = tomllib.loads((GALLERY / "runs.toml").read_text())
    if folder is not None:
        _gather(gallery["entries"], runs, folder)
    for name, text in pages().items():
        (GALLERY / name).write_text(text)
    readme = ROOT / "README.md"
    readme.write_text(marked(readme.read_text(), score()))
    print(score())


def _gather(entries: list[dict[str, Any]], runs: dict[str, Any], folder: Path) -> None:
    pictures = GALLERY / "pictures"
    pictures.mkdir(exist_ok=True)
    for old in pictures.iterdir():
        old.unlink()
    measured = gathered(runs, _wanted(entries), folder, pictures)
    text = json.dumps(measured, indent=1, sort_keys=True, allow_nan=False)
    (GALLERY / "measured.json").write_text(text + "\n")


def _wanted(entries: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Run to the numbers and pictures that entries show or test."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        names = [*entry.get("show", []), *entry.get("pictures", [])]
        for test in entry.get("tests", []):
            names += [each for each in (test["that"], test["than"]) if isinstance(each, str)]
        for name in names:
            run, _, rest = name.rpartition(":")
            found.setdefault(run or entry["run"], set()).add(rest)
    return found


def read() -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """Papers, entries with their verdict and outcomes, runs, and what was measured."""
    gallery = tomllib.loads((GALLERY / "entries.toml").read_text())
    runs = tomllib.loads((GALLERY / "runs.toml").read_text())
    measured = json.loads((GALLERY / "measured.json").read_text())
    for entry in gallery["entries"]:
        found, entry["outcomes"] = verdict(entry, measured)
        # The sentence beside it was written for this verdict and no other.
        if found != entry["verdict"]:
            entry_record = f"says {entry['verdict']!r}, its numbers say {found!r}"
            raise SystemExit(f"{entry['paper']}, {entry['figure']}: {entry_record}; rewrite `why`")
    return gallery["papers"], gallery["entries"], runs, measured


def pages() -> dict[str, str]:
    """File name to text: the index and a page a paper."""
    papers, entries, runs, measured = read()
    written = {"index.md": _index(papers, entries, measured)}
    for paper, about in papers.items():
        own = [entry for entry in entries if entry["paper"] == paper]
        lines = [GENERATED, f"# {about['title']}", "", about["cite"], "", _counted(own), ""]
        for entry in own:
            lines += _section(entry, runs, measured)
        written[f"{paper}.md"] = "\n".join(lines).rstrip() + "\n"
    return written


def _index(papers: Any, entries: list[dict[str, Any]], measured: Any) -> str:
    minutes = sum(run["seconds"] for run in measured.values()) / 60
    lines = [GENERATED, "# Gallery", ""]
    lines += [
        "What the figures and tables of five papers claim, and what comes out here: at most two",
        f"minutes of one CPU core a run, {minutes:.0f} minutes in all. Every entry has its",
        "command, its picture and a verdict.",
        "",
        _counted(entries),
        "",
        *_scores(papers, entries, ""),
        "",
        "## What verdicts mean",
        "",
        MEANINGS,
    ]
    for paper, about in papers.items():
        own = [entry for entry in entries if entry["paper"] == paper]
        lines += ["", f"## {about['title']}", "", "| entry | claim | ours | verdict |"]
        lines += ["|---|---|---|---|"]
        for entry in own:
            lines.append(_row(entry, measured))
    return "\n".join(lines) + "\n"


def _row(entry: dict[str, Any], measured: Any) -> str:
    link = f"[{entry['figure']}]({entry['paper']}.md#{_anchor(entry)})"
    ours = "not measured"
    if entry["verdict"] not in UNSEEN:
        name = entry["show"][0]
        ours = f"{_cell(name)} {number(measured, name, entry['run'])}"
    claim = _cell(entry["claim"])
    return f"| {link} | {claim} | {ours} | {SIGNS[entry['verdict']]} {entry['verdict']} |"


def _anchor(entry: dict[str, Any]) -> str:
    return re.sub(r"[^a-z0-9]+", "-", entry["figure"].lower()).strip("-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def _counted(entries: list[dict[str, Any]]) -> str:
    found = Counter(entry["verdict"] for entry in entries)
    parts = [f"{found[each]} {each}" for each in VERDICTS if found[each]]
    return f"**{len(entries)} entries: {', '.join(parts)}.**"


def _scores(papers: Any, entries: list[dict[str, Any]], folder: str) -> list[str]:
    """A table: a row a paper, a column a verdict."""
    lines = [f"| | entries | {' | '.join(VERDICTS)} |", "|---|--:|" + "--:|" * len(VERDICTS)]
    for paper, about in papers.items():
        own = [entry["verdict"] for entry in entries if entry["paper"] == paper]
        counts = " | ".join(str(own.count(each)) for each in VERDICTS)
        lines.append(f"| [{about['title']}]({folder}{paper}.md) | {len(own)} | {counts} |")
    every = [entry["verdict"] for entry in entries]
    counts = " | ".join(f"**{every.count(each)}**" for each in VERDICTS)
    lines.append(f"| all | **{len(every)}** | {counts} |")
    return lines


def score() -> str:
    """What README.md says of the gallery."""
    _, entries, _, _ = read()
    reproduced = sum(entry["verdict"] == REPRODUCED for entry in entries)
    return (
        f"We reproduce {reproduced} of {len(entries)} figures and tables of the papers at reduced "
        "scale, on one CPU core; the gallery says which, and why the others do not come out."
    )


def marked(text: str, content: str) -> str:
    """A text with this content between the gallery's marks; unchanged where it has none."""
    start, end = MARKS
    if start not in text:
        return text
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}\n{content}\n{end}{after}"


def _section(entry: dict[str, Any], runs: Any, measured: Any) -> list[str]:
    """One entry: claim, ours, picture, tests, verdict, command."""
    lines = [f"## {entry['figure']}: {entry['about']} {{ #{_anchor(entry)} }}", ""]
    lines += [f"**The paper:** {entry['claim']}", ""]
    by_eye = not entry["outcomes"] and entry["verdict"] not in UNSEEN
    how = " (judged by eye)" if by_eye else ""
    sign = SIGNS[entry["verdict"]]
    # Not `capitalize`, which writes "Gpu".
    title = entry["verdict"][0].upper() + entry["verdict"][1:]
    lines += [f"**{sign} {title}**{how}: {entry['why']}", ""]
    if entry["verdict"] not in UNSEEN:
        lines += _ours(entry, measured)
        lines += _pictures(entry, measured)
        lines += _commands(entry, runs, measured)
    lines += _failures(entry, measured)
    files = ", ".join(f"`examples/{name}`" for name in entry["examples"])
    return [*lines, f"Published scale: {files}.", ""]


def _failures(entry: dict[str, Any], measured: Any) -> list[str]:
    """How runs ended that did not end well."""
    lines = []
    for name in runs_of(entry) if "run" in entry else ():
        entry_record = measured.get(name, {"exit": 0})
        if entry_record["exit"] == OUT_OF_TIME:
            lines += [
                f"`{entry_record['command']}` was stopped after {entry_record['seconds']:.0f} s.",
                "",
            ]
        elif entry_record["exit"]:
            lines += [
                f"`{entry_record['command']}` ended with: {_cell(entry_record['message'])}",
                "",
            ]
    return lines


def _ours(entry: dict[str, Any], measured: Any) -> list[str]:
    lines = ["| ours | value | null |", "|---|---|---|"]
    for name in entry["show"]:
        found = number(measured, name, entry["run"])
        value = str(found).partition(" (null")[0]
        lines.append(f"| {_cell(name)} | {value} | {found.null_text or '—'} |")
    if entry["outcomes"]:
        lines += ["", "| test | difference | holds |", "|---|---|---|"]
        for each in entry["outcomes"]:
            lines.append(
                f"| {_cell(each.text)} | {each.distance} | {'yes' if each.holds else 'no'} |"
            )
    return [*lines, ""]


def _pictures(entry: dict[str, Any], measured: Any) -> list[str]:
    lines = []
    for name in entry["pictures"]:
        other, _, rest = name.rpartition(":")
        job, _, figure = rest.rpartition("/")
        for each in measured[other or entry["run"]]["jobs"]:
            if job in ("", each["name"]):
                found = next(kept for kept in each["pictures"] if kept["figure"] == figure)
                title = f"{figure} of {each['name']}"
                lines += [f"![{title}](pictures/{found['file']}){{ loading=lazy }}", ""]
                lines += [f"*{_cell(title)}: {_cell(found['caption'])}*", ""]
    return lines


def _commands(entry: dict[str, Any], runs: Any, measured: Any) -> list[str]:
    """What was run, how long it took, and what it has less of than the paper."""
    lines = []
    for name in runs_of(entry):
        entry_record = measured[name]
        less = runs[name]["reduced"]
        lines += ["```console", f"$ {entry_record['command']}", "```", ""]
        lines += [
            f"{entry_record['seconds']:.0f} s of one CPU core. "
            + (f"Against the paper: {less}." if less else "The same scale as the paper."),
            "",
        ]
    return lines


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
