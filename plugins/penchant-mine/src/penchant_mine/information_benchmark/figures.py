"""Figures of the probe `information-benchmark`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import COLOURS, FAINT, captioned, heat_map

FORMULAS = {"identity": "x", "cube": "x³", "sine": "sin x"}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Estimates over the grid against the truth; for several maps also heat maps."""
    family = result.options["family"]
    figures = {}
    if len(np.unique(result.arrays["maps"])) > 1:
        figures["maps"] = captioned(
            _maps(result),
            f"For equal noise the information depends on f. {_farthest(result)}",
            title="Information of z = f(x) + noise, by f and noise",
        )
    figures["information"] = captioned(
        _curves(result),
        "Estimates with two standard errors over independent samples, and the true values.",
        title=f"Estimates and true information ({family} pairs)",
    )
    return figures


def _farthest(result: penchant.Result) -> str:
    """How far estimates are from the truth at most."""
    distances = []
    truth = result.arrays["truth"]
    for label in labels_in(result):
        away = np.abs(result.arrays[f"estimate-{label}"] - truth).max()
        distances.append(f"{label} {away:.2g}")
    return f"Largest distance from the truth in nats: {', '.join(distances)}."


def labels_in(result: penchant.Result) -> list[str]:
    """Labels of the estimators, in their order."""
    labels = []
    for name in result.arrays:
        label = name.removeprefix("estimate-")
        # Errors have names of their own.
        if label != name and not name.endswith("-stderr"):
            labels.append(label)
    return labels


def _curves(result: penchant.Result) -> Figure:
    """Truth and estimates over the grid, and below it the errors, one column per map."""
    maps = result.arrays["maps"]
    chosen = np.unique(maps)
    names = result.labels["maps"]
    figure = Figure(figsize=(2.6 + 3.6 * len(chosen), 5.2))
    panels = figure.subplots(2, len(chosen), sharex="col", height_ratios=(2, 1), squeeze=False)
    for column, number in enumerate(chosen):
        above, below = panels[:, column]
        _column(result, above, below, maps == number)
        below.set_xlabel(result.conventions["parameter"])
        if len(chosen) > 1:
            above.set_title(f"f = {FORMULAS[names[number]]}")
    panels[0, 0].set_ylabel("mutual information, nats")
    panels[1, 0].set_ylabel("estimate - truth, nats")
    # One legend for all panels.
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _column(result: penchant.Result, above: Axes, below: Axes, own: np.ndarray) -> None:
    grid = result.arrays["parameters"][own]
    truth = result.arrays["truth"][own]
    # Curves go from left to right, whatever the order of the grid.
    order = np.argsort(grid)
    # Wide and below the estimates: it is seen where they lie on it, and where there is one point.
    (line,) = above.plot(grid[order], truth[order], "_-", color="0.75", zorder=1, label="truth")
    line.set(linewidth=4, markersize=14, markeredgewidth=4)
    for number, label in enumerate(labels_in(result)):
        # Two standard errors, in both panels.
        values = result.arrays[f"estimate-{label}"][own]
        errors = 2 * result.arrays[f"estimate-{label}-stderr"][own]
        colour = COLOURS[number % len(COLOURS)]
        for panel, shown, name in ((above, values, label), (below, values - truth, None)):
            panel.errorbar(
                grid[order],
                shown[order],
                errors[order],
                fmt="o-",
                color=colour,
                linewidth=0.9,
                label=name,
            )
    below.axhline(0, color=FAINT, linewidth=0.8)


def _maps(result: penchant.Result) -> Figure:
    """One heat map over f and noise for the truth, and one for every estimator (figure 5.2)."""
    labels = labels_in(result)
    # Cells come map by map, each with the whole grid.
    chosen, counts = np.unique(result.arrays["maps"], return_counts=True)
    shape = (len(chosen), counts[0])
    columns = result.arrays["parameters"].reshape(shape)[0]
    names = [FORMULAS[result.labels["maps"][number]] for number in chosen]
    shown = {"truth": result.arrays["truth"]}
    for label in labels:
        shown[label] = result.arrays[f"estimate-{label}"]
    # One scale of colours, so that panels can be compared.
    most = max(float(values.max()) for values in shown.values())
    figure = Figure(figsize=(7.2, 1.5 * len(shown) + 0.8))
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, values) in zip(panels, shown.items()):
        heat_map(
            values.reshape(shape),
            columns=columns,
            rows=range(len(chosen)),
            xlabel="",
            ylabel="f",
            label="nats",
            limits=(0, most),
            axes=axes,
        )
        axes.set_yticks(range(len(chosen)), names)
        axes.set_title(label)
    panels[-1].set_xlabel(result.conventions["parameter"])
    return figure
