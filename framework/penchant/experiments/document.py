"""The tables of an experiment: whatever is wrong with one names the place where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penchant.errors import Error
from penchant.plugins.discovery import Plugins, Registration

Table = Mapping[str, Any]  # of an experiment, as TOML has it
TYPED = "command line"  # what messages call an experiment that has no file


class Document:
    """An experiment as it was written, and the plugins among which its names are looked for."""

    def __init__(self, raw: Table, plugins: Plugins, where: str) -> None:
        if not isinstance(raw, Mapping):
            raise Error(f"{where} must be a table, found {type(raw).__name__}")
        self.raw = raw
        self.plugins = plugins
        self.where = where

    def training(self) -> Table:
        """The recipe that holds for all probes; empty where there is none."""
        return self.table(self.raw.get("training", {}), f"{self.where}, training")

    def table(self, value: object, where: str) -> Table:
        """A table, or an Error."""
        if not isinstance(value, Mapping):
            raise Error(f"expected a table, found {value!r} ({where})")
        return value

    def tables(self, key: str) -> list[Table]:
        """A list of tables, or an Error."""
        value = self.raw.get(key, [])
        where = f"{self.where}, {key}"
        if not isinstance(value, (list, tuple)):
            found = f"found {type(value).__name__} ({where})"
            raise Error(f"{key} must be a list of tables ([[{key}]]), {found}")
        return [self.table(each, f"{where}[{index}]") for index, each in enumerate(value)]

    def registration(self, kind: str, entry: Table, where: str) -> Registration:
        """The component that an entry names.

        Args:
            kind: architecture, dataset, estimator, probe or executor.
            entry: A table with a name.
            where: The place of the table, for messages.

        Returns:
            The component and where it comes from.
        """
        name = entry.get("name")
        if not isinstance(name, str):
            found = f"found {name!r} ({where}.name)"
            raise Error(f"expected a name of an installed {kind}, {found}")
        return self.plugins.find(kind, name, f"{where}.name")


def text_of(value: object, where: str) -> str:
    """A text that is not empty, or an Error."""
    if not isinstance(value, str) or not value:
        raise Error(f"expected text, found {value!r} ({where})")
    return value
