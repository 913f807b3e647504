"""Masked arrays, whose mask torch does not keep."""

from __future__ import annotations

from typing import Any

from penchant.errors import Error


def check_unmasked(value: Any, what: str) -> None:
    """Refuse an array of `numpy.ma`: the values behind its mask would be measured."""
    import numpy as np

    if isinstance(value, np.ma.MaskedArray):
        count = int(np.ma.getmaskarray(value).sum())
        hint = "leave out samples that are masked, or give .filled(0), which is an array"
        raise Error(f"{what} are a masked array with {count} of {value.size} values masked: {hint}")
