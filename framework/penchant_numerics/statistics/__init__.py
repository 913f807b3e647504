"""Means with errors, nulls, significance, and numbers as text.

Names are loaded on first use: what decides about significance and writes numbers as text needs no
torch, and a command that reads results does not wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penchant_numerics.statistics.rounding import counted, p_text, rounded, short_error
    from penchant_numerics.statistics.significance import (
        LEVEL,
        ErrorTerm,
        both_p_value,
        combined_error,
        few_draws_p_value,
        is_significant,
        mean_p_value,
        p_value,
        significant,
    )
    from penchant_numerics.statistics.statistics import (
        NO_NULL,
        Null,
        Numbers,
        Repetitions,
        accuracy,
        binomial_stderr,
        jackknife,
        mean_and_stderr,
        null_of,
        paired_difference,
        permutation_null,
        random_rotation,
        rank_correlation,
        share_p_value,
        varies,
    )

__all__ = [
    "ErrorTerm",
    "LEVEL",
    "NO_NULL",
    "Null",
    "Numbers",
    "Repetitions",
    "accuracy",
    "binomial_stderr",
    "both_p_value",
    "combined_error",
    "counted",
    "few_draws_p_value",
    "is_significant",
    "jackknife",
    "mean_and_stderr",
    "mean_p_value",
    "null_of",
    "p_text",
    "p_value",
    "paired_difference",
    "permutation_null",
    "random_rotation",
    "rank_correlation",
    "rounded",
    "share_p_value",
    "short_error",
    "significant",
    "varies",
]

_LATER = {
    "rounding": ["counted", "p_text", "rounded", "short_error"],
    "significance": [
        "ErrorTerm",
        "LEVEL",
        "both_p_value",
        "combined_error",
        "few_draws_p_value",
        "is_significant",
        "mean_p_value",
        "p_value",
        "significant",
    ],
    "statistics": [
        "NO_NULL",
        "Null",
        "Numbers",
        "Repetitions",
        "accuracy",
        "binomial_stderr",
        "jackknife",
        "mean_and_stderr",
        "null_of",
        "paired_difference",
        "permutation_null",
        "random_rotation",
        "rank_correlation",
        "share_p_value",
        "varies",
    ],
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
