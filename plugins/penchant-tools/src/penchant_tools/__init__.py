"""Around a run: explanations, the doctor, dry runs, quick forms, new plugins, bars, JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import penchant

if TYPE_CHECKING:
    import click

__all__ = ["penchant_commands"]


@penchant.hookimpl
def penchant_commands(cli: click.Group) -> None:
    """`penchant doctor`, `status`, `new plugin`, `push`, `pull` and `archive`."""
    from penchant_tools import commands

    cli.add_command(commands.doctor)
    cli.add_command(commands.new)
    cli.add_command(commands.status)
    cli.add_command(commands.push)
    cli.add_command(commands.pull)
    cli.add_command(commands.archive)
