"""Commands of the kernel. What they do is in other modules, imported by the command that needs it.

Plugins add commands of their own through the hook `penchant_commands`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from penchant.errors import Error
from penchant.extras import extra, is_installed
from penchant.plugins import discovery
from penchant.plugins.working_folder import load_here
from penchant.terminal import complain, say, with_display

if TYPE_CHECKING:
    from penchant.request import Request

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_FOLDER = 60  # characters of a run folder's name that say what was measured


class _Commands(click.Group):
    """The kernel's commands and those of plugins; an `Error` is one line on stderr."""

    _has_all = False  # whether plugins have added their commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._add_commands_of_plugins(ctx)
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # The kernel's own commands need no plugin.
        if cmd_name not in self.commands:
            self._add_commands_of_plugins(ctx)
        return super().get_command(ctx, cmd_name)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        # A plugin cannot take a command away from the kernel, nor from another plugin.
        if (name or cmd.name) in self.commands:
            raise Error(f"there is a command {name or cmd.name!r} already")
        super().add_command(cmd, name)

    def _add_commands_of_plugins(self, ctx: click.Context) -> None:
        if self._has_all:
            return
        self._has_all = True
        plugins = discovery.load(tuple(ctx.params.get("without") or ()))
        for problem in plugins.notify("penchant_commands", cli=self):
            complain(problem)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            complain(f"penchant: {error}")
            sys.exit(2)
        except KeyboardInterrupt as stopped:
            what = str(stopped) or "interrupted"
            hint = "finished work is stored; run the same command to continue"
            complain(f"\npenchant: {what}; {hint}")
            # The exit codes that shells use for Ctrl-C and SIGTERM.
            sys.exit(getattr(stopped, "exit_code", 130))


def _complete(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """What a shell may make of the beginning of a word."""
    if not is_installed("penchant_tools"):
        return []
    words: list[str] = extra("complete")(ctx, param, begun)
    return words


@click.group(cls=_Commands)
@click.version_option(package_name="penchant")
@click.option("--without", multiple=True, metavar="NAME", help="Leave this plugin out.")
@click.pass_context
def main(ctx: click.Context, without: tuple[str, ...]) -> None:
    """Measure what neural networks prefer.

    `penchant list` shows what there is, `penchant explain NAME` what it does.

    \b
    Names and options are completed by bash (likewise zsh_source, fish_source) after
      eval "$(_PENCHANT_COMPLETE=bash_source penchant)"
    """  # noqa: D301  click reads the character \b, not a backslash and a b
    ctx.obj = tuple(without)


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
        shell_complete=_complete,
        help="How jobs and shards are run: see `penchant list executor`.",
    ),
    click.option("--workers", type=int, help="Workers of the executor."),
    click.option("--threads", type=int, help="Torch threads of every job and shard (default 1)."),
    click.option("--time-limit", type=float, help="Seconds after which a job fails."),
    click.option("--fresh", is_flag=True, help="Move an old run in this folder aside."),
    click.option("--quiet", is_flag=True, help="Print nothing but where the report is."),
    click.option("-v", "--verbose", is_flag=True, help="Print the quantities of every job."),
    click.option("--json-lines", is_flag=True, help="Print every event as a line of JSON."),
    click.option(
        "--only",
        multiple=True,
        metavar="LABEL",
        help="Run only jobs whose id, probe, architecture or dataset matches, e.g. 'nad*'.",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Estimate time and memory and list invalid jobs; run nothing.",
    ),
]


def _run_options(command: F) -> F:
    """The options that `run` and `probe` share."""
    # Decorators are applied from the last to the first; help lists them in the order above.
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command


def _several(*names: str, metavar: str, help: str) -> Callable[[F], F]:
    """An option that may be given several times, and that a shell completes."""
    return click.option(*names, multiple=True, metavar=metavar, shell_complete=_complete, help=help)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="A reduced form: each probe's quick preset.")
@_run_options
@click.pass_obj
def run(without: tuple[str, ...], /, file: Path, quick: bool, **options: Any) -> None:
    """Run an experiment, or go on with it; exit 0 only if every job is done."""
    from penchant.request import Request

    request = Request.of(file)
    if quick:
        # Before `--set`: what is typed beside --quick is meant.
        request = request.quick(load_here(without))
        for entry in request.raw["probes"]:
            complain(f"quick: {entry.get('label', entry['name'])}: {entry['quick'] or 'as it is'}")
    _execute(request, without, **options)


@main.command()
@click.argument("name", shell_complete=_complete)
@_several("-a", "--architecture", "architectures", metavar="ARCH[:k=v,...]", help="Architecture.")
@_several("-d", "--dataset", "datasets", metavar="DATASET[:k=v,...]", help="Dataset.")
@_several(
    "-e",
    "--estimator",
    "estimators",
    metavar="ROLE=ESTIMATOR[:k=v,...]",
    help="Estimator for a role.",
)
@_several("-o", "--option", "options_", metavar="k=v", help="Option of the probe.")
@click.option(
    "-p", "--preset", metavar="PRESET", shell_complete=_complete, help="Preset of the probe."
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
    from penchant.experiments.typed_text import parse_component, parse_options
    from penchant.request import Request

    raw = one_probe(
        name,
        parse_options(",".join(options_)),
        architectures=[parse_component(text) for text in architectures],
        datasets=[parse_component(text) for text in datasets],
        preset=preset,
        estimators=_estimators(estimators),
    )
    # Settings of the experiment that were typed, and no others.
    if seeds:
        raw["seeds"] = list(seeds)
    if shape:
        raw |= parse_options(f"shape=[{shape}]")
    if outputs is not None:
        raw["outputs"] = outputs
    _execute(Request(raw, TYPED, _folder_of(raw, options["sets"])), without, **options)


def _folder_of(raw: dict[str, Any], sets: tuple[str, ...]) -> Path:
    """The run folder of what was typed: the same command finds it again, another takes another.

    Its name says what is measured on what, as far as that is short.
    """
    from penchant.experiments.identity import short_hash

    (probe,) = raw["probes"]
    _, _, name = probe["name"].rpartition("/")
    words = [name, *probe.get("architectures", []), *probe.get("datasets", [])]
    # Labels are the user's words; a folder's name takes few of their characters.
    safe = re.sub(r"[^\w.-]+", "-", "-".join(map(str, words)))
    digest = short_hash([raw, *sets])
    return Path("runs") / f"{safe[:LONGEST_FOLDER]}-{digest}"


def _estimators(texts: tuple[str, ...]) -> dict[str, Any]:
    """Role to estimator, or to a list of them where a role is given several times."""
    from penchant.experiments.typed_text import parse_component

    found: dict[str, list[Any]] = {}
    for text in texts:
        role, equals, rest = text.partition("=")
        if not equals:
            raise Error(f"-e takes ROLE=ESTIMATOR, found {text!r}")
        found.setdefault(role, []).append(parse_component(rest))
    # A role that takes one estimator refuses a list.
    return {role: chosen[0] if len(chosen) == 1 else chosen for role, chosen in found.items()}


def _execute(
    request: Request,
    without: tuple[str, ...],
    *,
    out: str | None,
    sets: tuple[str, ...],
    fresh: bool,
    quiet: bool,
    verbose: bool,
    json_lines: bool,
    dry_run: bool,
    only: tuple[str, ...],
    **settings: Any,
) -> None:
    """Run, and print what was found; or only what it would cost."""
    # In the order typed: a later one may change what an earlier one set.
    request = request.changed(sets)
    # Options that were typed replace what the file says.
    typed = {key: value for key, value in settings.items() if value is not None}
    request = request.with_settings(typed)
    plugins = load_here(without)
    if dry_run:
        print_forecast = extra("dry run")
        folder = Path(out or request.folder)
        sys.exit(0 if print_forecast(request.raw, request.where, folder, plugins, only) else 1)
    if json_lines:
        listener = extra("json lines")
        plugins = plugins.with_listener("json-lines", listener())
    elif not quiet:
        plugins = with_display(plugins, quantities=verbose or None)
    finished = request.run(plugins, out, fresh=fresh, only=only)
    report = finished.folder / "report.html"
    if not json_lines:
        say(str(report if report.is_file() else finished.folder))
    if not is_installed("penchant_report"):
        complain("pip install penchant-report writes report.html with figures")
    sys.exit(0 if finished.done else 1)


@main.command(name="list")
@click.argument("kind", required=False, shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def list_(without: tuple[str, ...], kind: str | None, as_json: bool) -> None:
    """Components by kind, one per line: KIND is probes, architectures, ... or roles."""
    from penchant.plugins import listing

    plugins = discovery.load(without)
    rows = listing.rows(plugins, kind)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    # Without a terminal lines are whole.
    width = shutil.get_terminal_size((0, 0)).columns or sys.maxsize
    say("\n".join(listing.lines(rows, width)))
    disabled = [plugin.name for plugin in plugins.plugins if plugin.reason]
    if disabled:
        complain(f"disabled: {', '.join(disabled)}; `penchant plugins` says why")


@main.command()
@click.argument("name", shell_complete=_complete)
@click.pass_obj
def explain(without: tuple[str, ...], name: str) -> None:
    """Help text, reference, options, presets, what comes out, cost and an example command.

    NAME is a component, a role, or `training`.
    """
    say(extra("explain")(name, discovery.load(without)))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def plugins(without: tuple[str, ...], as_json: bool) -> None:
    """Plugins: name, version, status, reason, components."""
    from penchant.plugins import listing

    rows = listing.plugin_rows(discovery.load(without))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        say(f"{row['name']} {row['version']} ({row['distribution']}): {row['status']}")
        # Why it is disabled, else what it offers.
        say(f"  {row['reason'] or ', '.join(row['components']) or 'listens only'}")
        for clash in row["clashes"]:
            say(f"  {clash}")
