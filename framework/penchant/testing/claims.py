"""Does a standard error say what it claims? Compared with the spread of values over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.testing.checks import small_run

LEAST, MOST = 0.5, 2.0  # ratios of claimed error to spread that are honest
SEEDS = range(12)
# A spread over a dozen seeds is uncertain by a fifth: what they refuse is looked at again.
MORE_SEEDS = range(48)


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
        if self.spread == 0:
            return 1.0 if self.claimed == 0 else float("inf")
        return self.claimed / self.spread

    @property
    def holds(self) -> bool:
        """Is the claim neither boastful nor timid?"""
        return LEAST <= self.ratio <= MOST

    def __str__(self) -> str:
        claimed = f"claimed {self.claimed:.3g}"
        spread = f"spread {self.spread:.3g} over {self.seeds} seeds"
        return f"{self.quantity}: {claimed}, {spread}, ratio {self.ratio:.2f}"


def claims(
    name: str, folder: Path, parts: Mapping[str, Any], seeds: Iterable[int] = SEEDS
) -> list[Claim]:
    """Claimed errors of a probe's quantities beside their spread over seeds.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        parts: What makes it small, as for `conformance`.
        seeds: The seeds.

    Returns:
        One claim for each quantity that has a standard error in every run.
    """
    values: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    for seed in seeds:
        options = {**parts, "seed": seed, "figures": False}
        found = small_run(name, folder / str(seed), options)
        for key, quantity in found.quantities.items():
            if quantity.stderr is not None and not quantity.missing:
                values.setdefault(key, []).append(quantity.value)
                errors.setdefault(key, []).append(quantity.stderr)
    # A quantity that is missing for some seeds has no spread to compare with.
    counts = [len(each) for each in values.values()]
    most = max(counts, default=0)
    compared = []
    for key, each in values.items():
        if len(each) == most and most > 1:
            # Errors vary from run to run; what is claimed is their root mean square.
            squares = [error**2 for error in errors[key]]
            claimed = statistics.fmean(squares) ** 0.5
            spread = statistics.stdev(each)
            compared.append(Claim(key, claimed, spread, most))
    return compared


def check_claims(
    name: str, folder: Path, parts: Mapping[str, Any], unclaimed: Mapping[str, str] | None = None
) -> None:
    """Refuse claimed errors that are far from the spread over seeds.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        parts: What makes it small.
        unclaimed: Quantity to the reason why its error cannot be compared with this spread.
    """
    reasons = dict(unclaimed or {})
    found = claims(name, folder / "few", parts)
    if _wrong(found, reasons):
        found = claims(name, folder / "more", parts, MORE_SEEDS)
    # A reason for what is not there would hide a misspelt name.
    known = {claim.quantity for claim in found}
    unknown = sorted(reasons.keys() - known)
    assert not unknown, f"{name} gives no error of {unknown}, expected one of {sorted(known)}"
    wrong = _wrong(found, reasons)
    listed = "; ".join(wrong)
    assert not wrong, f"{name}: {listed}"


def _wrong(found: Iterable[Claim], reasons: Mapping[str, str]) -> list[str]:
    """The claims that do not hold, but for those with a reason."""
    wrong = []
    for claim in found:
        if claim.quantity not in reasons and not claim.holds:
            wrong.append(str(claim))
    return wrong
