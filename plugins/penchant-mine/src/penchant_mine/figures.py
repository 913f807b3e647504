"""Figures of the probes that measure information, drawn from stored results."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure

COLOURS = ("#2b5c8a", "#d9822b", "#4f8a5b", "#a23b52", "#7a5ea8", "#3a9a9a", "#8a6d3b", "#5d6678")


def names_in(result: penchant.Result, prefix: str) -> list[str]:
    """Estimators that have an array with this prefix, in their order."""
    return [
        name.removeprefix(prefix)
        for name in result.arrays
        if name.startswith(prefix) and not name.endswith("-stderr")
    ]


def information(result: penchant.Result) -> Figure:
    """Information along training with its null; where there is one step only, one bar an estimator."""
    steps, names = result.arrays["step"], names_in(result, "information-")
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for number, name in enumerate(names):
        values, errors = (
            result.arrays[f"information-{name}"],
            2 * result.arrays[f"information-{name}-stderr"],
        )
        null = result.arrays[f"null-{name}"]
        colour = COLOURS[number % len(COLOURS)]
        if len(steps) > 1:
            axes.errorbar(steps, values, errors, fmt="o-", color=colour, capsize=2, label=name)
            axes.plot(steps, null, ":", color=colour)
        else:
            axes.errorbar([number], values, errors, fmt="o", color=colour, capsize=4)
            axes.plot([number - 0.2, number + 0.2], [null[0]] * 2, ":", color=colour)
    axes.axhline(0, color="#999999", linewidth=0.8)
    if len(steps) > 1:
        axes.set(xlabel="training step (dotted: shuffled pairs)")
        axes.legend(frameon=False)
    else:
        axes.set_xticks(range(len(names)), names)
        axes.set_xlabel("estimator (dotted: shuffled pairs)")
        axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylabel(f"I({result.options['first']}; {result.options['second']}), nats")
    return figure


def benchmark(result: penchant.Result) -> Figure:
    """Truth and estimates over the grid, and below it the errors."""
    grid, truth, names = (
        result.arrays["parameter"],
        result.arrays["truth"],
        names_in(result, "estimate-"),
    )
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    order = np.argsort(grid)
    above.plot(grid[order], truth[order], color="black", linewidth=1.2, label="truth")
    for number, name in enumerate(names):
        values, errors = (
            result.arrays[f"estimate-{name}"],
            2 * result.arrays[f"estimate-{name}-stderr"],
        )
        style = {
            "fmt": "o-",
            "color": COLOURS[number % len(COLOURS)],
            "capsize": 2,
            "markersize": 4,
            "linewidth": 0.9,
        }
        above.errorbar(grid[order], values[order], errors[order], label=name, **style)
        below.errorbar(grid[order], (values - truth)[order], errors[order], **style)
    below.axhline(0, color="black", linewidth=0.8)
    above.set_ylabel("mutual information, nats")
    below.set(xlabel=result.conventions["parameter"], ylabel="estimate - truth")
    above.legend(frameon=False, fontsize=8)
    return figure
