"""What a caption may say of a quantity: a difference from its null only where there is one."""

from __future__ import annotations

import penchant


def with_verdict(quantity: penchant.Quantity) -> str:
    """The value with its error, and whether it differs significantly from its null."""
    verdict = "significant" if quantity.is_significant else "not significant"
    return f"{quantity} ({verdict} at 1 %)"
