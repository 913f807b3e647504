"""The tables of an experiment; an error names the file and the key."""

from collections.abc import Mapping
from typing import Any

import attrs
from penchant.components.component import Component
from penchant.errors import Error
from penchant.plugins.discovery import Plugins
from penchant.plugins.registry import Registration

Table = Mapping[str, Any]  # of an experiment, as TOML has it
TYPED = "command line"  # the name of an experiment without a file, in messages


@attrs.frozen
class Document:
    """The tables of an experiment, its file's name, and the plugins that have its components."""

    raw: Table
    plugins: Plugins
    where: str

    def training(self) -> Table:
        """The recipe that holds for all probes; empty where there is none."""
        return self.table(self.raw.get("training", {}), f"{self.where}, training")

    def table(self, value: object, where: str) -> Table:
        """A table, or an Error."""
        if not isinstance(value, Mapping):
            raise Error(f"expected a table, found {value!r} ({where})")
        return value

    def tables(self, key: str) -> list[tuple[str, Table]]:
        """Each table of a list with its location, or an Error."""
        value = self.raw.get(key, [])
        where = f"{self.where}, {key}"
        if not isinstance(value, (list, tuple)):
            kind = type(value).__name__
            raise Error(f"{key} must be a list of tables ([[{key}]]), found {kind} ({where})")
        located = [(f"{where}[{index}]", each) for index, each in enumerate(value)]
        return [(where, self.table(each, where)) for where, each in located]

    def registration(self, kind: str, entry: Table, where: str) -> Registration:
        """The component of this kind that a table names; `where` is the table's key."""
        name = entry.get("name")
        if not isinstance(name, str):
            found = f"expected a name of an installed {kind}, found {name!r} ({where}.name)"
            hint = "; penchant.measure takes a class or function" if kind == "probe" else ""
            raise Error(found + hint)
        return self.plugins.find(kind, name, f"{where}.name")

    def component(self, registration: Registration, entry: Table, where: str) -> Component:
        """A component with the options of its table: every key that means nothing else."""
        cls = registration.component
        options = {key: value for key, value in entry.items() if key not in cls.table_keys}
        return cls.bind(options, where)


def text_of(value: object, where: str) -> str:
    """A text that is not empty, or an Error."""
    if not isinstance(value, str) or not value:
        raise Error(f"expected text, found {value!r} ({where})")
    return value
