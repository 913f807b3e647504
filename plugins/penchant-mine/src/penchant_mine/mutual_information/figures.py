"""Figures of the probe `mutual-information`."""

import attrs
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import COLOURS, FAINT, captioned
from penchant_numerics.pictures.curves import curves

CAPTION = "Held-out mutual information with standard errors; dashed: shuffled pairs."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Information along training; where there is one step only, one point per estimator."""
    variables = f"I({result.options['first']}; {result.options['second']})"
    labels = labels_in(result)
    # A curve needs two steps.
    if len(result.arrays["steps"]) > 1:
        figure = _along_training(result, labels, f"{variables}, nats")
    else:
        figure = _side_by_side(result, labels, f"{variables}, nats")
    title = f"Mutual information {variables}"
    return {"information": captioned(figure, CAPTION, title=title)}


def labels_in(result: penchant.Result) -> list[str]:
    """Labels of the estimators, in their order."""
    prefix = "information-"
    return [name.removeprefix(prefix) for name in result.tables if name.startswith(prefix)]


def _beside_null(result: penchant.Result, label: str) -> penchant.Table:
    """Information by step, with that of shuffled pairs where there were any."""
    null = result.tables.get(f"null-{label}")
    table = result.tables[f"information-{label}"]
    return attrs.evolve(table, null=None if null is None else null.values)


def _along_training(result: penchant.Result, labels: list[str], ylabel: str) -> Figure:
    tables = {label: _beside_null(result, label) for label in labels}
    figure = curves(tables, x="step", y=ylabel, xlabel="training step", level=0.0, level_label="0")
    steps = result.arrays["steps"]
    # steps that grow by factors have a logarithmic axis
    later = steps[steps > 0]
    if len(later) > 2 and later.max() > 20 * later.min():
        first, last = float(later.min()), float(later.max())
        axes = figure.axes[0]
        axes.set_xscale("symlog", linthresh=first)
        axes.set_xlim(-first / 4, 1.3 * last)
        axes.minorticks_off()
    return figure


def _side_by_side(result: penchant.Result, labels: list[str], ylabel: str) -> Figure:
    figure = Figure(figsize=(1.4 * len(labels) + 2.2, 3.6))
    axes: Axes = figure.subplots()
    for position, label in enumerate(labels):
        colour = COLOURS[position % len(COLOURS)]
        table = _beside_null(result, label)
        axes.errorbar([position], table.values, table.stderr, fmt="o", color=colour, capsize=4)
        if table.null is not None:
            axes.hlines(table.null, position - 0.2, position + 0.2, color=colour, linestyle="--")
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.set_xticks(range(len(labels)), labels)
    axes.set(xlabel="estimator", ylabel=ylabel, xlim=(-0.6, len(labels) - 0.4))
    return figure
