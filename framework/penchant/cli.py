"""Commands. What they do is in the other modules, imported only by the command that needs it.

One file, though a long one: each command would pay for importing a second, and most of its lines
are the options that `--help` lists.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click
from penchant.errors import Error, printable
from penchant.plugins import discovery

LONGEST_FOLDER = 60  # signs of a run folder's name that say what was measured


class _Commands(click.Group):
    """Turns what users can mend into one line on stderr, and Ctrl-C into a clean exit."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            _complain(f"penchant: {error}")
            sys.exit(2)
        except KeyboardInterrupt as stopped:
            kept = "finished work is kept, run the same command to go on"
            what = str(stopped) or "interrupted"
            _complain(f"\npenchant: {what}; {kept}")
            # The exit codes that shells use for Ctrl-C and SIGTERM.
            sys.exit(getattr(stopped, "exit_code", 130))


def _complain(text: str) -> None:
    """One line on stderr, if there is one."""
    if sys.stderr is not None:
        shown = printable(text)
        click.echo(shown, err=True)


def _say(text: str) -> None:
    """A line on stdout; what a plugin or a stranger wrote cannot move the cursor."""
    # Bytes, so that a terminal of another encoding shows what it can instead of failing.
    data = printable(text).encode(errors="backslashreplace")
    click.echo(data)


def _completed(complete: Any) -> Any:
    """What a shell may complete, as click asks for it; what is wrong with a plugin stays unsaid."""

    def offered(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
        root = ctx.find_root()
        without = root.params.get("without") or ()
        try:
            plugins = discovery.load(without)
            found: list[str] = complete(plugins, ctx, begun)
        except Error:
            return []
        return found

    return offered


def _names_of(kind: str | None) -> Any:
    """Completes names of components of a kind, and behind a colon their options."""

    def complete(plugins: discovery.Plugins, ctx: click.Context, begun: str) -> list[str]:
        from penchant.plugins.completion import names

        return names(plugins, kind, begun)

    return _completed(complete)


def _of_the_probe(what: str) -> Any:
    """Completes what depends on the probe that is typed before: option_names or presets."""

    def complete(plugins: discovery.Plugins, ctx: click.Context, begun: str) -> list[str]:
        from penchant.plugins import completion

        names = getattr(completion, what)
        found: list[str] = names(_typed_probe(plugins, ctx), begun)
        return found

    return _completed(complete)


def _estimators_of(plugins: discovery.Plugins, ctx: click.Context, begun: str) -> list[str]:
    from penchant.plugins.completion import estimators

    return estimators(plugins, _typed_probe(plugins, ctx), begun)


def _typed_probe(plugins: discovery.Plugins, ctx: click.Context) -> Any:
    """The probe that stands in a command of which an option still lacks its value."""
    # Click stops at such an option: what it has not looked at yet is left over.
    left = ctx.args[0] if ctx.args else ""
    name = ctx.params.get("name") or left
    offer = plugins.find("probe", name)
    return offer.component


def _kinds(plugins: discovery.Plugins, ctx: click.Context, begun: str) -> list[str]:
    from penchant.plugins.completion import beginning
    from penchant.plugins.listing import KINDS

    plurals = [f"{kind}s" for kind in (*KINDS, "role")]
    return beginning(plurals, begun)


@click.group(cls=_Commands)
@click.version_option(package_name="penchant")
@click.option("--without", multiple=True, metavar="NAME", help="Leave this plugin out.")
@click.pass_context
def main(ctx: click.Context, without: tuple[str, ...]) -> None:
    r"""Measure what neural networks prefer.

    `penchant list` shows what there is, `penchant explain NAME` what it does.

    \b
    Names and options are completed by bash (likewise zsh_source, fish_source) after
      eval "$(_PENCHANT_COMPLETE=bash_source penchant)"
    """
    ctx.obj = tuple(without)
    # `import:factory=own:make` finds own.py in the folder where the command is typed.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


_RUN_OPTIONS = [
    click.option("--out", metavar="DIR", help="Run folder."),
    click.option("--device", help="auto, cpu, cuda or cuda:N."),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change the experiment, e.g. probes.nad.networks=50.",
    ),
    click.option(
        "--executor",
        metavar="NAME[:k=v,...]",
        shell_complete=_names_of("executor"),
        help="How jobs and shards are run: see `penchant list executor`.",
    ),
    click.option("--workers", type=int, help="Workers of the executor."),
    click.option("--threads", type=int, help="Torch threads of every job and shard (default 1)."),
    click.option("--time-limit", type=float, help="Seconds after which a job fails."),
    click.option("--fresh", is_flag=True, help="Move an old run in this folder aside."),
    click.option("--quiet", is_flag=True, help="Print nothing but where the report is."),
    click.option("--json-lines", is_flag=True, help="Print every event as a line of JSON."),
    click.option(
        "--only",
        multiple=True,
        metavar="LABEL",
        help="Run only jobs whose id, probe, architecture or dataset is like this, e.g. 'nad*'.",
    ),
    click.option(
        "--dry-run", is_flag=True, help="Only say what it would cost, and what is refused."
    ),
]


def _run_options(command: Any) -> Any:
    """The options that `run` and `probe` share."""
    # Decorators are applied from the last to the first; help lists them in the order above.
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="A reduced form: each probe's quick preset.")
@_run_options
@click.pass_obj
def run(
    without: tuple[str, ...],
    /,
    file: Path,
    quick: bool,
    **options: Any,
) -> None:
    """Run an experiment, or go on with it; exit 0 only if every job is done."""
    from penchant.experiments.experiment import read_toml

    raw = read_toml(file)
    name = file.stem
    if quick:
        from penchant.experiments.quick import quick_form

        # Before `--set`: what is typed beside --quick is meant.
        plugins = discovery.load(without)
        raw = quick_form(raw, plugins, file.name)
        name = f"{name}-quick"
    folder = Path("runs") / name
    _execute(raw, file.name, folder, without, **options)


@main.command()
@click.argument("name", shell_complete=_names_of("probe"))
@click.option(
    "-a",
    "--architecture",
    "architectures",
    multiple=True,
    metavar="ARCH[:k=v,...]",
    shell_complete=_names_of("architecture"),
    help="Architecture.",
)
@click.option(
    "-d",
    "--dataset",
    "datasets",
    multiple=True,
    metavar="DATASET[:k=v,...]",
    shell_complete=_names_of("dataset"),
    help="Dataset.",
)
@click.option(
    "-e",
    "--estimator",
    "estimators",
    multiple=True,
    metavar="ROLE=ESTIMATOR[:k=v,...]",
    shell_complete=_completed(_estimators_of),
    help="Estimator for a role.",
)
@click.option(
    "-o",
    "--option",
    "options_",
    multiple=True,
    metavar="k=v",
    shell_complete=_of_the_probe("option_names"),
    help="Option of the probe.",
)
@click.option(
    "-p",
    "--preset",
    "preset",
    metavar="PRESET",
    shell_complete=_of_the_probe("presets"),
    help="Preset of the probe.",
)
@click.option("--seed", "seeds", multiple=True, type=int, help="One job for each seed.")
@click.option("--shape", help="Input shape where there is no dataset, e.g. 1,32,32.")
@click.option("--outputs", type=int, help="Outputs where there is no dataset.")
@_run_options
@click.pass_obj
def probe(
    without: tuple[str, ...],
    /,
    name: str,
    architectures: tuple[str, ...],
    datasets: tuple[str, ...],
    estimators: tuple[str, ...],
    options_: tuple[str, ...],
    preset: str | None,
    seeds: tuple[int, ...],
    shape: str | None,
    outputs: int | None,
    **options: Any,
) -> None:
    """Run one probe without a file."""
    from penchant.api import one_probe
    from penchant.experiments.document import TYPED
    from penchant.experiments.typed_text import parse_options

    # `-o a=1 -o b=2` is read like one table.
    typed = ",".join(options_)
    raw = one_probe(
        name,
        parse_options(typed),
        architectures=_parsed(architectures),
        datasets=_parsed(datasets),
        preset=preset,
        estimators=_estimators(estimators),
    )
    settings = _typed_settings(seeds, shape, outputs)
    raw.update(settings)
    folder = _folder_of(raw, options["sets"])
    _execute(raw, TYPED, folder, without, **options)


def _typed_settings(
    seeds: tuple[int, ...],
    shape: str | None,
    outputs: int | None,
) -> dict[str, Any]:
    """Settings of the experiment that were typed, and no others."""
    from penchant.experiments.typed_text import parse_options

    found: dict[str, Any] = {}
    if seeds:
        found["seeds"] = list(seeds)
    if shape:
        found |= parse_options(f"shape=[{shape}]")
    if outputs is not None:
        found["outputs"] = outputs
    return found


def _folder_of(raw: dict[str, Any], sets: tuple[str, ...]) -> Path:
    """The run folder of what was typed: the same command finds it again, another takes another.

    Its name says what is measured on what, as far as that is short.
    """
    from penchant.experiments.identity import short_hash

    (probe,) = raw["probes"]
    _, _, name = probe["name"].rpartition("/")
    words = [name]
    for axis in ("architectures", "datasets"):
        words += probe.get(axis, [])
    told = "-".join(map(str, words))

    # Labels are the user's words; a folder's name takes few of their signs, and not too many.
    safe = re.sub(r"[^\w.-]+", "-", told)
    short = safe[:LONGEST_FOLDER]

    digest = short_hash([raw, *sets])
    return Path("runs") / f"{short}-{digest}"


def _parsed(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    from penchant.experiments.typed_text import parse_component

    return [parse_component(text) for text in texts]


def _estimators(texts: tuple[str, ...]) -> dict[str, Any]:
    """Role to estimator, or to a list of them where a role is given several times."""
    from penchant.experiments.typed_text import parse_component

    found: dict[str, list[Any]] = {}
    for text in texts:
        role, equals, rest = text.partition("=")
        if not equals:
            raise Error(f"-e takes ROLE=ESTIMATOR, found {text!r}")
        chosen = found.setdefault(role, [])
        estimator = parse_component(rest)
        chosen.append(estimator)
    estimators: dict[str, Any] = {}
    for role, chosen in found.items():
        # A role that takes one estimator refuses a list.
        estimators[role] = chosen[0] if len(chosen) == 1 else chosen
    return estimators


def _execute(
    raw: dict[str, Any],
    where: str,
    folder: Path,
    without: tuple[str, ...],
    *,
    out: str | None,
    sets: tuple[str, ...],
    fresh: bool,
    quiet: bool,
    json_lines: bool,
    dry_run: bool,
    only: tuple[str, ...],
    **settings: Any,
) -> None:
    """Run, and print what was found; or only what it would cost."""
    from penchant.api import run as run_experiment
    from penchant.experiments.typed_text import apply

    # In the order typed: a later one may change what an earlier one set.
    for text in sets:
        raw = apply(raw, text)
    # Options that were typed replace what the file says.
    given = {key: value for key, value in settings.items() if value is not None}
    raw = {**raw, **given}
    plugins = discovery.load(without)
    if dry_run:
        place = Path(out) if out else folder
        _foretell(raw, where, place, plugins, only)
        return
    found = run_experiment(
        raw,
        out=out or folder,
        fresh=fresh,
        progress=False,
        plugins=_with_display(plugins, quiet, json_lines),
        only=only,
        where=where,
    )
    if not json_lines:
        report = found.folder / "report.html"
        _say(str(report))
    sys.exit(0 if found.done else 1)


def _foretell(
    raw: dict[str, Any],
    where: str,
    folder: Path,
    plugins: discovery.Plugins,
    only: tuple[str, ...],
) -> None:
    """Print what a run would cost and what of it is refused; writes nothing."""
    from penchant.execution.forecast import forecast
    from penchant.execution.planning import plan
    from penchant.execution.selection import selected

    planned = plan(raw, plugins, where)
    chosen = selected(planned.jobs, only)
    found = forecast(planned.experiment, folder, chosen, planned.refused)
    counts = f"{found.jobs} jobs, {found.done} already done"
    title = planned.experiment.settings.title or where
    _say(f"{title}: {counts} -> {folder} (dry run)")
    for line in found.lines():
        _say(line)
    # A run that is done, or that can do anything, is no failure.
    sys.exit(0 if found.planned or found.done else 1)


def _with_display(
    plugins: discovery.Plugins,
    quiet: bool,
    json_lines: bool,
) -> discovery.Plugins:
    """The plugins, and whoever shows what happens: to people, to machines or to nobody."""
    if json_lines:
        from penchant.execution.json_lines import JsonLines

        return plugins.with_listener("json-lines", JsonLines())
    if quiet:
        return plugins
    from penchant.execution.display import Display

    return plugins.with_listener("display", Display())


@main.command(name="list")
@click.argument("kind", required=False, shell_complete=_completed(_kinds))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def list_(
    without: tuple[str, ...],
    kind: str | None,
    as_json: bool,
) -> None:
    """Components by kind, a line each: KIND is probes, architectures, ... or roles."""
    from penchant.plugins import listing

    plugins = discovery.load(without)
    rows = listing.rows(plugins, kind)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    # Where there is no terminal, whoever reads it wants whole lines.
    terminal = shutil.get_terminal_size((0, 0))
    width = terminal.columns or sys.maxsize
    lines = listing.lines(rows, width)
    _say("\n".join(lines))
    _mention_set_aside(plugins)


def _mention_set_aside(plugins: discovery.Plugins) -> None:
    aside = [plugin.name for plugin in plugins.plugins if plugin.reason]
    if aside:
        listed = ", ".join(aside)
        _complain(f"set aside: {listed}; `penchant plugins` says why")


@main.command()
@click.argument("name", shell_complete=_names_of(None))
@click.pass_obj
def explain(without: tuple[str, ...], name: str) -> None:
    """Help text, reference, options, presets, what comes out, cost and an example command.

    NAME is a component, a role, or `training`.
    """
    from penchant.plugins.explain import explain as explained

    plugins = discovery.load(without)
    text = explained(name, plugins)
    _say(text)


@main.group()
def new() -> None:
    """Make something new."""


@new.command(name="plugin")
@click.argument("name")
@click.option("--in", "parent", type=click.Path(path_type=Path), default=Path(), help="Where.")
def new_plugin(name: str, parent: Path) -> None:
    """A plugin NAME that installs, passes its tests and measures something."""
    from penchant.plugins.template import new_plugin as make

    folder = make(name, parent)
    short = folder.name.removeprefix("penchant-")
    _say(f"{folder}: a plugin with one component of each kind; its README says what to change")
    # What to type next.
    _say(f"  pip install --no-build-isolation -e {folder}")
    _say(f"  pytest {folder}")
    _say(f"  penchant probe {short} -a {short}-perceptron -d {short}-blobs")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def plugins(without: tuple[str, ...], as_json: bool) -> None:
    """Plugins: name, version, status, reason, components."""
    found = discovery.load(without)
    rows = [_plugin(found, plugin) for plugin in found.plugins]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        _show_plugin(row)


def _show_plugin(row: dict[str, Any]) -> None:
    name = row["name"]
    version = row["version"]
    distribution = row["distribution"]
    status = row["status"]
    _say(f"{name} {version} ({distribution}): {status}")

    # Why it is set aside, else what it offers.
    listed = ", ".join(row["components"])
    what = row["reason"] or listed or "listens only"
    _say(f"  {what}")
    for clash in row["clashes"]:
        _say(f"  {clash}")


def _plugin(found: discovery.Plugins, plugin: discovery.Plugin) -> dict[str, Any]:
    """What is said of a plugin."""
    clashes = []
    # What somebody else offers under the same name.
    for component in plugin.components:
        both = found.clash(component)
        if both and plugin.distribution != discovery.KERNEL:
            what = f"the {component.kind} {component.name!r} is offered by {both}"
            address = f"{plugin.distribution}/{component.name}"
            clashes.append(f"{what}: it is reached as {address!r} only")
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "reason": plugin.reason,
        "components": [f"{each.kind} {each.name}" for each in plugin.components],
        "clashes": clashes,
    }


@main.command()
@click.option(
    "-a",
    "--architecture",
    metavar="ARCH[:k=v,...]",
    shell_complete=_names_of("architecture"),
    help="Architecture to look at.",
)
@click.option(
    "-d",
    "--dataset",
    metavar="DATASET[:k=v,...]",
    shell_complete=_names_of("dataset"),
    help="Dataset to look at.",
)
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
    """Can this machine and this network do what probes need? Exit 1 where something cannot."""
    from penchant.execution.doctor import examine
    from penchant.experiments.settings import Settings
    from penchant.experiments.typed_text import parse_component, parse_options

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
    _say(section.title)
    widths = [len(finding.what) for finding in section.findings]
    width = max(widths)
    for finding in section.findings:
        sign = " " if finding.well else "!"
        _say(f"{sign} {finding.what:{width}}  {finding.found}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path) -> None:
    """Write report.html of a run folder again, and figures that are missing."""
    from penchant.execution.drawing import draw_missing
    from penchant.results.report import write_report
    from penchant.results.runs import read

    found = read(folder)
    for job in found.jobs:
        draw_missing(found.place(job["id"]))
    _say(str(write_report(found)))


@main.command()
@click.argument("folders", nargs=-1, required=True, metavar="RUN RUN...", type=click.Path())
@click.option("--out", default="compare.html", metavar="FILE", help="The page that is written.")
def compare(folders: tuple[str, ...], out: str) -> None:
    """The same probe across runs: differences with their errors, as lines and as a page."""
    from penchant.results.compare import compare as compared

    found = compared(*folders)
    for line in found.lines():
        _say(line)
    page = found.write(out)
    _say(str(page))
