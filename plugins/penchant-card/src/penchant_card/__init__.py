"""The card of a network: what it prefers, on one page, chosen by itself within some minutes.

Reference: Mitchell et al., Model cards for model reporting, FAT* 2019.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import penchant

if TYPE_CHECKING:
    import click

__all__ = ["penchant_commands"]


@penchant.hookimpl
def penchant_commands(cli: click.Group) -> None:
    """`penchant card`."""
    from penchant_card import commands

    cli.add_command(commands.card)
