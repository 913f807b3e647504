"""Captions that say what the numbers show, and no more."""

from __future__ import annotations

import penchant
from penchant_numerics.significance import LEVEL


def by_significance(quantity: penchant.Quantity, *, above: str, below: str, neither: str) -> str:
    """The sentence that a number allows: is it significantly above or below its null, or neither?

    Args:
        quantity: The number; it is written behind the sentence.
        above: What is said where it is above its null.
        below: What is said where it is below.
        neither: What is said where the difference is not significant, or cannot be known.

    Returns:
        The sentence with the number and its p-value.
    """
    p = quantity.null_p_value
    if p is None:
        return f"{neither}: {quantity}."
    sentence = neither
    if p <= LEVEL:
        sentence = above if quantity.value > (quantity.null or 0.0) else below
    return f"{sentence}: {quantity}, p = {p:.2g}."
