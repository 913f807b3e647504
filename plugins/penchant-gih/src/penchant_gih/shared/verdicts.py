"""What a caption may say of a quantity: a difference from its null only where there is one."""

from __future__ import annotations

import penchant
from penchant_numerics.significance import LEVEL


def is_significant(quantity: penchant.Quantity) -> bool:
    """Whether the value differs from its null at the level of 1 %."""
    p = quantity.null_p_value
    return p is not None and p <= LEVEL


def with_verdict(quantity: penchant.Quantity) -> str:
    """The value with its error, and whether it differs significantly from its null."""
    verdict = "significant" if is_significant(quantity) else "not significant"
    return f"{quantity} ({verdict} at 1 %)"
