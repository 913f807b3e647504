"""Three findings of the atlas, each computed from its numbers and stated with its error."""

from __future__ import annotations

import math
from typing import Any

import penchant
from penchant_numerics.statistics import rounded, short_error, significant

FEW = 256  # of 1024 pixels
# Probes that some architectures have over more networks, and the label of these jobs.
MORE_NETWORKS = {"nad": "nad-100", "average-geometry": "average-geometry-100"}
Numbers = dict[str, float]


def findings(whole: dict[str, Any]) -> list[str]:
    """Sentences, the architecture's numbers in each as they were measured."""
    return [_low_frequencies(whole), _gradient_sizes(whole), _blind(whole)]


def _low_frequencies(whole: dict[str, Any]) -> str:
    """Who prefers slow waves, and who does not."""
    shares = quantities_of(whole, "average-geometry", "low-frequencies")
    decided = significant([penchant.Quantity(**share).null_p_value for share in shares.values()])
    differ = [label for label, differs in zip(shares, decided, strict=True) if differs]
    above = [label for label in differ if shares[label]["value"] > shares[label]["null"]]
    below = [label for label in differ if label not in above]
    above.sort(key=lambda label: -shares[label]["value"])
    below.sort(key=lambda label: shares[label]["value"])
    null = next(iter(shares.values()))["null"]
    text = (
        f"**A preference for low frequencies is the exception.** Without one, {null:.3f} of the"
        f" squared gradient lies in waves of eight pixels or longer. {len(above)} of {len(shares)}"
        f" architectures have significantly more (1 % level, corrected for {len(shares)}):"
        f" {_listed(above, shares)}."
    )
    if below:
        has = "has" if len(below) == 1 else "have"
        text += f" {len(below)} {has} less: {_listed(below, shares)}."
    average, largest = shares["lenet-average"], shares["lenet-max"]
    return (
        f"{text} For LeNet the pooling decides: it has {_text(average)} with average pooling,"
        f" and {_text(largest)} with max pooling."
    )


def _gradient_sizes(whole: dict[str, Any]) -> str:
    """How differently outputs react to their input."""
    sizes = quantities_of(whole, "nad", "trace")
    order = sorted(sizes, key=lambda label: sizes[label]["value"])
    smallest, largest = sizes[order[0]], sizes[order[-1]]
    orders = math.log10(largest["value"] / smallest["value"])
    return (
        f"**Before training, outputs of published networks react to their input with strengths that"
        f" lie {orders:.0f} orders of magnitude apart.**"
        f" The mean squared gradient is {_text(smallest)} for {order[0]} and {_text(largest)} for"
        f" {order[-1]}, each at the default initialisation and with batch-norm at its first running"
        " statistics."
    )


def _blind(whole: dict[str, Any]) -> str:
    """Whose outputs depend on few pixels."""
    ranks = quantities_of(whole, "nad", "effective-rank")
    seen = {label: entry["seen"] for label, entry in whole.items()}
    few = sorted((label for label in seen if seen[label] < FEW), key=lambda label: seen[label])
    each = []
    for label in few:
        rank = ranks[label]
        each.append(f"{label} {seen[label]} (rank of NADs {_text(rank)}, null {_null(rank)})")
    return (
        f"**{len(few)} of {len(whole)} architectures are all but blind before training.** Of 1024"
        f" pixels, the outputs of 24 networks at the point they share depend on: {'; '.join(each)}."
        " Published initialisations set the last batch-norm weight of a residual branch to zero;"
        " only shortcuts are left, and a shortcut of stride two that has one pixel looks at one"
        f" pixel of four. With these weights drawn (`zero_init_last=false`) {_with_branches(seen)}."
        " Directions of blind networks are corners of the image, not waves."
    )


def _with_branches(seen: dict[str, int]) -> str:
    """What the same networks see whose branches are not silent."""
    found = {label: count for label, count in seen.items() if label.endswith("-all-branches")}
    return ", ".join(
        f"{label.removesuffix('-all-branches')} sees {found[label]}" for label in found
    )


def probe_of(entry: dict[str, Any], probe: str) -> str:
    """The probe over the most networks that an architecture has."""
    more = MORE_NETWORKS.get(probe, probe)
    return more if "quantities" in entry.get(more, {}) else probe


def quantities_of(whole: dict[str, Any], probe: str, name: str) -> dict[str, Numbers]:
    """A quantity of every architecture that has it, over the most networks that there are."""
    found = {}
    for label, entry in whole.items():
        best = entry[probe_of(entry, probe)]
        if "error" not in best:
            found[label] = best["quantities"][name]
    return found


def _text(numbers: Numbers) -> str:
    value, error = numbers["value"], numbers["stderr"]
    return f"{rounded(value, error)} ± {short_error(error, value)}"


def _null(numbers: Numbers) -> str:
    null, spread = numbers["null"], numbers["null_spread"]
    return f"{rounded(null, spread)} ± {short_error(spread, null)}"


def _listed(labels: list[str], shares: dict[str, Numbers]) -> str:
    return ", ".join(f"{label} ({_text(shares[label])})" for label in labels)
