"""Test accuracy after something was taken out, against taking out at random."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import Curve, by_index


def accuracy_against_random(
    result: penchant.Result, positions: np.ndarray, *, label: str, xlabel: str
) -> Figure:
    """Both accuracies by how much was taken out.

    Args:
        result: Has `test-accuracy` and `random-test-accuracy`.
        positions: How much was taken out.
        label: What was taken out.
        xlabel: Name and unit of the positions.
    """
    arrays = result.arrays
    labels = {"test-accuracy": label, "random-test-accuracy": "at random"}
    curves = {}
    for name, text in labels.items():
        stderr = arrays[f"{name}-stderr"]
        curves[text] = Curve(arrays[name], stderr)
    return by_index(positions, curves, xlabel=xlabel, ylabel="test accuracy")
