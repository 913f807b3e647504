"""Targets of benchmarks, with what became of them."""


def at_most(value: float, target: float) -> str:
    """The target, and whether a value that must not be larger meets it.

    >>> at_most(0.59, 0.6)
    '(target: at most 0.6, met)'
    """
    return f"(target: at most {target:g}, {'met' if value <= target else 'missed'})"


def at_least(value: float, target: float) -> str:
    """The target, and whether a value that must not be smaller meets it.

    >>> at_least(1.57, 1.7)
    '(target: at least 1.7, missed)'
    """
    return f"(target: at least {target:g}, {'met' if value >= target else 'missed'})"
