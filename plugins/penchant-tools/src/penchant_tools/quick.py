"""`--quick`: the same questions with each probe's preset `quick`, and at most two seeds.

Of what the file says of a probe its choices stay (text, true and false, names of estimators) and
its numbers go: a size of the file beside the small sizes of the preset would ask for direction 1023
of 1000. Architectures and datasets stay as they are; trainings are those of the presets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penchant.errors import Error
from penchant.experiments.experiment import build
from penchant.experiments.jobs import BoundProbe
from penchant.plugins.discovery import Plugins

SEEDS = 2
_SELECTION = ("name", "label", "architectures", "datasets")


def quick_form(
    raw: Mapping[str, Any], plugins: Plugins, where: str = "experiment"
) -> dict[str, Any]:
    """The reduced form of an experiment.

    Args:
        raw: The tables of an experiment, which must be valid.
        plugins: Where its components are searched.
        where: The name of the file, for messages.

    Returns:
        The tables of another experiment, which says of itself that it is reduced.
    """
    experiment = build(raw, plugins, where)
    settings = experiment.settings
    pairs = zip(raw["probes"], experiment.probes, strict=True)
    quick = {
        **raw,
        "title": f"{settings.title or where} (quick)",
        "quick": True,
        "seeds": list(settings.seeds[:SEEDS]),
        "probes": [_probe(entry, probe) for entry, probe in pairs],
    }
    quick.pop("training", None)
    return quick


def _probe(entry: Mapping[str, Any], probe: BoundProbe) -> dict[str, Any]:
    """The entry of a probe with its preset `quick`, its choices and its estimators."""
    cls = type(probe.component)
    found = {name: entry[name] for name in _SELECTION if name in entry}
    preset: Mapping[str, Any] = cls.presets.get("quick", {})
    if cls.presets:
        found["preset"] = "quick"
    choices = {name: value for name, value in entry.items() if isinstance(value, (str, bool))}
    choices = {name: value for name, value in choices.items() if name in probe.component.options()}
    if _fits(cls, {**_options(cls, preset), **choices}):
        found.update(choices)
    estimators = {role: _names(chosen) for role, chosen in probe.estimators.items()}
    changed = {
        role: names for role, names in estimators.items() if role in entry.get("estimators", {})
    }
    if changed:
        found["estimators"] = changed
    return found


def _options(cls: Any, preset: Mapping[str, Any]) -> dict[str, Any]:
    """What a preset says of the probe itself."""
    return {name: value for name, value in preset.items() if name not in ("estimators", "training")}


def _fits(cls: Any, options: Mapping[str, Any]) -> bool:
    """Can a choice be had with the numbers of the quick preset?"""
    try:
        cls.bind(options)
    except Error:
        return False
    return True


def _names(chosen: Any) -> Any:
    """Estimators by name: a list where the probe takes several."""
    names = [each.registration.component.name for each in chosen]
    return names[0] if len(names) == 1 else names
