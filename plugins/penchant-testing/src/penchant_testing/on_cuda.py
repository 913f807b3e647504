"""A probe on a real GPU: runs, gives the same twice, and what it gives on the CPU.

Every conformance test has these under the mark `cuda`, so that one command runs them on a GPU,
`make test-cuda`. Seconds go to the file that `PENCHANT_CUDA_TABLE` names, one line for each run.
With `PENCHANT_CUDA_DEVICE=emulated` the emulated device replaces the GPU, with `emulated-cuda` the
one that is called `cuda`, in a process that was started for it.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penchant.results.quantities import Quantity
from penchant.results.result import Result

from penchant_testing import emulated_cuda
from penchant_testing.builders import experiment, run_unreported
from penchant_testing.checks import CLOSE, assert_same, only_result
from penchant_testing.emulated_device import emulated_device
from penchant_testing.on_device import ROUNDING

TABLE = "PENCHANT_CUDA_TABLE"
DEVICE = "PENCHANT_CUDA_DEVICE"
ERRORS = 6.0  # standard errors by which two honest measurements may differ


EMULATED = {"emulated": "emulated", "emulated-cuda": "cuda"}  # what replaces a GPU, and its name


def is_emulated() -> bool:
    """Does an emulated device replace the GPU?"""
    return os.environ.get(DEVICE) in EMULATED


def tested_device() -> str:
    """The device that tests marked `cuda` run on: a GPU, or the emulated device instead."""
    return EMULATED.get(os.environ.get(DEVICE, ""), "cuda")


def has_tested_device() -> bool:
    """Is it there?"""
    import torch

    if is_emulated():
        return tested_device() != "cuda" or emulated_cuda.is_loaded()
    return bool(torch.cuda.is_available())


@contextlib.contextmanager
def on_tested_device() -> Iterator[str]:
    """The device that tests marked `cuda` run on, for what runs inside."""
    device = tested_device()
    replaced = is_emulated()
    with emulated_device(kind=device, rounding=ROUNDING) if replaced else contextlib.nullcontext():
        yield device


def check_on_cuda(
    name: str, folder: Path, arguments: Mapping[str, Any], expected: Result, *, device: str = "cuda"
) -> None:
    """Run a probe twice on a GPU and compare it with itself and with the CPU.

    Trainings that draw their noise on the GPU have other random numbers there, so what is not
    close must agree within the errors of both.

    Args:
        name: The probe's name.
        folder: Where the runs go.
        arguments: What it is given, and its options.
        expected: Its result on the CPU.
        device: The device.
    """
    problems = []
    for number in range(2):
        raw = experiment(name, arguments)
        raw.update(executor="serial", device=device, figures=False)
        path = folder / str(number)
        problems.append(only_result(run_unreported(raw, path)))
    first, second = problems
    assert_same(first, second, "a second run on the device")
    for key, quantity in expected.quantities.items():
        other = first.quantities[key]
        if quantity.missing and other.missing:
            continue
        far = abs(other.value - quantity.value)
        allowed = _allowed(quantity, other)
        assert far <= allowed, f"{name}: {key} is {other} on the device, {quantity} on the CPU"
    _note(name, expected, second)


def _allowed(first: Quantity, second: Quantity) -> float:
    """How much two measurements of one thing may differ."""
    relative = CLOSE * abs(first.value)
    # An unknown error allows no deviation.
    here = first.stderr or 0.0
    there = second.stderr or 0.0
    errors = math.hypot(here, there)
    return max(relative, ERRORS * errors, 1e-6)


def _note(name: str, here: Result, there: Result) -> None:
    """Add a line to the table: the probe, seconds on the CPU, seconds on the device, their ratio.

    The second run on the device is noted: the first one waits for libraries and kernels to load.
    """
    path = os.environ.get(TABLE)
    if not path:
        return
    slow = here.record["cost"]["seconds"]
    fast = there.record["cost"]["seconds"]
    ratio = slow / max(fast, 1e-3)
    line = f"{name:32} {slow:9.2f} {fast:9.2f} {ratio:8.2f}"
    with Path(path).open("a") as file:
        file.write(f"{line}\n")
