"""Curves over training with a band of one standard error, where it is known."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes


def curve(
    axes: Axes,
    x: Any,
    values: Any,
    stderr: Any | None,
    *,
    colour: str,
    label: str,
    style: str = "-",
) -> None:
    """A curve, and the band between value minus and plus its standard error."""
    axes.plot(x, values, style, color=colour, label=label)
    if stderr is None:
        return
    low = values - stderr
    high = values + stderr
    if axes.get_yscale() == "log":
        # a logarithmic axis cannot show zero: the band ends far under the curve instead
        low = np.maximum(low, values / 10)
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
