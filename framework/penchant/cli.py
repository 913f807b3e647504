"""Commands. Nobody imports this; what they do is in the other modules, imported only by the command that needs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from penchant import plugins as discovery
from penchant.errors import Error
from penchant.explain import explanation
from penchant.settings import apply, parse_component, parse_options

_KINDS = ("architecture", "dataset", "estimator", "probe", "executor")


class _Commands(click.Group):
    """Turns what users can mend into one line on stderr, and Ctrl-C into a clean exit."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            click.echo(f"penchant: {error}", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            click.echo(
                "\npenchant: interrupted; finished work is kept, run the same command to go on",
                err=True,
            )
            sys.exit(130)


@click.group(cls=_Commands)
@click.version_option(package_name="penchant")
@click.option("--without", multiple=True, metavar="NAME", help="Leave this plugin out.")
@click.pass_context
def main(ctx: click.Context, without: tuple[str, ...]) -> None:
    """Measure what neural networks prefer."""
    ctx.obj = tuple(without)


def _run_options(command: Any) -> Any:
    """The options that `run` and `probe` share."""
    for option in reversed(
        [
            click.option("--out", metavar="DIR", help="Run folder."),
            click.option("--device", help="auto, cpu, cuda or cuda:N."),
            click.option(
                "--set",
                "sets",
                multiple=True,
                metavar="PATH=VALUE",
                help="Change the experiment, e.g. probes.nad.samples=50.",
            ),
            click.option("--executor", help="How shards are run: see `penchant list executor`."),
            click.option("--workers", type=int, help="Workers of the executor."),
            click.option(
                "--threads", type=int, help="Torch threads of every job and shard (default 1)."
            ),
            click.option("--fresh", is_flag=True, help="Move an old run in this folder aside."),
        ]
    ):
        command = option(command)
    return command


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@_run_options
@click.pass_obj
def run(without: tuple[str, ...], /, file: Path, **options: Any) -> None:
    """Run an experiment, or go on with it; exit 0 only if every job is done."""
    from penchant.experiment import read_toml

    _execute(read_toml(file), file.name, Path("runs") / file.stem, without, **options)


@main.command()
@click.argument("name")
@click.option(
    "-a",
    "architectures",
    multiple=True,
    metavar="ARCH[:k=v,...]",
    help="Architecture with options.",
)
@click.option(
    "-d", "datasets", multiple=True, metavar="DATASET[:k=v,...]", help="Dataset with options."
)
@click.option(
    "-e",
    "estimators",
    multiple=True,
    metavar="ROLE=ESTIMATOR[:k=v,...]",
    help="Estimator for a role.",
)
@click.option("-o", "options_", multiple=True, metavar="k=v", help="Option of the probe.")
@click.option("-p", "preset", metavar="PRESET", help="Preset of the probe.")
@click.option("--seed", "seeds", multiple=True, type=int, help="One job for each seed.")
@click.option("--shape", help="Input shape where there is no dataset, e.g. 1,32,32.")
@click.option("--outputs", type=int, help="Outputs where there is no dataset.")
@_run_options
@click.pass_obj
def probe(
    without: tuple[str, ...],
    /,
    name: str,
    architectures: Any,
    datasets: Any,
    estimators: Any,
    options_: Any,
    preset: Any,
    seeds: Any,
    shape: Any,
    outputs: Any,
    **options: Any,
) -> None:
    """Run one probe without a file."""
    from penchant.identity import short_hash

    entry: dict[str, Any] = {"name": name, **parse_options(",".join(options_))}
    raw: dict[str, Any] = {"probes": [entry]}
    if preset:
        entry["preset"] = preset
    for key, given in (("architectures", architectures), ("datasets", datasets)):
        if given:
            raw[key] = [parse_component(text) for text in given]
            for index, each in enumerate(raw[key]):
                if sum(other["name"] == each["name"] for other in raw[key]) > 1:
                    each["label"] = f"{each['name']}-{index}"
            entry[key] = [each.get("label", each["name"].rpartition("/")[2]) for each in raw[key]]
    for text in estimators:
        role, found, rest = text.partition("=")
        if not found:
            raise Error(f"-e takes ROLE=ESTIMATOR, found {text!r}")
        entry.setdefault("estimators", {}).setdefault(role, []).append(parse_component(rest))
    for role, chosen in entry.get("estimators", {}).items():
        entry["estimators"][role] = chosen[0] if len(chosen) == 1 else chosen
    raw.update({"seeds": list(seeds)} if seeds else {})
    raw.update({"shape": parse_options(f"shape=[{shape}]")["shape"]} if shape else {})
    raw.update({"outputs": outputs} if outputs is not None else {})
    _execute(
        raw,
        "command line",
        Path("runs") / f"{name.rpartition('/')[2]}-{short_hash([raw, *options['sets']])}",
        without,
        **options,
    )


def _execute(
    raw: dict[str, Any],
    where: str,
    folder: Path,
    without: tuple[str, ...],
    *,
    out: str | None,
    sets: tuple[str, ...],
    fresh: bool,
    **settings: Any,
) -> None:
    from penchant.api import run as run_experiment
    from penchant.builtin import Display

    for text in sets:
        raw = apply(raw, text)
    raw = {**raw, **{key: value for key, value in settings.items() if value is not None}}
    plugins = discovery.load(without).with_listener("display", Display())
    found = run_experiment(raw, out=out or folder, fresh=fresh, plugins=plugins, where=where)
    for job in found.jobs:
        result = found.result(job["id"])
        if result.quantities:
            click.echo(job["id"])
        for name, quantity in result.quantities.items():
            click.echo(f"  {name:24} {quantity}")
    click.echo(f"{found.folder / 'report.html'}")
    sys.exit(0 if found.done else 1)


@main.command(name="list")
@click.argument("kind", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def list_(without: tuple[str, ...], kind: str | None, as_json: bool) -> None:
    """Components: kind, name, summary, plugin, version."""
    if kind is not None and kind.removesuffix("s") not in _KINDS:
        raise Error(f"kind must be one of {', '.join(_KINDS)}, found {kind!r}")
    plugins = discovery.load(without)
    offers = plugins.offers(kind.removesuffix("s") if kind else None)
    rows = [
        {
            "kind": offer.component.kind,
            "name": plugins.address(offer),
            "summary": offer.component.summary(),
            "plugin": offer.distribution,
            "version": offer.version,
        }
        for offer in offers
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        click.echo(
            f"{row['kind']:13}{row['name']:{width + 2}}{row['summary']}  ({row['plugin']} {row['version']})"
        )
    _mention_set_aside(plugins)


def _mention_set_aside(plugins: discovery.Plugins) -> None:
    aside = [plugin.name for plugin in plugins.plugins if plugin.reason]
    if aside:
        click.echo(f"set aside: {', '.join(aside)}; `penchant plugins` says why", err=True)


@main.command()
@click.argument("name")
@click.pass_obj
def explain(without: tuple[str, ...], name: str) -> None:
    """Help text, reference, options, presets, arrays and quantities of a component."""
    plugins = discovery.load(without)
    offers = [
        offer
        for offer in plugins.offers()
        if name in (offer.component.name, plugins.address(offer))
    ]
    if not offers:
        known = {plugins.address(offer): offer.component.kind for offer in plugins.offers()}
        from penchant.errors import suggestion

        raise Error(f"no component is called {name!r}{suggestion(name, known)}")
    click.echo("\n\n".join(explanation(offer) for offer in offers))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def plugins(without: tuple[str, ...], as_json: bool) -> None:
    """Plugins: name, version, status, reason, components."""
    found = discovery.load(without)
    rows = [
        {
            "name": plugin.name,
            "distribution": plugin.distribution,
            "version": plugin.version,
            "status": plugin.status,
            "reason": plugin.reason,
            "components": [f"{each.kind} {each.name}" for each in plugin.components],
            "clashes": [
                _clash(plugin, each, both)
                for each in plugin.components
                if (both := found.clash(each))
            ],
        }
        for plugin in found.plugins
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['name']} {row['version']} ({row['distribution']}): {row['status']}")
        click.echo(
            f"  {row['reason']}"
            if row["reason"]
            else f"  {', '.join(row['components']) or 'listens only'}"
        )
        for clash in row["clashes"]:
            click.echo(f"  {clash}")


def _clash(plugin: discovery.Plugin, component: Any, both: str) -> str:
    address = f"{plugin.distribution}/{component.name}"
    return f"the {component.kind} {component.name!r} is offered by {both}: it is reached as {address!r} only"


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path) -> None:
    """Write report.html of a run folder again."""
    from penchant.report import write_report
    from penchant.runs import read

    click.echo(write_report(read(folder)))
