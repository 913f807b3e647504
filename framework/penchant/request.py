"""Requests: what a command or a call asks for, on its way to the runner."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.experiments.experiment import build, read_toml
from penchant.experiments.typed_text import apply
from penchant.extras import extra
from penchant.plugins.discovery import Plugins
from penchant.results.runs import Run


@attrs.frozen
class Request:
    """The tables of an experiment, its name in messages, and its run folder."""

    raw: dict[str, Any]
    where: str
    folder: Path

    @classmethod
    def of(cls, experiment: str | Path | Mapping[str, Any], where: str = "experiment") -> Request:
        """The request of a TOML file, or of a dict of the same form."""
        if isinstance(experiment, Mapping):
            return cls(dict(experiment), where, Path("runs") / "experiment")
        path = Path(experiment)
        return cls(read_toml(path), path.name, Path("runs") / path.stem)

    def with_settings(self, settings: Mapping[str, Any]) -> Request:
        """The same with other tables or settings."""
        return attrs.evolve(self, raw={**self.raw, **settings})

    def changed(self, texts: Iterable[str]) -> Request:
        """The same with changes as `--set` takes them, such as "probes.nad.networks=50"."""
        return attrs.evolve(self, raw=functools.reduce(apply, texts, self.raw))

    def quick(self, plugins: Plugins) -> Request:
        """Its reduced form, in a folder of its own."""
        raw = extra("quick form")(self.raw, plugins, self.where)
        folder = self.folder.with_name(f"{self.folder.name}-quick")
        return attrs.evolve(self, raw=raw, folder=folder)

    def run(
        self,
        plugins: Plugins,
        out: str | Path | None = None,
        *,
        fresh: bool = False,
        only: Sequence[str] = (),
        temporary: bool = False,
    ) -> Run:
        """Run it, or go on with it, in its folder or in `out`; see `run_experiment`."""
        from penchant.execution.runner import run_experiment

        experiment = build(self.raw, plugins, self.where)
        folder = Path(out or self.folder)
        return run_experiment(
            experiment, plugins, folder, fresh=fresh, only=only, temporary=temporary
        )
