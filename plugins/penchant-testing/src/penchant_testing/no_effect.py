"""Is a null what a network without the effect gives? Counted over a dozen seeds."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penchant_numerics.statistics import LEVEL

from penchant_testing.checks import small_run

SEEDS = range(12)
MOST = 2  # significant runs of a dozen that chance allows: three have a probability of 0.0002


def significant_runs(name: str, folder: Path, arguments: Mapping[str, Any]) -> dict[str, int]:
    """How many of a dozen seeds call each quantity significant.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        arguments: An experiment without the effect: an untrained network, or shuffled labels.

    Returns:
        Quantity to the number of seeds with a p-value of at most 1 %; quantities without a null
        are left out.
    """
    counts: collections.Counter[str] = collections.Counter()
    for seed in SEEDS:
        options = {**arguments, "seed": seed, "figures": False}
        result = small_run(name, folder / str(seed), options)
        for key, quantity in result.quantities.items():
            p = quantity.null_p_value
            if p is not None:
                counts[key] += p <= LEVEL
    return dict(counts)


def check_no_effect(
    name: str, folder: Path, arguments: Mapping[str, Any], effects: Mapping[str, str]
) -> None:
    """Refuse quantities that are significant where there is no effect.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        arguments: An experiment without the effect.
        effects: Quantity to the reason why it differs from its null even so, such as a null that
            is not a statement about training.
    """
    counts = significant_runs(name, folder, arguments)
    unknown = sorted(effects.keys() - counts.keys())
    assert not unknown, f"{name} compares nothing called {unknown} with a null"
    refused = []
    for key, count in counts.items():
        if count > MOST and key not in effects:
            refused.append(f"{key} in {count} of {len(SEEDS)}")
    listed = ", ".join(refused)
    assert not refused, f"{name} calls significant without an effect: {listed}"
