"""Names of estimators in results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def labels_of(estimators: Sequence[Any]) -> list[str]:
    """Their names; one that is given twice (with other options) gets a number: mine, mine-2."""
    seen: Counter[str] = Counter()
    labels = []
    for each in estimators:
        seen[each.name] += 1
        labels.append(each.name if seen[each.name] == 1 else f"{each.name}-{seen[each.name]}")
    return labels
