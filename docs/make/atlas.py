"""Write the atlas: `python docs/make/atlas.py [RUN]`.

With a run folder its numbers are kept in docs/atlas/measured.json and its pictures are drawn again;
what the folder has no job for stays as it was. Without one, pages are written from what was kept.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import penchant
from atlas_findings import MORE_NETWORKS, findings, probe_of, quantities_of
from atlas_pictures import ROUNDING, draw_card, draw_gradients, draw_overview, draw_strip

ROOT = Path(__file__).resolve().parent.parent.parent
ATLAS = ROOT / "docs/atlas"
TEMPLATE = ROOT / "docs/make/atlas.md"
EXPERIMENT = ROOT / "examples/atlas.toml"
GENERATED = "<!-- Written by docs/make/atlas.py from measured.json: do not edit. -->"
SMALL = "--shape 1,32,32 -o networks=24 -e directions=gradient-covariance:method=autograd"
PROBES = ("nad", "average-geometry", "tangent-kernel")
ARRAYS = {
    "nad": ("eigenvalues", "eigenvalues-stderr", "null-eigenvalues", "null-eigenvalues-spread"),
    "average-geometry": ("eigenvalues", "null-eigenvalues", "null-eigenvalues-spread"),
    "tangent-kernel": ("eigenvalues",),
}
ARRAYS.update({more: ARRAYS[probe] for probe, more in MORE_NETWORKS.items()})
NETWORKS = {"nad": 24, "nad-100": 100, "average-geometry": 16, "average-geometry-100": 100}
# What the table compares: its head, the probe, the quantity. A rank grows with the number of
# networks: it is that of the same number for all.
COLUMNS = (
    ("low frequencies", "average-geometry", "low-frequencies"),
    ("isotropy", "average-geometry", "corr-isotropic"),
    ("rank of G", "average-geometry", "effective-rank"),
    ("gradient²", "nad", "trace"),
)  # what else is measured is on the cards
RANK = "effective-rank"
# Beside each finding, what to see.
FINDING_PICTURES = (
    "![Share of low frequencies by architecture](overview.png){ width=560 }\n\n"
    "*Share of the squared input gradient in waves of eight pixels or longer, with two standard "
    "errors; dashed, an architecture without a preference.*",
    "![Mean squared gradient by architecture](gradients.png)\n\n"
    "*Mean squared input gradient of each architecture before training, on a logarithmic axis.*",
    '<img src="thumbnails/resnet18.webp" alt="corners" width="272" height="68"> '
    '<img src="thumbnails/resnet18-all-branches.webp" alt="waves" width="272" height="68">\n\n'
    "*First NADs of resnet18 as it is published (left) and with all branches drawn (right).*",
)


# ---- what was measured


def collect(folder: Path, before: dict[str, Any]) -> dict[str, Any]:
    """What pages need of a run folder: numbers, spectra, failures with their reasons.

    Jobs that the folder does not have, or has not done, keep the numbers that they had `before`.
    """
    run = penchant.read(folder)
    architectures: dict[str, Any] = {}
    for label, family in families_of(EXPERIMENT.read_text()).items():
        architectures[label] = {**before["architectures"].get(label, {}), "family": family}
    versions: dict[str, str] = dict(before["versions"])
    for job in run.jobs:
        label, probe = job["labels"]["architecture"], job["labels"]["probe"]
        if job["status"] not in ("done", "failed"):
            if probe in PROBES:
                stopped = {"error": "the run was stopped before it"}
                architectures[label].setdefault(probe, stopped)
            continue
        result = run.result(job["id"])
        versions.update(result.record["versions"])
        architectures[label][probe] = _kept(result, ARRAYS[probe])
        if probe == "nad" and result.status == "done":
            architectures[label]["seen"] = seen_pixels(result)
    return {"versions": dict(sorted(versions.items())), "architectures": architectures}


def families_of(text: str) -> dict[str, str]:
    """Label of every architecture to its family: the head over it in the experiment's file."""
    families, head = {}, ""
    for part in re.split(r"^(# ---- .*)$", text, flags=re.M):
        if part.startswith("# ---- "):
            head = part.removeprefix("# ---- ")
            continue
        for entry in tomllib.loads(part).get("architectures", []):
            families[entry.get("label", entry["name"])] = head
    return families


def _kept(result: penchant.Result, arrays: tuple[str, ...]) -> dict[str, Any]:
    """Numbers and spectra of a job, or why there are none."""
    if result.status != "done":
        return {"error": result.error}
    quantities = {name: quantity.numbers for name, quantity in result.quantities.items()}
    spectra = {}
    for name in arrays:
        if name in result.arrays:
            # Four digits are more than their errors leave.
            spectra[name] = [float(f"{value:.4g}") for value in result.arrays[name]]
    return {"quantities": quantities, "spectra": spectra}


def seen_pixels(result: penchant.Result) -> int:
    """Pixels on which the output of some network depends, at the point that all share.

    The mean squared derivative with respect to a pixel is the matrix's entry in the diagonal.
    """
    values, rows = result.arrays["eigenvalues"], result.arrays["directions"]
    diagonal = values[: len(rows)] @ rows**2
    return int((diagonal > ROUNDING * diagonal.sum()).sum())


def with_cards(measured: dict[str, Any]) -> dict[str, Any]:
    """The architectures that have NADs."""
    found = {}
    for label, entry in measured["architectures"].items():
        if "error" not in entry["nad"]:
            found[label] = entry
    return found


def is_rounding(entry: dict[str, Any]) -> bool:
    """Is the tangent kernel nothing but rounding? Then its eigenvalues have both signs.

    The ten largest then have more than the whole trace, or its trace is negative: no kernel's is.
    """
    quantities = entry["tangent-kernel"].get("quantities", {})
    return bool(quantities) and not 0 <= quantities["trace-ratio-10"]["value"] <= 1


def has_kernel(entry: dict[str, Any]) -> bool:
    """Is there a tangent kernel, and is it more than rounding?"""
    return "error" not in entry["tangent-kernel"] and not is_rounding(entry)


# ---- pages


def pages(measured: dict[str, Any]) -> dict[str, str]:
    """File below docs/atlas/ to text: the page that compares, and a card for each."""
    whole = with_cards(measured)
    written = {"index.md": _index(measured, whole)}
    experiment = tomllib.loads(EXPERIMENT.read_text())
    entries = {each.get("label", each["name"]): each for each in experiment["architectures"]}
    for label, entry in whole.items():
        written[f"{label}.md"] = _card(label, entry, entries[label])
    return written


def _index(measured: dict[str, Any], whole: dict[str, Any]) -> str:
    shown = zip(findings(whole), FINDING_PICTURES, strict=True)
    shares = quantities_of(whole, "average-geometry", "low-frequencies")
    more = [label for label, entry in whole.items() if "nad-100" in entry]
    filled = {
        "count": len(whole),
        "more_count": len(more),
        "more": ", ".join(more),
        "geometry": _with_more_geometry(whole, more),
        "with_geometry": len(shares),
        "with_kernel": sum(has_kernel(entry) for entry in whole.values()),
        "findings": "\n\n".join(f"{sentence}\n\n{picture}" for sentence, picture in shown),
        "table": "\n".join(_table(whole)),
        "low": f"{next(iter(shares.values()))['null']:.3f}",
        "refused": "\n".join(_refused(measured["architectures"])),
        "torch": measured["versions"]["torch"],
        "timm": measured["versions"]["timm"],
    }
    text = TEMPLATE.read_text()
    for name, value in filled.items():
        text = text.replace(f"{{{{ {name} }}}}", str(value))
    return f"{GENERATED}\n{text}"


def _with_more_geometry(whole: dict[str, Any], more: list[str]) -> str:
    """Whose G is of 100 networks as well."""
    found = [label for label in more if "average-geometry-100" in whole[label]]
    if len(found) == len(more):
        return ", and their G as well"
    lacking = ", ".join(label for label in more if label not in found)
    return f", and so is G of {len(found)} of them (that of {lacking} is of 16)"


def _table(whole: dict[str, Any]) -> list[str]:
    heads = "".join(f"<th>{head}</th>" for head, _, _ in COLUMNS)
    lines = ['<table class="sortable">']
    lines += [
        "<thead><tr><th>first NADs</th><th>architecture</th><th>networks</th><th>pixels seen</th>"
        f"{heads}</tr></thead>",
        "<tbody>",
    ]
    first = quantities_of(whole, *COLUMNS[0][1:])
    measured = sorted(first, key=lambda label: -first[label]["value"])
    order = [*measured, *(label for label in whole if label not in first)]
    for label in order:
        cells = "".join(_cell(whole[label], probe, name) for _, probe, name in COLUMNS)
        family = f"<br><small>{whole[label]['family']}</small>"
        name = f'<a href="{label}.html">{label}</a>{family}'
        strip = f'<img src="thumbnails/{label}.webp" alt="" width="112" height="28" loading="lazy">'
        counts = _networks(whole[label])
        row = f"<td>{strip}</td><td>{name}</td>{counts}{_seen(whole[label])}{cells}"
        lines.append(f"<tr>{row}</tr>")
    return [*lines, "</tbody>", "</table>"]


def _seen(entry: dict[str, Any]) -> str:
    return f'<td class="number" data-value="{entry["seen"]}">{entry["seen"]}</td>'


def _networks(entry: dict[str, Any]) -> str:
    """How many networks there are for NADs and for G."""
    counts = [NETWORKS[probe_of(entry, probe)] for probe in MORE_NETWORKS]
    text = ", ".join(map(str, dict.fromkeys(counts)))
    return f'<td class="number" data-value="{counts[0]}">{text}</td>'


def _cell(entry: dict[str, Any], probe: str, name: str) -> str:
    probe = probe if name == RANK else probe_of(entry, probe)
    if probe == "tangent-kernel" and is_rounding(entry):
        return '<td class="number" data-value="">rounding</td>'
    if "error" in entry[probe]:
        return '<td class="number" data-value="">—</td>'
    numbers = entry[probe]["quantities"][name]
    quantity = penchant.Quantity(**{**numbers, "null": None, "null_spread": None})
    return f'<td class="number" data-value="{numbers["value"]!r}">{quantity}</td>'


def _refused(architectures: dict[str, Any]) -> list[str]:
    lines = ["| architecture | probe | reason |", "|---|---|---|"]
    for label, entry in architectures.items():
        if is_rounding(entry):
            share = entry["tangent-kernel"]["quantities"]["trace-ratio-10"]["value"]
            reason = (
                f"the centred kernel is rounding: its ten largest have {share:.3g} of its trace"
            )
            lines.append(f"| {label} | tangent-kernel | {reason} |")
        for probe in PROBES:
            error = entry[probe].get("error")
            if error:
                reason = error.splitlines()[0].replace("|", "\\|")
                lines.append(f"| {label} | {probe} | {reason} |")
    return lines


def _card(label: str, entry: dict[str, Any], asked: dict[str, Any]) -> str:
    lines = ["---", "search:", "  boost: 0.3", "---", "", GENERATED, f"# {label}", ""]
    lines += [f"*{entry['family']}*. All of them: [atlas](index.md).", ""]
    lines += [f"![What {label} prefers](pictures/{label}.png)", ""]
    lines += [
        "*Leading NADs in pixels and, below, the amplitudes of their Fourier transform with zero"
        " frequency in the centre; share of every frequency in G; spectra, with isotropic gradients"
        " of the same lengths dashed.*",
        "",
        "| probe | quantity | value | null |",
        "|---|---|---|---|",
    ]
    lines.append(f"| nad | pixels seen | {entry['seen']} of 1024 | |")
    for probe in (*PROBES, *(more for more in MORE_NETWORKS.values() if more in entry)):
        if probe == "tangent-kernel" and is_rounding(entry):
            lines.append(f"| {probe} | | rounding: see [not measured](index.md#not-measured) | |")
            continue
        if "error" in entry[probe]:
            lines.append(f"| {probe} | | not measured: see [there](index.md#not-measured) | |")
            continue
        for name, numbers in entry[probe]["quantities"].items():
            quantity = penchant.Quantity(**numbers)
            alone = penchant.Quantity(**{**numbers, "null": None, "null_spread": None})
            lines.append(f"| {probe} | `{name}` | {alone} | {quantity.null_text} |")
    lines += ["", "```console", f"$ penchant probe nad -a {_typed(asked)} {SMALL}", "```"]
    return "\n".join(lines) + "\n"


def _typed(asked: dict[str, Any]) -> str:
    """An architecture as it is typed."""
    options = [f"{key}={value}" for key, value in asked.items() if key not in ("name", "label")]
    return ":".join([asked["name"], ",".join(options)]) if options else asked["name"]


# ---- the command


def draw_all(folder: Path, whole: dict[str, Any]) -> None:
    """A picture a card, and one of all."""
    run = penchant.read(folder)
    pictures = ATLAS / "pictures"
    pictures.mkdir(exist_ok=True)
    thumbnails = ATLAS / "thumbnails"
    thumbnails.mkdir(exist_ok=True)
    for old in (*pictures.glob("*.png"), *thumbnails.glob("*.webp")):
        if old.stem not in whole:
            old.unlink()
    for label in whole:
        found = {}
        for result in run.results(architecture=label):
            found[result.record["labels"]["probe"]] = result
        for probe, more in MORE_NETWORKS.items():
            if more in found:
                found[probe] = found[more]
        if "nad" not in found:
            continue  # this run did not measure it again
        draw_card(found, whole[label]).save(pictures / f"{label}.png", optimize=True)
        strip = draw_strip(found["nad"])
        strip.save(thumbnails / f"{label}.webp", "WEBP", lossless=True)
    draw_comparisons(whole)


def draw_comparisons(whole: dict[str, Any]) -> None:
    """The pictures of all architectures side by side, from the numbers alone."""
    draw_overview(whole).save(ATLAS / "overview.png", optimize=True)
    draw_gradients(whole).save(ATLAS / "gradients.png", optimize=True)


def main(arguments: list[str]) -> None:
    """Keep what a run folder holds, if one is named; write every page."""
    path = ATLAS / "measured.json"
    if arguments:
        measured = collect(Path(arguments[0]), json.loads(path.read_text()))
        path.write_text(json.dumps(measured, separators=(",", ":")) + "\n")
        draw_all(Path(arguments[0]), with_cards(measured))
    written = pages(json.loads(path.read_text()))
    for old in ATLAS.glob("*.md"):
        old.unlink()
    for name, text in written.items():
        (ATLAS / name).write_text(text)
    sys.stdout.write(f"{len(written)} pages of the atlas\n")


if __name__ == "__main__":
    main(sys.argv[1:])
