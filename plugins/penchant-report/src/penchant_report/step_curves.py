"""Curves of quantities over the steps of a trajectory: of every probe that measures one network."""

from __future__ import annotations

from typing import Any

from penchant.results.steps import BY_STEP, STEPS

COLUMNS = 3
SHOWN = 9  # quantities, in the order of the probe's declaration
NAME = "over-steps"


def over_steps(result: Any) -> Any:
    """A panel for each quantity along the steps, with two standard errors and its null."""
    import numpy as np
    from matplotlib.figure import Figure
    from penchant_numerics.pictures import BLUE, FAINT, captioned

    arrays = result.arrays
    names = [name for name in result.quantities if f"{name}{BY_STEP}" in arrays]
    # A number that never changes is no curve.
    varying = [name for name in names if np.ptp(_finite(arrays[f"{name}{BY_STEP}"])) > 0]
    shown = (varying or names)[:SHOWN]
    rows = -(-len(shown) // COLUMNS)
    columns = min(COLUMNS, len(shown))
    figure = Figure(figsize=(3.1 * columns, 2.3 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    steps = arrays[STEPS]
    for axes, name in zip(panels, shown):
        key = f"{name}{BY_STEP}"
        errors = arrays.get(f"{key}-stderr")
        axes.errorbar(
            steps,
            arrays[key],
            yerr=None if errors is None else 2 * errors,
            color=BLUE,
            marker="o",
            markersize=3,
        )
        if f"{key}-null" in arrays:
            axes.plot(steps, arrays[f"{key}-null"], color=FAINT, linestyle="--")
        axes.set_title(name, fontsize="medium")
        _spread(axes, steps)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(shown) - columns) : len(shown)]:
        axes.set_xlabel("step")
        axes.xaxis.set_tick_params(labelbottom=True)
    left = len(names) - len(shown)
    more = f" {left} others are in the arrays." if left else ""
    caption = (
        f"Quantities at {len(steps)} checkpoints of the training; bars are two standard errors, "
        f"dashed lines are nulls.{more}"
    )
    return captioned(figure, caption, title="Along the training")


def _finite(values: Any) -> Any:
    import numpy as np

    known = values[np.isfinite(values)]
    return known if len(known) else np.zeros(1)


def _spread(axes: Any, steps: Any) -> None:
    """Steps that grow by factors have a logarithmic axis, with zero at its left end."""
    positive = steps[steps > 0]
    if len(positive) > 2 and positive.max() > 20 * positive.min():
        axes.set_xscale("symlog", linthresh=float(positive.min()))
        first = float(positive.min())
        axes.set_xlim(left=-first / 4 if steps.min() == 0 else first / 1.3)
        axes.minorticks_off()
