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
from penchant import Quantity
from penchant.results.differences import z_text
from penchant_numerics.statistics import rounded
from PIL import Image
from verdicts import (
    CONTRADICTED,
    NOT_FEASIBLE,
    NOT_MEASURED,
    OUT_OF_TIME,
    REPRODUCED,
    VERDICTS,
    MissingNumberError,
    control_tests,
    judge,
    number,
    numbers_of,
    runs_of,
)

ROOT = Path(__file__).resolve().parent.parent.parent
GALLERY = ROOT / "docs/gallery"
GENERATED = "<!-- Written by docs/make/gallery.py from what was measured: do not edit. -->"
MARKS = ("<!-- gallery -->", "<!-- /gallery -->")
SIGNS = dict(zip(VERDICTS, ("✔", "◐", "✘", "↯", "○", "…")))
UNSEEN = (NOT_FEASIBLE, NOT_MEASURED)
OF_EACH_PAPER = 2  # pictures at the head of the index
MEANINGS = """\
- **reproduced**: every declared test holds, on a smaller form of the paper's own experiment: the
  same kind of data, and at least one of the figure's networks, or a narrower one of its kind. No
  test holds in its control, another program in which the claim must fail, and the run is
  significantly further in the direction of the test than the control.
- **partly**: only some of the tests hold; or a control passes, or does not differ from the run, or
  there is none; or other data or another network stands in for the paper's; or a part of the claim
  is not measured.
- **not**: none of the tests holds at this scale. The entry says why, as far as we know.
- **contradicted**: the opposite of a test is significant on the paper's kind of data and network.
- **not feasible here**: a trial was run; its cost, and what the figure would cost, are given.
- **not measured**: nothing was run, or the command ended with an error; the entry says why.

A test compares numbers of the run. *Above* and *below* are significant differences: two-sided 1 %
level, by Student's t with the degrees of freedom of the standard error, or by the p-value that the
number carries; where a test names a distance, by that much, significantly so where an error is
known. *Near* means closer than the named distance, at the 1 % level; *not above*, for
bounds, is refuted by a significant excess. Numbers of several seeds are pooled, and compared seed
by seed. z is the p-value as a normal score; with many repetitions that is the difference in
standard errors. A control is the same command with one thing taken away, such
as the training, or another network in the same place; the same tests are computed from its
numbers. A *premise* is a test that the experiment worked, which a control may pass. Verdicts are
computed from the numbers; where a picture was judged by eye, the entry says so. Where a command
names no seed it has one, and a standard error is what the probe states it to be: over networks,
trainings or samples."""
FINDINGS, TABLE = "findings.md", "table.md"


def main(folder: Path | None) -> None:
    """Write every page, gathering the numbers of runs first where a folder is given."""
    gallery = tomllib.loads((GALLERY / "entries.toml").read_text())
    runs = tomllib.loads((GALLERY / "runs.toml").read_text())
    if folder is not None:
        _gather(gallery["entries"], runs, folder)
    written = pages()
    for name, text in written.items():
        (GALLERY / name).write_text(text)
    _drop_pictures(written)
    readme = ROOT / "README.md"
    readme.write_text(marked(readme.read_text(), score()))
    print(score())


def _drop_pictures(written: dict[str, str]) -> None:
    """Delete pictures that no page shows: those of entries without a verdict yet."""
    measured = json.loads((GALLERY / "measured.json").read_text())
    text = "".join(written.values())
    for run in measured.values():
        for job in run["jobs"]:
            kept = [each for each in job["pictures"] if f"pictures/{each['file']}" in text]
            job["pictures"] = kept
    _write_measured(measured)
    for picture in (GALLERY / "pictures").iterdir():
        if f"pictures/{picture.name}" not in text:
            picture.unlink()


def _write_measured(measured: dict[str, Any]) -> None:
    text = json.dumps(measured, indent=1, sort_keys=True, allow_nan=False)
    (GALLERY / "measured.json").write_text(text + "\n")


def _gather(entries: list[dict[str, Any]], runs: dict[str, Any], folder: Path) -> None:
    """Add what is in a folder of runs; what was measured elsewhere, by the same command, stays."""
    pictures = GALLERY / "pictures"
    pictures.mkdir(exist_ok=True)
    before = json.loads((GALLERY / "measured.json").read_text())
    measured = {
        name: run
        for name, run in before.items()
        if name in runs and run["command"] == runs[name]["command"]
    }
    measured |= gathered(runs, _wanted(entries), _leads(entries), folder, pictures)
    _write_measured(measured)


def _wanted(entries: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Run to the numbers and pictures that entries show or test."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        for run, names in (numbers_of(entry) if "run" in entry else {}).items():
            found.setdefault(run, set()).update(names)
    return found


def _leads(entries: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Run to the first pictures of entries, which are their thumbnails."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        for name in entry.get("pictures", [])[:1]:
            run, _, rest = name.rpartition(":")
            found.setdefault(run or entry["run"], set()).add(rest)
    return found


def read() -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """Papers, entries with their verdict and outcomes, runs, and what was measured."""
    gallery = tomllib.loads((GALLERY / "entries.toml").read_text())
    runs = tomllib.loads((GALLERY / "runs.toml").read_text())
    measured = json.loads((GALLERY / "measured.json").read_text())
    for entry in gallery["entries"]:
        found = entry["judgement"] = judge(entry, measured)
        # The sentence beside it was written for this verdict and no other.
        if found.verdict != entry["verdict"]:
            problem = f"explains {entry['verdict']!r}; its numbers say {found.verdict!r}"
            raise SystemExit(f"{entry['paper']}, {entry['figure']}: {problem}; rewrite `why`")
    return gallery["papers"], gallery["entries"], runs, measured


def pages() -> dict[str, str]:
    """File name to text: the index and a page a paper."""
    papers, entries, runs, measured = read()
    written = {"index.md": _index(papers, entries, measured)}
    written[FINDINGS] = _findings(papers, entries, measured)
    written[TABLE] = _whole_table(papers, entries, measured)
    for paper, about in papers.items():
        own = [entry for entry in entries if entry["paper"] == paper]
        lines = [GENERATED, f"# {about['title']}", "", about["cite"], "", _counted(own), ""]
        lines += _story(about, measured)
        for entry in own:
            lines += _section(entry, runs, measured)
        written[f"{paper}.md"] = "\n".join(lines).rstrip() + "\n"
    return written


def _story(about: dict[str, Any], measured: Any) -> list[str]:
    """What a chapter says as a whole, and its tables of numbers of several runs."""
    lines = [about["story"].strip(), ""] if "story" in about else []
    for table in about.get("tables", ()):
        columns = table["columns"]
        lines += [f"**{table['title']}**", "", f"| | {' | '.join(columns)} |"]
        lines += ["|---|" + "---|" * len(columns)]
        for row in table["rows"]:
            cells = [_value(number(measured, name, "")) for name in row["numbers"]]
            lines.append(f"| {' | '.join([_cell(row['about']), *cells])} |")
        lines.append("")
    return lines


def _index(papers: Any, entries: list[dict[str, Any]], measured: Any) -> str:
    minutes = sum(run["seconds"] for run in measured.values()) / 60
    lines = [GENERATED, "# Gallery", ""]
    lines += [
        f"First: **[what we found that the papers do not say]({FINDINGS})**, each finding with its",
        "picture and one number.",
        "",
        *_wall(entries, measured),
        "",
        "What the figures and tables of ten papers claim, and what comes out here, in",
        f"{minutes:.0f} minutes of one CPU core in all. Every entry has its command, its picture,",
        "controls in which the claim must not hold, and a verdict.",
        f"[The table of all tests]({TABLE}) is a page of its own.",
        "",
        _counted(entries),
        "",
        *_scores(papers, entries, ""),
        "",
        "[What verdicts mean](#what-verdicts-mean) stands at the end of this page.",
    ]
    for paper, about in papers.items():
        own = [entry for entry in entries if entry["paper"] == paper]
        lines += ["", f"## {about['title']}", "", _counted(own), ""]
        lines += [
            "| | entry | claim | ours | control | verdict | CPU |",
            "|---|---|---|---|---|---|--:|",
        ]
        for entry in own:
            lines.append(_row(entry, measured))
    lines += ["", "## What verdicts mean", "", MEANINGS]
    return "\n".join(lines) + "\n"


def _wall(entries: list[dict[str, Any]], measured: Any) -> list[str]:
    """The first reproduced pictures of each paper, which lead to their entries."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        picture = _thumbnail(entry, measured)
        if picture and entry["verdict"] == REPRODUCED and not _is_strip(picture):
            small = picture.replace("width=120", "width=150")
            link = f"[{small}]({entry['paper']}.md#{_anchor(entry)})"
            found.setdefault(entry["paper"], []).append(link)
    shown = [link for own in found.values() for link in own[:OF_EACH_PAPER]]
    return ['<div class="wall" markdown>', "", " ".join(shown), "", "</div>"]


def _is_strip(picture: str) -> bool:
    """Has it many panels side by side? They cannot be told apart in a cell of the wall."""
    file = picture.partition("(")[2].partition(")")[0]
    with Image.open(GALLERY / file) as image:
        return bool(image.width > 2 * image.height)


def _row(entry: dict[str, Any], measured: Any) -> str:
    link = f"[{entry['figure']}]({entry['paper']}.md#{_anchor(entry)})"
    ours, control, time = "not measured", "—", "—"
    if entry["verdict"] not in UNSEEN:
        name = entry["show"][0]
        ours = f"{_cell(name)} {number(measured, name, entry['run'])}"
        control = _first_control(entry, measured)
        time = f"{cpu_seconds(entry, measured):.0f} s"
    claim = _cell(entry["claim"])
    mark = f"{SIGNS[entry['verdict']]} {entry['verdict']}"
    cells = (_thumbnail(entry, measured), link, claim, ours, control, mark, time)
    return f"| {' | '.join(cells)} |"


def _first_control(entry: dict[str, Any], measured: Any) -> str:
    """The first tested number of the run as it is in the first control."""
    if not entry.get("controls"):
        return "none"
    control = entry["controls"][0]
    covered = sorted(entry["judgement"].controls[0].covered) or [0]
    name = control_tests(entry, control)[covered[0]]["that"]
    try:
        value = str(number(measured, name, control.get("run", entry["run"])))
    except MissingNumberError:
        value = "missing"
    return f"{_cell(control['about'])}: {_cell(name)} {value}"


def cpu_seconds(entry: dict[str, Any], measured: Any) -> float:
    """CPU time of all runs of an entry, its controls included."""
    return sum(measured[name]["seconds"] for name in runs_of(entry))


def _thumbnail(entry: dict[str, Any], measured: Any) -> str:
    for _, kept, title in _shown(entry, measured) if entry["verdict"] not in UNSEEN else ():
        if "thumbnail" in kept:
            return f"![{title}](pictures/{kept['thumbnail']}){{ loading=lazy width=120 }}"
    return ""


def _findings(papers: Any, entries: list[dict[str, Any]], measured: Any) -> str:
    """Findings with a picture and a number each; then all claims, controls and formulas."""
    gallery = tomllib.loads((GALLERY / "entries.toml").read_text())
    lines = [GENERATED, "# What we found that the papers do not say", ""]
    for finding in gallery["findings"]:
        lines += _finding(finding, papers, entries, measured)
    lines += ["## Claims that come out the other way", ""]
    for entry in entries:
        if entry["verdict"] == CONTRADICTED:
            why = entry["why"][0].upper() + entry["why"][1:]
            lines += [f"- {_reference(papers, entry)}: *{_cell(entry['claim'])}* {why}"]
    lines += ["", "## Effects that are there without what is said to cause them", ""]
    lines += ["Tests of a claim that hold in a control, too:", ""]
    for entry in entries:
        outcomes = entry["judgement"].outcomes
        for control in entry["judgement"].controls:
            both = [i for i in sorted(control.covered) if outcomes[i].holds]
            held = [control.outcomes[i] is not None and not control.refuses(i) for i in both]
            passed = [str(i + 1) for i, each in zip(both, held, strict=True) if each]
            if passed:
                numbers = ", ".join(passed)
                lines.append(
                    f"- {_reference(papers, entry)}, test {numbers}: holds for {control.about}."
                )
    lines += ["", "## Formulas", ""]
    lines += [f"- {text}" for text in gallery["formulas"]]
    lines += ["", "All errors that we know of: [errors in the papers](../errors-in-the-papers.md)."]
    return "\n".join(lines) + "\n"


def _finding(
    finding: dict[str, str], papers: Any, entries: list[dict[str, Any]], measured: Any
) -> list[str]:
    """A sentence, a number and a picture, from the entry that has them."""
    entry = next(
        each
        for each in entries
        if (each["paper"], each["figure"]) == (finding["paper"], finding["figure"])
    )
    value = str(number(measured, finding["number"], entry["run"])).partition(" (null")[0]
    lines = [f"## {finding['title']}", "", f"**{value}**: {finding['label']}.", ""]
    lines += [f"{finding['text']} ({_reference(papers, entry)})", ""]
    _, kept, title = _shown(entry, measured)[0]
    return [*lines, f"![{title}](pictures/{kept['file']}){{ loading=lazy width=480 }}", ""]


def _whole_table(papers: Any, entries: list[dict[str, Any]], measured: Any) -> str:
    """Every test of every entry, with its distance in the run and in each control."""
    head = ("entry", "data", "network", "trainings", "test", "distance on the run")
    head = (*head, "distance on the controls", "verdict", "CPU")
    lines = [GENERATED, "# All entries in one table", "", _counted(entries), ""]
    lines += [
        "Distances are z, or plain differences where a number has no standard error. In brackets:",
        "controls that are not about the test.",
        "",
    ]
    lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for entry in entries:
        lines += _rows_of_table(papers, entry, measured)
    return "\n".join(lines) + "\n"


def _rows_of_table(papers: Any, entry: dict[str, Any], measured: Any) -> list[str]:
    mark = f"{SIGNS[entry['verdict']]} {entry['verdict']}"
    first = [_reference(papers, entry), *("—" for _ in range(3))]
    seconds = "—"
    if entry["verdict"] not in UNSEEN:
        jobs = measured[entry["run"]]["jobs"]
        first[1:] = [_listed(jobs, part) for part in ("data", "network", "trainings")]
        seconds = f"{cpu_seconds(entry, measured):.0f} s"
    outcomes = entry["judgement"].outcomes
    if not outcomes:
        return [f"| {' | '.join([*first, '—', '—', '—', mark, seconds])} |"]
    rows = []
    for index, each in enumerate(outcomes):
        controls = entry["judgement"].controls
        cells = [f"{_cell(one.about)}: {_control_cell(one, index)}" for one in controls]
        holds = "holds" if each.holds else "opposite" if each.opposed else "does not hold"
        mine = [_cell(each.text), f"{each.distance}, {holds}", "; ".join(cells) or "none"]
        last = [mark, seconds] if index == 0 else ["", ""]
        rows.append(f"| {' | '.join([*(first if index == 0 else [''] * 4), *mine, *last])} |")
    return rows


def _listed(jobs: list[dict[str, Any]], part: str) -> str:
    values = dict.fromkeys(str(job[part]) for job in jobs if job.get(part) is not None)
    return ", ".join(values) or "—"


def _reference(papers: Any, entry: dict[str, Any]) -> str:
    title = papers[entry["paper"]]["title"]
    return f"[{title}, {entry['figure']}]({entry['paper']}.md#{_anchor(entry)})"


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
        f"{reproduced} of {len(entries)} claims of ten papers come out on a CPU, each beside a "
        f"control in which the claim must fail, and does; the gallery says which, and "
        f"[what we found that the papers do not say](docs/gallery/{FINDINGS})."
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
    """One entry: claim, ours, picture, tests, controls, verdict, command."""
    lines = [f"## {entry['figure']}: {entry['about']} {{ #{_anchor(entry)} }}", ""]
    # Some entries compare with other packages, or ask what no paper does.
    no_paper = entry["paper"] == "outside" or entry["figure"].startswith("No paper")
    source = "Claim" if no_paper else "The paper"
    lines += [f"**{source}:** {entry['claim']}", ""]
    by_eye = not entry["judgement"].outcomes and entry["verdict"] not in UNSEEN
    how = " (judged by eye, without a control)" if by_eye else ""
    sign = SIGNS[entry["verdict"]]
    title = entry["verdict"].capitalize()
    lines += [f"**{sign} {title}**{how}: {entry['why']}", ""]
    if "unmeasured" in entry:
        lines += [f"Not measured here: {entry['unmeasured']}.", ""]
    if entry["verdict"] not in UNSEEN:
        lines += _ours(entry, measured)
        lines += _pictures(entry, measured)
        lines += _commands(entry, runs, measured)
    if "tried" in entry:
        lines += _trial(entry["tried"], measured)
    lines += _failures(entry, measured)
    files = ", ".join(f"`examples/{name}`" for name in entry["examples"])
    return [*lines, *([f"Published scale: {files}.", ""] if files else [])]


def _trial(tried: dict[str, Any], measured: Any) -> list[str]:
    """What was tried, what it took, and what the figure would take."""
    told = measured.get(tried["run"])
    if told is None:
        return []
    hours = told["seconds"] * tried["times"] / 3600
    return [
        "```console",
        f"$ {told['command']}",
        "```",
        "",
        f"took {told['seconds']:.0f} s of one CPU core. The figure is {tried['times']:g} times that"
        f" ({tried['because']}): up to {hours:.0f} hours of one core, as the trial's start counts"
        " too.",
        "",
    ]


def _failures(entry: dict[str, Any], measured: Any) -> list[str]:
    """How runs ended that did not end well."""
    lines = []
    for name in runs_of(entry) if "run" in entry else ():
        told = measured.get(name, {"exit": 0})
        if told["exit"] == OUT_OF_TIME:
            lines += [f"`{told['command']}` was stopped after {told['seconds']:.0f} s.", ""]
        elif told["exit"]:
            lines += [f"`{told['command']}` ended with: {_cell(told['message'])}", ""]
    return lines


def _ours(entry: dict[str, Any], measured: Any) -> list[str]:
    lines = ["| ours | value | null |", "|---|---|---|"]
    for name in entry["show"]:
        try:
            found = number(measured, name, entry["run"])
        except MissingNumberError:
            lines.append(f"| {_cell(name)} | missing | — |")
            continue
        lines.append(f"| {_cell(name)} | {_value(found)} | {found.null_text or '—'} |")
    if entry["judgement"].outcomes:
        lines += ["", *_tests(entry)]
    return [*lines, *_table(entry, measured), ""]


def _value(quantity: Quantity) -> str:
    """A number with its error, without its null."""
    return str(quantity).partition(" (null")[0]


def _tests(entry: dict[str, Any]) -> list[str]:
    """A row for each test: the difference in the run and in every control."""
    controls = entry["judgement"].controls
    heads = "".join(f" control: {_cell(control.about)} |" for control in controls)
    lines = [
        f"| | test | difference | holds |{heads}",
        "|--:|---|---|---|" + "---|" * len(controls),
    ]
    for index, each in enumerate(entry["judgement"].outcomes):
        premise = " (premise)" if entry["tests"][index].get("premise") else ""
        cells = "".join(f" {_control_cell(control, index)} |" for control in controls)
        holds = "yes" if each.holds else "the opposite" if each.opposed else "no"
        lines.append(
            f"| {index + 1} | {_cell(each.text)}{premise} | {each.distance} | {holds} |{cells}"
        )
    return lines


def _control_cell(control: Any, index: int) -> str:
    outcome = control.outcomes[index]
    distance = "missing" if outcome is None else outcome.distance
    if index not in control.covered:
        return f"({distance})"
    if outcome is None:
        return "missing"
    if not control.refuses(index):
        return f"{distance}, **passes**"
    near = "refused" if control.differs(index) else "refused, **but not apart**"
    excess = control.excesses[index]
    if excess is None:
        return f"{distance}, {near}"
    return f"{distance}, {near} (run further by {z_text(excess) or rounded(excess.value)})"


def _table(entry: dict[str, Any], measured: Any) -> list[str]:
    """The rows of a script that measures many things at once."""
    for job in measured[entry["run"]]["jobs"]:
        if "rows" in job:
            head, *rows = job["rows"]
            lines = ["", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
            return lines + [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return []


def _shown(entry: dict[str, Any], measured: Any) -> list[tuple[str, dict[str, str], str]]:
    """Figure, file and title of every picture of an entry."""
    found = []
    for name in entry.get("pictures", []):
        other, _, rest = name.rpartition(":")
        job, _, figure = rest.rpartition("/")
        jobs = measured.get(other or entry["run"], {"jobs": []})["jobs"]
        # Of several seeds the first has pictures.
        for each in {each["name"]: each for each in reversed(jobs)}.values():
            if job in ("", each["name"]):
                kept = {one["figure"]: one for one in each["pictures"]}
                if figure not in kept:
                    raise SystemExit(f"{entry['figure']}: no picture {name!r}, found {list(kept)}")
                found.append((figure, kept[figure], f"{figure} of {each['name']}"))
    return found


def _pictures(entry: dict[str, Any], measured: Any) -> list[str]:
    lines = []
    for _, kept, title in _shown(entry, measured):
        lines += [f"![{title}](pictures/{kept['file']}){{ loading=lazy }}", ""]
        lines += [f"*{_cell(title)}: {_cell(kept['caption'])}*", ""]
    return lines


def _commands(entry: dict[str, Any], runs: Any, measured: Any) -> list[str]:
    """What was run, how long it took, and what it has less of than the paper."""
    lines = []
    for name in runs_of(entry):
        told = measured[name]
        less = runs[name]["reduced"]
        lines += ["```console", f"$ {told['command']}", "```", ""]
        scale = f"Against the paper: {less}." if less else "The same scale as the paper."
        if less.startswith("control: "):
            scale = f"C{less.removeprefix('c')}."
        measuring = f"{told['seconds']:.0f} s of one CPU core, {told['date']}, {told['version']}."
        lines += [f"{measuring} {scale}", ""]
    return lines


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
