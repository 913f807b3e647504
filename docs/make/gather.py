"""What the gallery keeps of its runs: numbers with errors and nulls, and the pictures it shows."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import penchant
from derived import derived
from penchant import Result
from penchant.results.job_folder import JobFolder
from penchant_report.figures import figure_style
from PIL import Image

LARGEST = 60_000  # bytes of a picture
PLACE = re.compile(r"(?P<array>[\w.-]+)\[(?P<place>[-\d, ]+)\]$")
WIDTHS = (1100, 900, 700, 500, 400)  # pixels, of what is no drawing


def gathered(
    runs: dict[str, Any],
    wanted: dict[str, set[str]],
    leads: dict[str, set[str]],
    folder: Path,
    pictures: Path,
) -> Any:
    """Every run that ended, well or not, by name.

    Args:
        runs: The gallery's commands.
        wanted: Run to the numbers and pictures of it that entries name.
        leads: Run to those of the pictures that get a thumbnail, too.
        folder: Where the runs are.
        pictures: Where pictures are written.

    Returns:
        What `measured.json` holds.
    """
    found = {}
    for name, run in runs.items():
        record = folder / f"{name}.json"
        told = json.loads(record.read_text()) if record.is_file() else {}
        # What another command measured is as good as not measured; how one failed is kept.
        if told.get("command") != run["command"] or "exit" not in told:
            continue
        jobs = []
        if (folder / name / "table.json").is_file():
            jobs = [_of_script(name, folder / name, leads.get(name, set()), pictures)]
        elif not told["exit"]:
            jobs = _jobs(
                name, folder / name, wanted.get(name, set()), leads.get(name, set()), pictures
            )
        found[name] = {**told, "jobs": jobs}
    return found


def _of_script(run: str, folder: Path, lead: set[str], pictures: Path) -> dict[str, Any]:
    """The table of a script, whose pictures are files beside it."""
    table: dict[str, Any] = json.loads((folder / "table.json").read_text())
    for each in table["pictures"]:
        drawn, name = folder / each["file"], each["figure"]
        ending, content = _small(drawn, name)
        each["file"] = f"{run}-{name}.{ending}"
        (pictures / each["file"]).write_bytes(content)
        if name in lead:
            each["thumbnail"] = _thumbnail(drawn, name, f"{run}-{name}", pictures)
    return table


def _jobs(
    run: str, folder: Path, wanted: set[str], leads: set[str], pictures: Path
) -> list[dict[str, Any]]:
    read = penchant.read(folder)
    names = _names([job["labels"] for job in read.jobs])
    results = [read.result(job["id"]) for job in read.jobs]
    kept = []
    drawn = set()
    for number, (name, job) in enumerate(zip(names, read.jobs, strict=True)):
        own, lead = (_of_job(name, each, alone=len(set(names)) == 1) for each in (wanted, leads))
        told = _job(name, results[number], _next_seed(names, results, number), own)
        told["pictures"] = []
        # Of several seeds the first is shown.
        if name not in drawn:
            told["pictures"] = _pictures(f"{run}-{name}", folder / job["path"], own, lead, pictures)
        drawn.add(name)
        kept.append(told)
    return kept


def _of_job(name: str, wanted: set[str], *, alone: bool) -> set[str]:
    own = {each.removeprefix(f"{name}/") for each in wanted if each.startswith(f"{name}/")}
    return own | wanted if alone else own


def _names(labels: list[dict[str, Any]]) -> list[str]:
    """What tells the jobs of a run apart but for their seed; of one its network, data or probe."""
    axes = ("probe", "architecture", "dataset")
    varying = [axis for axis in axes if len({each.get(axis) for each in labels}) > 1]
    if not varying:
        varying = [next(axis for axis in ("architecture", "dataset", "probe") if axis in labels[0])]
    names = []
    for each in labels:
        names.append("-".join(str(each[axis]) for axis in varying if each.get(axis)))
    return names


def _next_seed(names: list[str], results: list[Result], number: int) -> Result | None:
    """The next result of the same name, in a circle; None where it has one seed only."""
    alike = [index for index, name in enumerate(names) if name == names[number]]
    following = alike[(alike.index(number) + 1) % len(alike)]
    return None if following == number else results[following]


def _job(name: str, result: Result, other: Result | None, wanted: set[str]) -> dict[str, Any]:
    quantities = {}
    for quantity, value in {**result.quantities, **derived(result, other)}.items():
        if not value.missing:
            quantities[quantity] = known_parts(value)
    record = result.record
    return {
        "name": name,
        "seed": record["seed"],
        "probe": record["probe"]["name"],
        "data": (record["dataset"] or {}).get("name"),
        "network": (record["architecture"] or {}).get("name"),
        "trainings": record["probe"]["options"].get("trainings"),
        "quantities": quantities,
        "places": _places(result, wanted),
        "warnings": list(result.warnings),
    }


def known_parts(quantity: penchant.Quantity) -> dict[str, Any]:
    """What is known of a quantity; a zero is known."""
    found = {}
    for part, value in attrs.asdict(quantity).items():
        if value is not None and value is not False and value != "":
            found[part] = value
    return found


def _has(shape: tuple[int, ...], place: tuple[int, ...]) -> bool:
    """Whether an array has such a place: a control may have fewer steps than the run.

    >>> _has((3, 2), (-1, 1)), _has((1, 2), (1, 1))
    (True, False)
    """
    return all(-size <= index < size for size, index in zip(shape, place, strict=True))


def _places(result: Result, wanted: Iterable[str]) -> dict[str, dict[str, float]]:
    """Single numbers of arrays, with the errors and nulls that stand beside the array.

    An error over few trainings or repeats has few degrees of freedom, also where the array has none
    beside it.
    """
    beside = {
        "value": "",
        "stderr": "-stderr",
        "df": "-df",
        "null": "-null",
        "null_spread": "-null-spread",
    }
    options = result.record["probe"]["options"]
    trainings = options.get("trainings") or options.get("repeats") or 0
    found = {}
    for text in sorted(wanted):
        match = PLACE.match(text)
        if match is None:
            continue
        place = tuple(int(part) for part in match["place"].split(","))
        numbers = {}
        for part, ending in beside.items():
            array = result.arrays.get(match["array"] + ending)
            if array is not None and _has(array.shape, place):
                numbers[part] = float(array[place])
        # A number that is missing, as in many a control, is left out.
        if not numbers or not math.isfinite(numbers["value"]):
            continue
        numbers = {part: each for part, each in numbers.items() if math.isfinite(each)}
        if "stderr" in numbers and trainings > 1:
            numbers.setdefault("df", float(trainings - 1))
        found[text] = numbers
    return found


def _pictures(
    stem: str, job: Path, wanted: set[str], leads: set[str], folder: Path
) -> list[dict[str, str]]:
    """The pictures of a job that are wanted, as small files of the gallery."""
    listed = json.loads((job / "figures/figures.json").read_text())
    kept = []
    for name in sorted(wanted & set(listed["files"])):
        drawn = job / "figures" / listed["files"][name]
        ending, content = _small(drawn, name)
        file = re.sub(r"[^\w.-]+", "-", f"{stem}-{name}") + f".{ending}"
        (folder / file).write_bytes(content)
        kept.append({"figure": name, "file": file, "caption": listed["captions"][name]})
        if name in leads:
            kept[-1]["thumbnail"] = _thumbnail(drawn, name, Path(file).stem, folder)
    return kept


def _thumbnail(drawn: Path, name: str, stem: str, folder: Path) -> str:
    """File name of the picture, 240 pixels wide."""
    image = _image(drawn, name).convert("RGB")
    image.thumbnail((240, 240), Image.Resampling.LANCZOS)
    file = f"{stem}-thumbnail.webp"
    image.save(folder / file, "WEBP", quality=70)
    return file


def _small(drawn: Path, name: str) -> tuple[str, bytes]:
    """A drawing where that is small, an image otherwise."""
    if drawn.suffix == ".svg" and drawn.stat().st_size <= LARGEST:
        return "svg", drawn.read_bytes()
    image = _image(drawn, name).convert("RGB")
    for width in WIDTHS:
        small = io.BytesIO()
        height = round(image.height * width / image.width)
        image.resize((width, height), Image.Resampling.LANCZOS).save(small, "WEBP", quality=82)
        if small.tell() <= LARGEST:
            return "webp", small.getvalue()
    raise SystemExit(f"{drawn} has {small.tell()} bytes at {WIDTHS[-1]} pixels")


def _image(drawn: Path, name: str) -> Image.Image:
    if drawn.suffix == ".png":
        return Image.open(drawn)
    # A drawing with many points is drawn again as an image.
    figure = JobFolder(drawn.parent.parent).read().figures()[name]
    file = io.BytesIO()
    with figure_style():
        figure.savefig(file, format="png")
    return Image.open(file)
