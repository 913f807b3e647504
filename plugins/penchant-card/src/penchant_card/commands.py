"""The command `penchant card`."""

from __future__ import annotations

from pathlib import Path

import click
from penchant.terminal import say


@click.command()
@click.argument("network")
@click.option("-d", "--data", metavar="DATA", help="A dataset, a file .npz, a folder, texts.")
@click.option("--weights", metavar="FILE", help="Weights of the network.")
@click.option("--minutes", type=float, default=5.0, show_default=True, help="Time to use.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Run folder.")
@click.option("--shape", help="Input shape where there are no data, e.g. 1,32,32.")
@click.option("--outputs", type=int, help="Outputs where there are no data.")
@click.option("--seed", type=int, default=0, help="The first seed.")
@click.option("--seeds", type=int, help="How many drawn networks to measure (default 5).")
@click.option("--label", help="What the network is called.")
@click.option("--device", help="auto, cpu, cuda or cuda:N.")
@click.option("--workers", type=int, help="How many jobs run at a time.")
@click.option("--fresh", is_flag=True, help="Move an old run in this folder aside.")
@click.pass_obj
def card(
    without: tuple[str, ...],
    network: str,
    data: str | None,
    weights: str | None,
    minutes: float,
    out: Path | None,
    shape: str | None,
    outputs: int | None,
    seed: int,
    seeds: int | None,
    label: str | None,
    device: str | None,
    workers: int | None,
    fresh: bool,
) -> None:
    """What NETWORK prefers, on one page, chosen by itself within some minutes.

    NETWORK is a component (lenet, mlp:widths=[64], timm:resnet18, huggingface:folder) or your own,
    package.module:Class. Ctrl-C leaves a card of what is done; the same command goes on with it.
    """
    from penchant.experiments.typed_text import parse_options
    from penchant.plugins.working_folder import load_here

    from penchant_card.card import card as make
    from penchant_card.plans import SEEDS

    made = make(
        network,
        data,
        minutes=minutes,
        weights=weights,
        out=out,
        shape=parse_options(f"shape=[{shape}]")["shape"] if shape else None,
        outputs=outputs,
        seed=seed,
        seeds=SEEDS if seeds is None else seeds,
        label=label,
        device=device,
        workers=workers,
        fresh=fresh,
        plugins=load_here(without),
    )
    for line in made.lines():
        say(line)
    say(str(made.folder / "card.html"))
