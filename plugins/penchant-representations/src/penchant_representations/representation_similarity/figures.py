"""Figures of the probe `representation-similarity`: maps over layers, and corresponding layers."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, ORANGE, captioned

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
    untrained = f"{measures[0]}-untrained" in result.arrays
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
    image = panel.imshow(
        result.arrays[name], origin="lower", cmap="viridis", vmin=0, vmax=1, aspect="auto"
    )
    panel.figure.colorbar(image, ax=panel, shrink=0.8)
    panel.set_title(title, fontsize=9)
    first, second = result.labels["layers"], result.labels["second layers"]
    _names(panel, "x", second)
    _names(panel, "y", first)
    of_networks = "second network" in result.conventions
    panel.set_xlabel("layer, second network" if of_networks else "array", fontsize=8)
    panel.set_ylabel("layer, first network" if of_networks else "array", fontsize=8)


def _names(panel: Axes, which: str, names: tuple[str, ...]) -> None:
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
    measures = result.options["measures"]
    figure = Figure(figsize=(3.6 * len(measures) + 1, 3.8), layout="constrained")
    panels = figure.subplots(1, len(measures), squeeze=False)[0]
    i, j = result.arrays["corresponding"].T
    positions = np.arange(len(i))
    first, second = result.labels["layers"], result.labels["second layers"]
    names = [
        first[a] if first[a] == second[b] else f"{first[a]} | {second[b]}" for a, b in zip(i, j)
    ]
    for panel, name in zip(panels, measures):
        arrays = {f"{name}-layers": ("measured", BLUE), f"{name}-untrained": ("untrained", GREEN)}
        for key, (label, colour) in arrays.items():
            if key in result.arrays:
                values, errors = result.arrays[key][i, j], result.arrays[f"{key}-stderr"][i, j]
                panel.errorbar(
                    positions, values, errors, fmt="o-", color=colour, markersize=3, label=label
                )
        null = result.arrays[f"{name}-null"]
        panel.plot(positions, null, "--", color=ORANGE, label="shuffled samples")
        panel.set_title(TITLES[name], fontsize=9)
        panel.set_ylabel("similarity", fontsize=8)
        panel.set_xlabel("corresponding layers", fontsize=8)
        panel.set_ylim(min(-0.05, float(null.min()) - 0.05), 1.05)
        _names(panel, "x", tuple(names))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    caption = "Corresponding layers with standard errors over samples; dashed: shuffled samples."
    return captioned(figure, caption, title="Corresponding layers")
