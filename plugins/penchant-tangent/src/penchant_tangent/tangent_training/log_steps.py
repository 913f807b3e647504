"""Steps of a training that are spaced evenly on a logarithmic axis."""

from __future__ import annotations


def log_steps(total: int, evaluations: int) -> list[int]:
    """Steps from 0 to `total`, evenly spaced in the logarithm after the first.

    Args:
        total: The last step.
        evaluations: How many there are at most; early ones that would coincide are one.

    Returns:
        The steps, rising.

    >>> log_steps(1000, 5)
    [0, 1, 10, 100, 1000]
    >>> log_steps(1000, 2)
    [0, 1000]
    """
    if total == 0:
        return [0]
    between = evaluations - 2
    steps = {0, total}
    for number in range(between):
        exponent = number / between
        steps.add(round(total**exponent))
    return sorted(steps)
