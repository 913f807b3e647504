"""Figures of the probe `capacity`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import (
    BLUE,
    FAINT,
    GREY,
    RED,
    captioned,
    legend_beside,
    log_ticks,
    palette,
)

NORMS = {"l2": ("usual norm", BLUE), "optimal": ("best norm", RED)}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Bounds beside the test error, and where the solutions lie."""
    return {"bounds": _bounds(result), "solutions": _solutions(result)}


def _bounds(result: penchant.Result) -> Figure:
    """Complexities, their bounds and the test error against the scaling (figure B.3, right)."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    scalings = result.arrays["scalings"]
    positions = range(len(scalings))
    for name, (label, colour) in NORMS.items():
        kinds = {"bound": "-o", "rademacher": "--"}
        for kind, style in kinds.items():
            text = f"bound, {label}" if kind == "bound" else f"simulated, {label}"
            left.errorbar(
                positions,
                result.tables[f"{kind}-{name}"].values,
                result.tables[f"{kind}-{name}"].error,
                fmt=style,
                color=colour,
                markersize=3,
                label=text,
            )
    left.set_yscale("log")
    left.set_ylabel("Rademacher complexity")
    left.legend(fontsize=7)
    log_ticks(left)

    # what a bound should follow
    right.errorbar(
        positions,
        result.tables["test-error"].values,
        result.tables["test-error"].error,
        fmt="-o",
        color=GREY,
        capsize=2,
    )
    right.axhline(0.5, color=FAINT, linestyle=":", label="chance")
    right.set_ylabel("test error (share of wrong signs)")
    right.set_ylim(bottom=0)
    right.legend()

    # scalings crowd at both ends: they are equally spaced here
    for panel in (left, right):
        panel.set_xlabel("scaling c of the features")
        names = [f"{scaling:g}" for scaling in scalings]
        panel.set_xticks(positions, names, rotation=60, ha="right", fontsize=7)
    ratio = result.quantities["bound-ratio"]
    caption = (
        "Bounds of two norms, simulated complexities and the test error; the usual bound over the "
        f"best at the largest scaling: {ratio}."
    )
    return captioned(figure, caption, title="Capacity bounds of two norms, and the test error")


def _solutions(result: penchant.Result) -> Figure:
    """Interpolators of many training sets in a plane (figure B.3, left)."""
    figure = Figure(figsize=(5, 4), layout="constrained")
    panel = figure.subplots()
    scalings = result.arrays["scalings"]
    colours = palette(len(scalings), ordered=True)
    for position, colour in enumerate(colours):
        points = result.arrays["solutions"][position]
        label = f"c = {scalings[position]:g}"
        panel.scatter(points[:, 0], points[:, 1], s=8, color=colour, label=label)
    panel.set_yscale("symlog", linthresh=1)
    panel.set_xlabel("along eigenvector 1")
    panel.set_ylabel("along eigenvector 10")
    legend_beside(panel, fontsize=6)
    caption = "One point per training set, one panel per scaling; both axes are centred."
    return captioned(figure, caption, title="Interpolators of many training sets, centred")
