"""The commands `penchant doctor`, `status`, `new plugin`, `push`, `pull` and `archive`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import attrs
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
    python = shlex.quote(sys.executable)
    say(f"  {python} -m pip install -e {shlex.quote(str(folder))}")
    say(f"  {python} -m pytest {shlex.quote(str(folder))}")
    say(f"  penchant probe {short} -a {short}-perceptron -d {short}-blobs")


@click.command()
@click.option("-a", "--architecture", metavar="ARCH[:k=v,...]", help="Architecture to check.")
@click.option("-d", "--dataset", metavar="DATASET[:k=v,...]", help="Dataset to check.")
@click.option("--device", default="auto", help="auto, cpu, cuda or cuda:N.")
@click.option("--shape", default="1,32,32", help="Input shape where there is no dataset.")
@click.option("--outputs", type=int, default=1, help="Outputs where there is no dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for an issue or a script.")
@click.pass_obj
def doctor(
    without: tuple[str, ...],
    architecture: str | None,
    dataset: str | None,
    device: str,
    shape: str,
    outputs: int,
    as_json: bool,
) -> None:
    """Check that this machine and this network can do what probes need; exit 1 if not."""
    from penchant.experiments.settings import Settings
    from penchant.experiments.typed_text import parse_component, parse_options
    from penchant.plugins.working_folder import load_here

    from penchant_tools.doctor import examine

    given: dict[str, Any] = {"device": device, "outputs": outputs}
    given |= parse_options(f"shape=[{shape}]")
    settings = Settings.bind(given, "doctor")
    sections = examine(
        load_here(without),
        architecture=parse_component(architecture) if architecture else None,
        dataset=parse_component(dataset) if dataset else None,
        settings=settings,
    )
    shown = []
    for section in sections:
        shown.append(section)
        if not as_json:
            _show_section(section)
    if as_json:
        by_title = {each.title: [attrs.asdict(line) for line in each.results] for each in shown}
        say(json.dumps(by_title, indent=2))
    sys.exit(0 if all(section.well for section in shown) else 1)


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


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("url")
def push(run: Path, url: str) -> None:
    """Copy the finished jobs of RUN to URL, such as s3://bucket/run; what is there stays."""
    from penchant_tools.copies import push

    sent, count = push(run, url)
    say(f"{url}: {sent} of {count} files sent, the others were there")


@click.command()
@click.argument("url")
@click.argument("run", type=click.Path(path_type=Path))
def pull(url: str, run: Path) -> None:
    """Copy a run that was pushed to URL into the folder RUN; checksums are compared."""
    from penchant_tools.copies import pull

    received, count = pull(url, run)
    say(f"{run}: {received} of {count} files received, the others were there")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path), required=False)
def archive(run: Path, file: Path | None) -> None:
    """Write the finished jobs of RUN to a zip FILE to publish, with checksums and metadata."""
    from penchant_tools.archive import archive

    file = file or run.absolute().with_name(f"{run.absolute().name}.zip")
    say(f"{file}: {archive(run, file)} files")
