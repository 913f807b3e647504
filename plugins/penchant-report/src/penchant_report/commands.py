"""The commands `penchant report`, `penchant compare` and `penchant cite`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import penchant
from penchant.terminal import complain, say
from penchant_numerics.statistics import LEVEL


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path) -> None:
    """Write report.html of a run again, and missing figures; of a folder of runs, index.html."""
    from penchant.results.runs import run_record

    from penchant_report.drawing import draw_missing
    from penchant_report.report import write_report
    from penchant_report.runs_page import runs_in, write_index
    from penchant_report.wording import grouped

    if folder.is_dir() and runs_in(folder) and run_record(folder) is None:
        say(str(write_index(folder)))
        return
    run = penchant.read(folder)
    problems = [(job["id"], draw_missing(run, job["id"])) for job in run.jobs]
    for problem, jobs in grouped(problems).items():
        if problem:
            more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
            complain(f"{jobs[0]}{more}: {problem}")
    say(str(write_report(run)))


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="RUN RUN...", type=click.Path())
@click.option("--out", default="compare.html", metavar="FILE", help="The page that is written.")
@click.option("--fail", is_flag=True, help="Exit with 1 if a quantity has moved; write no page.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=LEVEL,
    show_default=True,
    help="With --fail: the chance of failing where nothing has changed.",
)
def compare(folders: tuple[str, ...], out: str, fail: bool, level: float) -> None:
    """The same probe across runs: differences with standard errors, as lines and as a page.

    A RUN is a run folder, or the card.json of one.
    """
    if fail:
        _fail_if_moved(folders, level)
        return
    from penchant_report.compare import compare as compare_runs

    comparison = compare_runs(*folders)
    for line in comparison.lines():
        say(line)
    say(str(comparison.write(out)))


def _fail_if_moved(folders: tuple[str, ...], level: float) -> None:
    from penchant_report.movement import movement

    if len(folders) != 2:
        raise penchant.Error(f"--fail takes a baseline and a run, found {len(folders)}")
    found = movement(*folders, level=level)
    for line in found.lines():
        say(line)
    sys.exit(1 if found.fails else 0)


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
def cite(folder: Path) -> None:
    """BibTeX of the papers behind the probes of a run, and of Penchant."""
    from penchant_report.citations import bibtex

    say(bibtex(penchant.read(folder)))
