"""Options that had another name: the old one is taken for one minor version, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import penchant


class RenamedOptions(penchant.Dataset):
    """A dataset some of whose options were called otherwise in 0.1.0.

    Attributes:
        renamed: Old name to new name.
    """

    renamed: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def bind(cls, values: Mapping[str, Any], where: str = "") -> Any:
        """The component with these options, old names included."""
        current = dict(values)
        for old, new in cls.renamed.items():
            if old not in current:
                continue
            if new in current:
                raise penchant.Error(f"{cls.name}: {old} is now called {new}; found both")
            warnings.warn(
                f"{cls.name}: the option {old} is now called {new}; the old name stops working "
                f"in 0.2",
                FutureWarning,
                stacklevel=2,
            )
            current[new] = current.pop(old)
        return super().bind(current, where)
