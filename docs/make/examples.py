"""Write examples/*/README.md: every experiment with its figure, expected result and cost.

Claims of figures are written in docs/gallery/entries.toml; times are those that the gallery
measured. `python docs/make/examples.py`
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
GALLERY = ROOT / "docs/gallery"
GENERATED = "<!-- Written by docs/make/examples.py: do not edit. -->"
# Too slow on a CPU if many networks are initialised or trained.
LARGE = ("vgg11", "vgg19", "resnet18", "resnet20", "densenet121", "vit", "timm")
LARGE_DATA = ("cifar10", "cifar100", "cifar2", "celeba", "stacked-mnist")
FROM_FILES = (*LARGE_DATA, "mnist", "fashion-mnist", "kmnist")


def pages() -> dict[str, str]:
    """Path below examples/ to text."""
    gallery = tomllib.loads((GALLERY / "entries.toml").read_text())
    runs = tomllib.loads((GALLERY / "runs.toml").read_text())
    path = GALLERY / "measured.json"
    measured = json.loads(path.read_text()) if path.is_file() else {}
    shown: dict[str, list[dict[str, Any]]] = {}
    for entry in gallery["entries"]:
        for file in entry["examples"]:
            shown.setdefault(file, []).append(entry)
    written = {}
    for folder in sorted({path.parent for path in EXAMPLES.glob("*/*.toml")}):
        rows = []
        for path in sorted(folder.glob("*.toml")):
            file = str(path.relative_to(EXAMPLES))
            entries = shown.get(file, [])
            if not entries and file not in gallery["others"]:
                raise SystemExit(f"docs/gallery/entries.toml has no entry for {file}")
            about = _claims(entries) or gallery["others"][file]
            cells = [f"[`{path.name}`]({path.name})", _figures(entries), about]
            cells += [_in_small(entries, runs, measured), _in_full(path)]
            rows.append(f"| {' | '.join(cells)} |")
        papers = {entry["paper"] for file in shown for entry in shown[file] if _in(folder, file)}
        cites = [gallery["papers"][paper]["cite"] for paper in sorted(papers)]
        written[f"{folder.name}/README.md"] = _page(folder.name, cites, rows)
    return written


def _in(folder: Path, file: str) -> bool:
    return file.startswith(f"{folder.name}/")


def _page(name: str, cites: list[str], rows: list[str]) -> str:
    lines = [GENERATED, f"# {name}", "", *cites, ""]
    lines += [
        f"`penchant run examples/{name}/FILE --quick` runs an experiment at reduced scale, and",
        f"`penchant run examples/{name}/FILE` at published scale. *Gallery* is the CPU time of one",
        "core that the [gallery](../../docs/gallery/index.md) took for the figure, by commands of",
        "its own; `--dry-run` says how long a file takes here, with or without `--quick`.",
        "*Published scale* lists the networks and data, and the hardware they need. All datasets",
        "except `digits` are read from the folder in `PENCHANT_DATA`.",
        "",
        "| file | figure | expected result | gallery | published scale |",
        "|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def _claims(entries: list[dict[str, Any]]) -> str:
    return " ".join(dict.fromkeys(entry["claim"] for entry in entries)).replace("|", "\\|")


def _figures(entries: list[dict[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(entry["figure"] for entry in entries)) or "none"


def _in_small(entries: list[dict[str, Any]], runs: Any, measured: Any) -> str:
    """How long the gallery's runs of these figures took."""
    names = dict.fromkeys(entry["run"] for entry in entries if entry.get("run") in runs)
    done = [measured[name] for name in names if name in measured and measured[name]["exit"] == 0]
    if not done:
        return "not measured"
    return f"{sum(run['seconds'] for run in done):.0f} s"


def _in_full(path: Path) -> str:
    """Networks and data of the file, and the hardware they need."""
    experiment = tomllib.loads(path.read_text())
    networks = dict.fromkeys(each["name"] for each in experiment.get("architectures", []))
    data = dict.fromkeys(each["name"] for each in experiment.get("datasets", []))
    large = any(name in LARGE for name in networks) or any(name in LARGE_DATA for name in data)
    names = ", ".join([*networks, *data]) or "fixed networks and data"
    files = " and data files" if any(name in FROM_FILES for name in data) else ""
    return f"{names}: {'a GPU' if large else 'a CPU, or a GPU'}{files}"


def main() -> None:
    """Write every README."""
    written = pages()
    for name, text in written.items():
        (EXAMPLES / name).write_text(text)
    sys.stdout.write(f"{len(written)} READMEs of examples\n")


if __name__ == "__main__":
    main()
