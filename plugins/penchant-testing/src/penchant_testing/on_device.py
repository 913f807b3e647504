"""A probe on the emulated device, under the rules of CUDA and its libraries.

Launches, waits, copies and bytes go to the file that `PENCHANT_DEVICE_TABLE` names, one row of a
Markdown table for each run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penchant.results.result import Result

from penchant_testing.builders import experiment, run_unreported
from penchant_testing.checks import CLOSE, only_result
from penchant_testing.emulated_device import NAME, Counts, emulated_device

TABLE = "PENCHANT_DEVICE_TABLE"
HEAD = "| probe | launches | waits | copies | nondeterministic operators | peak bytes |"
LIMIT = 64 * 2**20  # bytes that a small run may hold
ROUNDING = 4  # units in the last place


def check_on_device(
    name: str, folder: Path, arguments: Mapping[str, Any], expected: Result
) -> Counts:
    """Runs on an emulated device, and gives the numbers it gives on the CPU.

    The device has 64 MiB, rounds otherwise than the CPU, and every operator must have a
    deterministic kernel on CUDA.

    Args:
        name: The probe's name.
        folder: The run folder.
        arguments: What it is given, and its options.
        expected: Its result on the CPU.

    Returns:
        What was counted on the device.
    """
    raw = experiment(name, arguments)
    raw.update(executor="serial", device=NAME, figures=False)
    with emulated_device(limit=LIMIT, rounding=ROUNDING) as counts:
        result = only_result(run_unreported(raw, folder))
    # Without inputs there need be nothing to compute there.
    if expected.shape:
        assert counts.launches, f"{name} launched nothing on the device"
    unordered = ", ".join(f"{kind} in {line}" for kind, line in counts.nondeterministic)
    assert not unordered, f"{name} calls what has no deterministic kernel on CUDA: {unordered}"
    for key, quantity in expected.quantities.items():
        other = result.quantities[key]
        if quantity.missing and other.missing:
            continue
        # Close in itself, or compared with its error: chunks are summed in another order.
        relative = CLOSE * abs(quantity.value)
        uncertain = 0.2 * (quantity.stderr or 0.0)
        tolerance = max(relative, uncertain, 1e-6)
        far = abs(other.value - quantity.value)
        assert far <= tolerance, f"{name}: {key} is {other} on the device, {quantity} on the CPU"
    _note(name, counts)
    return counts


def _note(name: str, counts: Counts) -> None:
    """Add a row to the table."""
    table = os.environ.get(TABLE)
    if not table:
        return
    numbers = [
        counts.launches,
        counts.waits,
        counts.transfers,
        counts.nondeterministic.total(),
        counts.memory.peak,
    ]
    path = Path(table)
    head = "" if path.exists() else f"{HEAD}\n|---|--:|--:|--:|--:|--:|\n"
    cells = " | ".join(f"{number:,}" for number in numbers)
    with path.open("a") as file:
        file.write(f"{head}| {name} | {cells} |\n")
