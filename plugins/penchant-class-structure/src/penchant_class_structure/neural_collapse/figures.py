"""Figures of the probe `neural-collapse`: the measures along training, and by layer."""

from typing import Any

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned, log_ticks
from penchant_numerics.pictures.curves import Panel, panels
from penchant_numerics.statistics import significant

NAMES = {
    "nc1": "NC1: scatter within classes",
    "nc2-simplex": "NC2: angles, from a simplex",
    "nc2-norms": "NC2: norms, spread",
    "nc3": "NC3: classifier, from the means",
    "nc4": "NC4: nearest mean disagrees",
}


_COUNTED = {2: "two", 3: "three", 4: "four"}


def headline(result: penchant.Result) -> str | None:
    """How many of the four measures are below their nulls, in one sentence."""
    named = {"NC1": "nc1", "NC2": "nc2-simplex", "NC3": "nc3", "NC4": "nc4"}
    named = {label: name for label, name in named.items() if name in result.quantities}
    measures = [result.quantities[name] for name in named.values()]
    decided = significant([quantity.null_p_value for quantity in measures])
    below = []
    for label, quantity, holds in zip(named, measures, decided):
        if holds and quantity.null is not None and quantity.value < quantity.null:
            below.append(label)
    if not below:
        listed = "NC1 to NC4" if len(named) == 4 else ", ".join(named)
        return f"None of {listed} is below its value for permuted labels: nothing has collapsed."
    ratio = result.quantities["nc1"].value
    text = (
        f"{', '.join(below)} of {_COUNTED[len(named)]} are below their values for permuted "
        f"labels; the scatter within classes is {ratio:.2g} of that between them (NC1)"
    )
    # in many dimensions class means are close to a simplex whatever they are
    chance = result.arrays["nc2-simplex-isotropic"][-1]
    if result.quantities["nc2-simplex"].value > chance:
        text += f", but angles are no closer to a simplex than isotropic features ({chance:.2g})"
    return f"{text}."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Along training where there are several steps, and by layer at the last of them."""
    figures = {}
    if len(result.arrays["steps"]) > 1:
        figures["training"] = _training(result)
    figures["layers"] = _layers(result)
    return figures


def _training(result: penchant.Result) -> Figure:
    """The last layer's measures by step, with those of permuted labels and isotropic features."""
    last = result.tables["nc1-by-layer"].axes["layer"][-1]
    shown = {title: _beside_nulls(result, name, layer=last) for name, title in NAMES.items()}
    accuracies = {"measured": result.tables["accuracies"]}
    shown[f"{result.options['split']} accuracy"] = Panel(accuracies, "share")
    figure = panels(shown, x="step", xlabel="training step")
    for panel in figure.axes[:-1]:
        _log(panel)
    caption = (
        "Measures of the last layer with standard errors over samples, beside permuted labels; "
        "dotted: isotropic features of this dimension. 0 is collapse."
    )
    return captioned(figure, caption, title="Neural collapse along training")


def _layers(result: penchant.Result) -> Figure:
    """Measures of every layer at the last step."""
    last = result.tables["nc1-by-layer"].axes["step"][-1]
    shown = {
        title: _beside_nulls(result, name, step=last)
        for name, title in NAMES.items()
        if f"{name}-by-layer" in result.tables
    }
    figure = panels(shown, x="layer", columns=2)
    for panel in figure.axes[: len(shown)]:
        _log(panel)
    caption = (
        "What each layer is given, from the input to the classifier, beside permuted labels; "
        "dashed: isotropic features of the layer's dimension."
    )
    return captioned(figure, caption, title="Neural collapse by layer")


def _beside_nulls(result: penchant.Result, name: str, **chosen: Any) -> Panel:
    """A measure of one layer, or at one step, beside what it is without collapse."""
    keys = {
        f"{name}-by-layer": "measured",
        f"{name}-by-step": "measured",
        f"{name}-null": "permuted labels",
        f"{name}-classifier-by-step": "classifier",
        f"{name}-isotropic": "isotropic",
    }
    known = {
        label: _at(result.tables[key], chosen)
        for key, label in keys.items()
        if key in result.tables
    }
    level: Any = known.pop("isotropic", None)
    if level is not None and not level.axes:
        level = level.values.item()
    curves = {label: table for label, table in known.items() if table.axes}
    return Panel(curves, "value", level=level, level_label="isotropic")


def _at(table: penchant.Table, chosen: dict[str, Any]) -> penchant.Table:
    """A table at coordinates of those axes that it has."""
    return table.at(**{axis: each for axis, each in chosen.items() if axis in table.axes})


def _log(panel: Axes) -> None:
    """A logarithmic axis, where everything drawn is above zero."""
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.lines])
    if np.nanmin(values) > 0:
        panel.set_yscale("log")
        log_ticks(panel)
