"""Does a standard error say what it claims? Compared with the spread of values over seeds."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.results.quantities import Quantity

from penchant_testing.checks import small_run

LEAST, MOST = 0.5, 2.0  # ratios of claimed error to spread that are honest
SEEDS = range(12)
# A spread over a dozen seeds is uncertain by a fifth: what they refuse is checked again with these.
MORE_SEEDS = range(12, 48)


@attrs.frozen
class Claim:
    """A quantity's claimed standard error beside the spread of its value over seeds."""

    quantity: str
    claimed: float
    spread: float
    seeds: int

    @property
    def ratio(self) -> float:
        """Claimed error over spread; 1 where both are rounding."""
        if self.spread == self.claimed == 0:
            return 1.0
        if self.spread == 0:
            return float("inf")
        return self.claimed / self.spread

    @property
    def holds(self) -> bool:
        """Is the stated error within a factor of two of the spread over seeds?"""
        return LEAST <= self.ratio <= MOST

    def __str__(self) -> str:
        facts = [
            f"claimed {self.claimed:.3g}",
            f"spread {self.spread:.3g} over {self.seeds} seeds",
            f"ratio {self.ratio:.2f}",
        ]
        listed = ", ".join(facts)
        return f"{self.quantity}: {listed}"


def claims(
    name: str, folder: Path, arguments: Mapping[str, Any], seeds: Iterable[int] = SEEDS
) -> list[Claim]:
    """Claimed errors of a probe's quantities beside their spread over seeds.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        arguments: What makes it small, as for `conformance`.
        seeds: The seeds.

    Returns:
        One claim for each quantity that has a standard error in at least half of the runs.
    """
    values = _measured(name, folder, arguments, seeds)
    return _compared(values)


def _measured(
    name: str, folder: Path, arguments: Mapping[str, Any], seeds: Iterable[int]
) -> list[dict[str, Quantity]]:
    """Quantities of a small run for each seed."""
    runs = []
    for seed in seeds:
        options = {**arguments, "seed": seed, "figures": False}
        result = small_run(name, folder / str(seed), options)
        runs.append(result.quantities)
    return runs


def _compared(runs: Sequence[Mapping[str, Quantity]]) -> list[Claim]:
    """A claim for each quantity that has a standard error in at least half of the runs."""
    values: dict[str, list[float]] = collections.defaultdict(list)
    errors: dict[str, list[float]] = collections.defaultdict(list)
    for quantities in runs:
        for key, quantity in quantities.items():
            if quantity.stderr is not None and not quantity.missing:
                values[key].append(quantity.value)
                errors[key].append(quantity.stderr)
    compared = []
    for key, each in values.items():
        count = len(each)
        # What is missing for most seeds has no spread to compare with.
        if 2 * count < len(runs) or count < 2:
            continue
        # Errors vary from run to run; what is claimed is their root mean square.
        squares = [error**2 for error in errors[key]]
        claimed = statistics.fmean(squares) ** 0.5
        spread = statistics.stdev(each)
        compared.append(Claim(key, claimed, spread, count))
    return compared


def check_claims(
    name: str,
    folder: Path,
    runs: Sequence[Mapping[str, Any]],
    *,
    expected: Iterable[str] = (),
    unclaimed: Mapping[str, str] | None = None,
) -> None:
    """Refuse claimed errors that are far from the spread over seeds, or never compared with it.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        runs: Arguments of small runs; a quantity is compared in the first that gives its error.
        expected: Quantities with an error, all of which must be compared.
        unclaimed: Quantity to the reason why its error cannot be compared with this spread.
    """
    reasons = dict(unclaimed or {})
    refused: dict[str, Claim] = {}
    for number, arguments in enumerate(runs):
        subfolder = folder / str(number)
        measured = _measured(name, subfolder, arguments, SEEDS)
        new = _others(_compared(measured), refused)
        if _wrong(new.values(), reasons):
            measured += _measured(name, subfolder, arguments, MORE_SEEDS)
            new = _others(_compared(measured), refused)
        refused |= new
    # A reason for what is not there would hide a misspelt name.
    known = refused.keys() | set(expected)
    unknown = sorted(reasons.keys() - known)
    assert not unknown, f"{name} gives no error of {unknown}, expected one of {sorted(known)}"
    # Every error is compared, or says why not.
    lacking = sorted(known - refused.keys() - reasons.keys())
    assert not lacking, f"{name} never compares the errors of {lacking} with a spread over seeds"
    wrong = _wrong(refused.values(), reasons)
    listed = "; ".join(wrong)
    assert not wrong, f"{name}: {listed}"


def _others(claims: Iterable[Claim], known: Mapping[str, Claim]) -> dict[str, Claim]:
    """Claims about quantities that are not known yet."""
    others = {}
    for claim in claims:
        if claim.quantity not in known:
            others[claim.quantity] = claim
    return others


def _wrong(claims: Iterable[Claim], reasons: Mapping[str, str]) -> list[str]:
    """The claims that do not hold, but for those with a reason."""
    wrong = []
    for claim in claims:
        if claim.quantity not in reasons and not claim.holds:
            wrong.append(str(claim))
    return wrong
