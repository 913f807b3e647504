"""Curves along training: logarithmic in the step, with room for step 0."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

MOST_TICKS = 8


def step_axis(axes: Axes, steps: np.ndarray) -> None:
    """A logarithmic axis that begins at step 0, with few ticks, each at a step that was evaluated.

    Args:
        axes: Where the curves are.
        steps: Steps, ascending.
    """
    axes.set_xscale("symlog", linthresh=1)
    last = max(1, steps[-1])
    axes.set_xlim(-0.2, last * 1.1)
    # Few ticks, each at a step that was evaluated.
    positions = _spread(np.asarray(steps))
    labels = [str(position) for position in positions]
    axes.set_xticks(positions, labels)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("step of training")


def _spread(steps: np.ndarray) -> np.ndarray:
    """At most MOST_TICKS of the steps, evenly in the logarithm, the last one included."""
    # The nearest steps that were evaluated.
    targets = np.geomspace(1, steps[-1] + 1, MOST_TICKS) - 1
    nearest = set()
    for position in targets:
        distances = np.abs(steps - position)
        nearest.add(int(distances.argmin()))
    return steps[sorted(nearest)]
