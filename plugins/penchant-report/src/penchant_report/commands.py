"""The commands `penchant report`, `penchant compare` and `penchant cite`."""

from __future__ import annotations

from pathlib import Path

import click
import penchant
from penchant.terminal import complain, say


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
def compare(folders: tuple[str, ...], out: str) -> None:
    """The same probe across runs: differences with standard errors, as lines and as a page."""
    from penchant_report.compare import compare as compare_runs

    comparison = compare_runs(*folders)
    for line in comparison.lines():
        say(line)
    say(str(comparison.write(out)))


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
def cite(folder: Path) -> None:
    """BibTeX of the papers behind the probes of a run, and of Penchant."""
    from penchant_report.citations import bibtex

    say(bibtex(penchant.read(folder)))
