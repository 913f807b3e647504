"""The commands `penchant doctor`, `penchant status` and `penchant new plugin`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import penchant
from penchant.terminal import say


@click.group()
def new() -> None:
    """Make something new."""


@new.command(name="plugin")
@click.argument("name")
@click.option(
    "--in",
    "parent",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Folder to create it in.",
)
def new_plugin(name: str, parent: Path) -> None:
    """A plugin NAME that installs, passes its tests and measures something."""
    from penchant_tools.template import new_plugin as make

    folder = make(name, parent)
    short = folder.name.removeprefix("penchant-")
    say(f"{folder}: a plugin with one component of each kind; its README says what to change")
    # What to type next.
    say(f"  pip install --no-build-isolation -e {folder}")
    say(f"  pytest {folder}")
    say(f"  penchant probe {short} -a {short}-perceptron -d {short}-blobs")


@click.command()
@click.option("-a", "--architecture", metavar="ARCH[:k=v,...]", help="Architecture to check.")
@click.option("-d", "--dataset", metavar="DATASET[:k=v,...]", help="Dataset to check.")
@click.option("--device", default="auto", help="auto, cpu, cuda or cuda:N.")
@click.option("--shape", default="1,32,32", help="Input shape where there is no dataset.")
@click.option("--outputs", type=int, default=1, help="Outputs where there is no dataset.")
@click.pass_obj
def doctor(
    without: tuple[str, ...],
    architecture: str | None,
    dataset: str | None,
    device: str,
    shape: str,
    outputs: int,
) -> None:
    """Check that this machine and this network can do what probes need; exit 1 if not."""
    from penchant.experiments.settings import Settings
    from penchant.experiments.typed_text import parse_component, parse_options
    from penchant.plugins import discovery

    from penchant_tools.doctor import examine

    given: dict[str, Any] = {"device": device, "outputs": outputs}
    given |= parse_options(f"shape=[{shape}]")
    settings = Settings.bind(given, "doctor")
    sections = examine(
        discovery.load(without),
        architecture=parse_component(architecture) if architecture else None,
        dataset=parse_component(dataset) if dataset else None,
        settings=settings,
    )
    well = True
    for section in sections:
        _show_section(section)
        well = well and section.well
    sys.exit(0 if well else 1)


def _show_section(section: Any) -> None:
    """Names in a column, and a sign before what is not well."""
    say(section.title)
    widths = [len(result.what) for result in section.results]
    width = max(widths)
    for result in section.results:
        sign = " " if result.well else "!"
        say(f"{sign} {result.what:{width}}  {result.text}")


@click.command()
@click.argument("folder", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
def status(folder: Path | None) -> None:
    """How far a run is, and which jobs failed and why; without RUN, all runs in ./runs."""
    from penchant_tools.status import job_lines, run_lines

    lines = run_lines(Path("runs")) if folder is None else job_lines(penchant.read(folder))
    for line in lines:
        say(line)
