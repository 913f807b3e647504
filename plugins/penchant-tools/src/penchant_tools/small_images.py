"""Smaller images for the quick form: a quarter of the pixels, where every architecture takes them.

Whether it does is found out by building it and by one input of zeros; of a dataset whose images can
be resized the size is found out by loading a few samples. What cannot be looked at stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from penchant.components.targets import resolve
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Choice
from penchant.plugins.discovery import Plugins

SIDE = 16


def with_small_images(
    raw: Mapping[str, Any],
    experiment: Experiment,
    plugins: Plugins,
) -> dict[str, Any]:
    """The experiment with smaller images, or as it was where they do not fit.

    Args:
        raw: The tables of the experiment.
        experiment: The experiment as it was validated.
        plugins: Where its datasets are looked for.

    Returns:
        The tables.
    """
    found = dict(raw)
    shapes = []
    # Where there is no dataset, the shape is a setting.
    shape = _smaller(experiment.settings.shape)
    without_data = [probe for probe in experiment.probes if probe.axes["dataset"] == (None,)]
    if shape is not None and without_data:
        found["shape"] = list(shape)
        shapes.append(shape)
    tables = []
    for entry in raw.get("datasets", ()):
        table, shape = _resized(entry, plugins)
        tables.append(table)
        if shape is not None:
            shapes.append(shape)
    if tables:
        found["datasets"] = tables
    architectures = _architectures(experiment)
    fits = all(_takes(choice, shape) for choice in architectures for shape in shapes)
    return found if fits else dict(raw)


def _smaller(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of a smaller image, where it is one that can be smaller."""
    if len(shape) != 3:
        return None
    channels, height, width = shape
    if min(height, width) <= SIDE:
        return None
    return (channels, SIDE, SIDE)


def _resized(
    entry: Mapping[str, Any],
    plugins: Plugins,
) -> tuple[dict[str, Any], tuple[int, ...] | None]:
    """A dataset of smaller images and their shape; nothing where it stays."""
    offer = plugins.find("dataset", entry["name"])
    cls = offer.component
    names = {field.name for field in attrs.fields(cls)}
    options = {name: value for name, value in entry.items() if name in names}
    component = cls.bind(options)
    table = dict(entry)
    if "input_shape" in names:
        shape = _smaller(component.input_shape)
        if shape is not None:
            table["input_shape"] = list(shape)
        return table, shape
    if "resize" in names:
        present = _shape_of(component)
        shape = _smaller(present)
        if shape is not None:
            table["resize"] = SIDE
            table.pop("pad", None)
        return table, shape
    return table, None


def _shape_of(dataset: Any) -> tuple[int, ...]:
    """The shape of a dataset's inputs; empty where they cannot be loaded."""
    import torch

    generator = torch.Generator(device="cpu").manual_seed(0)
    names = {field.name for field in attrs.fields(type(dataset))}
    # One sample of each class is as large as all of them.
    few = {name: 1 for name in ("per_class", "test_per_class") if name in names}
    try:
        load = resolve(dataset.target, dataset.name)
        small = attrs.evolve(dataset, **few)
        data = load(small, generator)
        return tuple(data.shape)
    except Exception:  # files that are missing are told when the job runs
        return ()


def _architectures(experiment: Experiment) -> list[Choice]:
    found: dict[str, Choice] = {}
    for probe in experiment.probes:
        for choice in probe.axes["architecture"]:
            if choice is not None:
                found[choice.label] = choice
    return list(found.values())


def _takes(choice: Choice, shape: tuple[int, ...]) -> bool:
    """Does a network of this architecture take inputs of this shape?"""
    import torch

    # One definite network of the user's own is not asked to be another.
    if choice.is_one_network:
        return False
    component = choice.component
    try:
        # Networks initialise themselves from the global generator, which is nobody's to change.
        with torch.random.fork_rng(devices=()), torch.no_grad():
            build = resolve(component.target, component.name)
            network = build(component, shape, 1).eval()
            network(torch.zeros((1, *shape), device="cpu"))
    except Exception:  # whatever it raises, it does not take them
        return False
    return True
