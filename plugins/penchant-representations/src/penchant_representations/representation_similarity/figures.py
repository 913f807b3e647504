"""Figures of the probe `representation-similarity`: maps over layers, and corresponding layers."""

from typing import Any

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned
from penchant_numerics.pictures.curves import Panel, panels

TITLES = {"cka": "CKA (unbiased)", "procrustes": "Procrustes", "neighbours": "mutual neighbours"}
_MOST = 24  # names on an axis


def headline(result: penchant.Result) -> str | None:
    """Whether corresponding layers are more similar than chance and than untrained networks."""
    name = result.options["measures"][0]
    value = result.quantities[name]
    if not value.is_significant:
        return f"Corresponding layers are no more similar than shuffled samples make them ({name})."
    text = f"Corresponding layers have a similarity of {value.value:.2f} ({TITLES[name]})"
    gain = result.quantities.get(f"{name}-gain")
    if gain is None or gain.null_p_value is None:
        return f"{text}."
    if not gain.is_significant:
        return f"{text}, no different from the same networks before training."
    direction = "more" if gain.value > 0 else "less"
    return f"{text}, {abs(gain.value):.2f} {direction} than before training."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """A map for every measure, and corresponding layers with their nulls."""
    return {"layers": _maps(result), "corresponding": _corresponding(result)}


def _maps(result: penchant.Result) -> Figure:
    """Similarity of all layers of the first network with all of the second."""
    measures = result.options["measures"]
    untrained = f"{measures[0]}-untrained" in result.tables
    rows = 2 if untrained else 1
    figure = Figure(figsize=(3.6 * len(measures) + 1.2, 3.4 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, len(measures), squeeze=False)
    for column, name in enumerate(measures):
        _map(panels[0, column], result, f"{name}-layers", TITLES[name])
        if untrained:
            _map(
                panels[1, column], result, f"{name}-untrained", f"{TITLES[name]}, at initialisation"
            )
    if "second network" not in result.conventions:
        caption = "Similarity of every array with every other; on the diagonal with itself."
        return captioned(figure, caption, title="Similarity of arrays")
    caption = (
        "Similarity of every layer of the first network (rows) with every layer of the second "
        "(columns), from the input to the output; below: the same networks at initialisation."
        if untrained
        else "Similarity of every layer of the first network (rows) with every layer of the second."
    )
    second = result.conventions["second network"]
    return captioned(figure, caption, title=f"Similarity of layers; second network: {second}")


def _map(panel: Axes, result: penchant.Result, name: str, title: str) -> None:
    table = result.tables[name]
    image = panel.imshow(
        table.values, origin="lower", cmap="viridis", vmin=0, vmax=1, aspect="auto"
    )
    panel.figure.colorbar(image, ax=panel, shrink=0.8)
    panel.set_title(title, fontsize=9)
    _names(panel, "x", table.axes["second-layer"])
    _names(panel, "y", table.axes["layer"])
    of_networks = "second network" in result.conventions
    panel.set_xlabel("layer, second network" if of_networks else "array", fontsize=8)
    panel.set_ylabel("layer, first network" if of_networks else "array", fontsize=8)


def _names(panel: Axes, which: str, names: tuple[Any, ...]) -> None:
    """Names of layers, or of every n-th where there are many."""
    every = -(-len(names) // _MOST)
    positions = range(0, len(names), every)
    texts = [names[position] for position in positions]
    if which == "x":
        rotation = 90 if max(map(len, texts)) > 3 else 0
        panel.set_xticks(positions, texts, rotation=rotation, fontsize=6)
    else:
        panel.set_yticks(positions, texts, fontsize=6)


def _corresponding(result: penchant.Result) -> Figure:
    """Corresponding layers with errors, shuffled samples, and networks at initialisation."""
    networks = {"layers": "measured", "untrained": "untrained"}
    shown = {}
    for name in result.options["measures"]:
        curves = {
            label: _corresponding_layers(result, f"{name}-{key}", f"{name}-null")
            for key, label in networks.items()
            if f"{name}-{key}" in result.tables
        }
        null = result.tables[f"{name}-null"]
        shown[TITLES[name]] = Panel(curves, "similarity", null, "shuffled samples")
    figure = panels(shown, x="pair", xlabel="corresponding layers")
    for panel in figure.axes:
        panel.set_ylim(min(-0.05, panel.get_ylim()[0]), 1.05)
    caption = "Corresponding layers with standard errors over samples; dashed: shuffled samples."
    return captioned(figure, caption, title="Corresponding layers")


def _corresponding_layers(result: penchant.Result, name: str, null: str) -> penchant.Table:
    """Of a table of all pairs of layers, those that correspond."""
    i, j = result.arrays["corresponding"].T
    table = result.tables[name]
    stderr = np.asarray(table.stderr)[i, j]
    return penchant.Table(table.values[i, j], result.tables[null].axes, stderr=stderr)
