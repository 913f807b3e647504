"""Figures of the probe `class-paths`."""

from typing import Any

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREY, ORANGE, captioned

SHOWN = 6  # paths
COLUMNS = 9  # inputs of a path
KINDS = ("image-image", "image-adversarial", "adversarial-adversarial")


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Connected shares by kind, lengths, and a few paths as pictures."""
    figures = {"connected": _summary(result)}
    paths = result.arrays["paths"]
    # inputs that are no pictures are not drawn as such
    are_pictures = paths.ndim == 5 and paths.shape[2] in (1, 3)
    if len(paths) and are_pictures:
        figures["paths"] = _pictures(result)
    return figures


def _summary(result: penchant.Result) -> Figure:
    figure = Figure(figsize=(9.2, 3.9))
    left, right = figure.subplots(1, 2)
    _bars(left, result)

    # how far connected paths had to go
    connected = result.arrays["connected"].astype(bool)
    ratios = result.arrays["length-ratios"][connected]
    if len(ratios):
        right.hist(100 * (ratios - 1), bins=20, color=ORANGE)
    right.set(xlabel="longer than the straight line (%)", ylabel="connected pairs")
    quantity = result.quantities["connected"]
    caption = f"Pairs of inputs connected by a path of constant class: {quantity}."
    return captioned(figure, caption, title="Paths within a class")


def _bars(axes: Axes, result: penchant.Result) -> None:
    """Bent paths beside straight lines, with their errors, for every kind of ends."""
    quantities = {}
    for name in KINDS:
        quantity = result.quantities.get(f"connected-{name}")
        if quantity is not None:
            quantities[name] = quantity
    positions = np.arange(len(quantities))

    # the null first, then what was found
    straight = np.array([(each.null, each.null_stderr) for each in quantities.values()], float)
    bent = np.array([(each.value, each.stderr) for each in quantities.values()], float)
    for side, table, colour, label in (
        (-0.2, straight, GREY, "straight line"),
        (0.2, bent, BLUE, "bent path"),
    ):
        shares, errors = table.T
        axes.bar(positions + side, shares, 0.38, yerr=errors, color=colour, label=label)

    # one end per line, and how many pairs there were
    names = []
    for name, each in quantities.items():
        ends = name.replace("-", "-\n", 1)
        names.append(f"{ends}\n({each.count})")
    axes.set_xticks(positions, names)
    axes.set(ylabel="share of pairs that keep the class", ylim=(0, 1.25))
    axes.legend(loc="upper center", ncols=2)


def _pictures(result: penchant.Result) -> Figure:
    """A few stored paths, from one end to the other."""
    paths = result.arrays["paths"][:SHOWN]
    # some inputs of each path, both ends among them
    last = paths.shape[1] - 1
    positions = np.linspace(0, last, COLUMNS)
    columns = np.unique(positions.astype(int))
    width = 1.0 * len(columns) + 1.4
    height = 1.05 * len(paths) + 0.8
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(len(paths), len(columns), squeeze=False)
    for number, path in enumerate(paths):
        scaled = _scaled(path)
        for panel, column in zip(axes[number], columns):
            _picture(panel, scaled[column])

        # the class of a row, and whether its path keeps it
        label = f"class {result.arrays['path-classes'][number]}"
        if not result.arrays["path-connected"][number]:
            label += "\n(not joined)"
        axes[number, 0].set_ylabel(label, fontsize=8)
    caption = "Every row is a path between two inputs of the same predicted class."
    return captioned(figure, caption, title="Paths")


def _scaled(path: Any) -> Any:
    """Inputs of a path between 0 and 1, all on one scale."""
    low = float(path.min())
    high = float(path.max())
    # a path of one grey has no span
    span = high - low or 1.0
    return (path - low) / span


def _picture(axes: Axes, values: Any) -> None:
    """An input with one channel in grey, with three in colour."""
    picture = values[0]
    if len(values) == 3:
        picture = values.transpose(1, 2, 0)
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
