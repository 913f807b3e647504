"""Test accuracy after something was taken out, against taking out at random."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures.curves import curves


def accuracy_against_random(
    result: penchant.Result, axis: str, *, label: str, xlabel: str
) -> Figure:
    """Both accuracies by how much was taken out.

    Args:
        result: Has the tables `test-accuracy` and `random-test-accuracy`.
        axis: Their axis: how much was taken out.
        label: What was taken out.
        xlabel: Name and unit of the axis.
    """
    tables = {
        label: result.tables["test-accuracy"],
        "at random": result.tables["random-test-accuracy"],
    }
    return curves(tables, x=axis, y="test accuracy", xlabel=xlabel)
