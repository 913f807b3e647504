"""Figures of the probe `manifold-accuracy`."""

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, captioned, heat_map, log_ticks, palette

from penchant_spectral_bias.shared.bands import curve

SHOWN = 5  # numbers of neighbours beside the network
NETWORKS = 4
CLASSES = ["#c5d8ea", "#f3d3c4"]  # behind points, so that both stay legible


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Accuracy of network and neighbours, the learnt functions in the plane, their spectra."""
    return {
        "accuracy": _accuracy(result),
        "plane": _plane(result),
        "radial-spectrum": _radial(result),
    }


def _by_neighbours(result: penchant.Result, name: str) -> list[tuple[Any, penchant.Table]]:
    """A table for every number of neighbours; none where these were not measured."""
    table = result.tables.get(name)
    if table is None:
        return []
    return [(count, table.at(neighbours=count)) for count in table.axes["neighbours"]]


def _neighbours(count: int) -> str:
    """A number of neighbours in words."""
    if count == 1:
        return "1 neighbour"
    return f"{count} neighbours"


def _accuracy(result: penchant.Result) -> Figure:
    """Training accuracy by frequency and petals: the network, then nearest neighbours."""
    maps = {"network": result.tables["train-accuracy"]}
    for count, table in _by_neighbours(result, "neighbour-train-accuracy")[:SHOWN]:
        maps[_neighbours(count)] = table
    # one colour bar for all panels
    figure = Figure(figsize=(1.8 + 2.6 * len(maps), 3.6))
    axes = figure.subplots(1, len(maps), squeeze=False, sharey=True)[0]
    for number, (panel, name) in enumerate(zip(axes, maps)):
        heat_map(
            maps[name].values,
            columns=maps[name].coordinates("frequency").tolist(),
            rows=maps[name].coordinates("petals").tolist(),
            xlabel="frequency (cycles)",
            ylabel="" if number else "petals",
            label="training accuracy",
            limits=(0.5, 1),
            bar=False,
            axes=panel,
        )
        panel.set_title(name)
    figure.colorbar(axes[0].images[0], ax=list(axes), label="training accuracy")
    mean = result.quantities["train-accuracy"]
    caption = f"Training accuracy by frequency and petals, on average {mean}."
    return captioned(figure, caption, title="A binarised wave on flowers")


def _plane(result: penchant.Result) -> Figure:
    """The class and the confidence of each network in the plane, with the training samples."""
    arrays = result.arrays
    axis = arrays["plane-axis"]
    logits = arrays["plane"][:NETWORKS]
    figure = Figure(figsize=(4.2 * len(logits), 4.5))
    axes = figure.subplots(1, len(logits), squeeze=False, sharey=True)[0]
    for number, (panel, values) in enumerate(zip(axes, logits)):
        classes = (values > 0).astype(float)
        panel.contourf(axis, axis, classes, levels=[-0.5, 0.5, 1.5], colors=CLASSES)
        # lines of equal confidence, which a constant function has not
        if np.ptp(values):
            panel.contour(axis, axis, np.abs(values), levels=6, colors="#666666", linewidths=0.4)
        # samples in front of what was learnt from them
        panel.scatter(
            *arrays["plane-points"].T, c=arrays["plane-labels"], cmap="coolwarm", s=6, zorder=3
        )
        panel.set(aspect="equal", xlabel="x", title=f"network {number}")
    axes[0].set_ylabel("y")
    caption = "Predicted classes in the plane, and the training samples (dots)."
    return captioned(figure, caption, title="The learnt functions in the plane")


def _radial(result: penchant.Result) -> Figure:
    """Radial spectra of the probability of class 1: network and nearest neighbours."""
    figure = Figure(figsize=(6.5, 3.9))
    axes = figure.subplots()
    axes.set(xlabel="radial frequency (cycles per unit)", ylabel="zeta")
    axes.set(xscale="log", yscale="log")
    own = result.tables["radial-spectrum"]
    frequencies = own.coordinates("radial-frequency")
    curve(axes, frequencies, own.values, own.error, colour=BLUE, label="network")

    # neighbours dashed, in colours of their own
    spectra = _by_neighbours(result, "neighbour-radial-spectrum")
    colours = palette(len(spectra) + 1)[1:]
    for colour, (count, table) in zip(colours, spectra):
        label = _neighbours(count)
        curve(axes, frequencies, table.values, table.error, colour=colour, label=label, style="--")
    log_ticks(axes)
    axes.legend()
    decay = result.quantities["network-decay"]
    caption = f"Fitted exponent of the networks: {decay}; null: before training."
    return captioned(figure, caption, title="Radial spectra in the plane")
