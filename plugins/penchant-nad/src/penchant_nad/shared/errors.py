"""Which error of an accuracy a figure can show."""

from __future__ import annotations

import numpy as np
import penchant


def known_error(result: penchant.Result, name: str) -> np.ndarray | None:
    """The standard error of an array; of one training, the error over samples only."""
    arrays = result.arrays
    of_samples = arrays.get(f"{name}-sampling")
    return arrays.get(f"{name}-stderr", of_samples)
