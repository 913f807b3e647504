"""What an estimator of mutual information returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """Mutual information in nats. `value` is from samples that were used neither for training nor for stopping.

    `training` is the same on training samples; `null` is the estimate for shuffled pairs, whose information is 0. Estimators
    that are not trained have no training value of their own: it equals the value.
    """

    value: float
    training: float
    stderr: float
    null: float
    null_stderr: float
    warnings: tuple[str, ...] = ()
    over: str = ""
    count: int = 1
    details: dict[str, Any] = field(default_factory=dict, compare=False)
