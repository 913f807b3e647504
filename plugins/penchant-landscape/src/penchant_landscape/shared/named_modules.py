"""The option `parameters`: groups of parameters that are measured by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import penchant
from penchant_numerics.jacobians import Modules


def named_modules(patterns: Sequence[str], context: penchant.Context) -> Modules | None:
    """The modules that patterns name; None without any. What names nothing is refused.

    Args:
        patterns: Of the option `parameters`.
        context: Has the network whose names are meant.
    """
    if not patterns:
        return None
    try:
        return Modules.of(context.network(), patterns)
    except ValueError as error:
        raise penchant.Error(f"parameters: {error}") from None
