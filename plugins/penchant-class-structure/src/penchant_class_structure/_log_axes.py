"""Log axes with few ticks and plain labels: figures have many panels, and most of the time of drawing goes into ticks."""

from __future__ import annotations

from typing import Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator


def few_ticks(*axes: Any) -> None:
    """Make both axes of each, where they are logarithmic, show at most a handful of powers of ten, or of one, two and five of them."""
    for each in axes:
        for axis in (each.xaxis, each.yaxis):
            if axis.get_scale() != "log":
                continue
            low, high = axis.get_view_interval()
            narrow = low > 0 and high / low < 100
            axis.set_major_locator(
                LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,), numticks=5)
            )
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
