"""What the gallery keeps of its runs: numbers with errors and nulls, and the pictures it shows."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import penchant
from penchant import Result

LARGEST = 60_000  # bytes of a picture
PLACE = re.compile(r"(?P<array>[\w.-]+)\[(?P<place>[-\d, ]+)\]$")
WIDTHS = (1100, 900, 700, 500, 400)  # pixels, of what is no drawing


def gathered(
    runs: dict[str, Any], wanted: dict[str, set[str]], folder: Path, pictures: Path
) -> Any:
    """Every run that ended, by name.

    Args:
        runs: The gallery's commands.
        wanted: Run to the numbers and pictures of it that entries name.
        folder: Where the runs are.
        pictures: Where pictures are written.

    Returns:
        What `measured.json` holds.
    """
    found = {}
    for name in runs:
        record = folder / f"{name}.json"
        if not record.is_file():
            raise SystemExit(f"{name} was not measured: `make gallery` does")
        told = json.loads(record.read_text())
        jobs = (
            _jobs(name, folder / name, wanted.get(name, set()), pictures)
            if not told["exit"]
            else []
        )
        found[name] = {**told, "jobs": jobs}
    return found


def _jobs(run: str, folder: Path, wanted: set[str], pictures: Path) -> list[dict[str, Any]]:
    read = penchant.read(folder)
    results = [read.result(job["id"]) for job in read.jobs]
    names = _names([job["labels"] for job in read.jobs])
    kept = []
    for name, result in zip(names, results, strict=True):
        own = {each.removeprefix(f"{name}/") for each in wanted if each.startswith(f"{name}/")}
        if len(results) == 1:
            own |= wanted
        kept.append(_job(f"{run}-{name}", name, result, own, pictures))
    return kept


def _names(labels: list[dict[str, Any]]) -> list[str]:
    """What tells the jobs of a run apart; of a single one its network, data or probe."""
    axes = ("probe", "architecture", "dataset")
    varying = [axis for axis in axes if len({each.get(axis) for each in labels}) > 1]
    if not varying:
        varying = [next(axis for axis in ("architecture", "dataset", "probe") if axis in labels[0])]
    names = []
    for each in labels:
        names.append("-".join(str(each[axis]) for axis in varying if each.get(axis)))
    return names


def _job(stem: str, name: str, result: Result, wanted: set[str], pictures: Path) -> dict[str, Any]:
    quantities = {}
    for quantity, value in result.quantities.items():
        known = attrs.asdict(value).items()
        quantities[quantity] = {key: part for key, part in known if part not in (None, "", False)}
    return {
        "name": name,
        "probe": result.record["probe"]["name"],
        "quantities": quantities,
        "places": _places(result, wanted),
        "warnings": list(result.warnings),
        "pictures": _pictures(stem, result, wanted, pictures),
    }


def _places(result: Result, wanted: Iterable[str]) -> dict[str, dict[str, float]]:
    """Single numbers of arrays, with the errors and nulls that stand beside the array."""
    beside = {"value": "", "stderr": "-stderr", "null": "-null", "null_spread": "-null-spread"}
    found = {}
    for text in sorted(wanted):
        match = PLACE.match(text)
        if match is None:
            continue
        place = tuple(int(part) for part in match["place"].split(","))
        numbers = {}
        for part, ending in beside.items():
            array = result.arrays.get(match["array"] + ending)
            if array is not None:
                numbers[part] = float(array[place])
        found[text] = numbers
    return found


def _pictures(stem: str, result: Result, wanted: set[str], folder: Path) -> list[dict[str, str]]:
    names = [name for name in wanted if name in result.figures()] if wanted else []
    kept = []
    for name in sorted(names):
        figure = result.figure(name)
        ending, content = _small(figure)
        file = re.sub(r"[^\w.-]+", "-", f"{stem}-{name}") + f".{ending}"
        (folder / file).write_bytes(content)
        kept.append({"figure": name, "file": file, "caption": figure.get_label()})
    return kept


def _small(figure: Any) -> tuple[str, bytes]:
    """A drawing where that is small, an image otherwise."""
    from penchant.results.figures import one_look, picture

    ending, content = picture(figure)
    if ending == "svg" and len(content) <= LARGEST:
        return ending, content
    from PIL import Image

    file = io.BytesIO()
    with one_look():
        figure.savefig(file, format="png")
    image = Image.open(file).convert("RGB")
    for width in WIDTHS:
        small = io.BytesIO()
        height = round(image.height * width / image.width)
        image.resize((width, height), Image.Resampling.LANCZOS).save(small, "WEBP", quality=82)
        if small.tell() <= LARGEST:
            return "webp", small.getvalue()
    raise SystemExit(f"a picture of {WIDTHS[-1]} pixels has {small.tell()} bytes")
