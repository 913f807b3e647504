"""Legends that hide nothing: beside a panel, not on its curves."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes


def legend_beside(panel: Axes, **how: Any) -> None:
    """Put the legend of a panel to its right, where a constrained layout makes room for it."""
    panel.legend(loc="upper left", bbox_to_anchor=(1.02, 1), **how)
