"""Standard deviation s of n numbers; its standard error is s / sqrt(2 n - 2) under normality."""

import numpy as np
import penchant
from penchant_example.declarations import StandardDeviation


def estimate(
    options: StandardDeviation, context: penchant.Context, values: np.ndarray
) -> tuple[float, float]:
    """Estimator of the role `spread`."""
    deviation = values.std(ddof=1)
    # Of the standard deviation itself, not of the mean.
    stderr = deviation / (2 * len(values) - 2) ** 0.5
    return deviation, stderr
