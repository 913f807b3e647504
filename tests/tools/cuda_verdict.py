"""Everything marked `cuda`, a verdict in one sentence, and two tables of seconds.

Run it with `make test-cuda` on a machine with a GPU. The first table is of small problems, on which
a GPU need not win: it shows a probe that takes far longer there than on the CPU. The second is of
real sizes, with the most bytes alive. Warnings are shown and fail nothing. All of it goes to the
file `cuda-report.txt` as well, which can be attached to a report of a problem.

    $ python tests/tools/cuda_verdict.py --device emulated-cuda    # emulated devices called cuda
    $ python tests/tools/cuda_verdict.py --device emulated         # those called emulated

Where the device is called `cuda`, a third table lists the code that runs on CUDA only, and the
first test that reaches it; with all tests selected, code that none reaches is a failure.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuda_lines
import cuda_sizes
import pytest
import torch
from penchant.execution.job import gpus
from penchant.plugins.discovery import kernel_version
from penchant_testing import emulated_cuda, on_cuda

ROOT = Path(__file__).resolve().parents[2]
REPORT = "cuda-report.txt"
HEAD = f"{'probe':32} {'CPU s':>9} {'GPU s':>9} {'CPU/GPU':>8}"
NO_DEVICE = 2  # the exit code where there is no GPU
EMULATED = "emulated-cuda"
LONGEST = 160  # characters of a warning
BUILD = "cu126"  # of torch, for most drivers and GPUs


class Report:
    """Prints lines, and writes them to the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    def say(self, *lines: str, printed: bool = True) -> None:
        """Add lines to the report."""
        text = "".join(f"{line}\n" for line in lines)
        if printed:
            sys.stdout.write(text)
            sys.stdout.flush()
        with self.path.open("a") as file:
            file.write(text)


class Watch:
    """A plugin of pytest: failures in full, warnings once each, and how many tests there were."""

    def __init__(self) -> None:
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.warnings: collections.Counter[str] = collections.Counter()

    def pytest_sessionstart(self, session: Any) -> None:
        """Note the session, which may have to be stopped."""
        self.session = session

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how a test ended."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1
        if report.failed:
            self.failures.append(f"FAILED {report.nodeid}\n{report.longreprtext}")
            # A device that failed fails everything after it in this process.
            if "AcceleratorError" in report.longreprtext:
                self.session.shouldstop = f"the device failed in {report.nodeid}"
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self.failures.append(f"SKIPPED {report.nodeid}: {reason}")

    def pytest_collectreport(self, report: Any) -> None:
        """Note a file that could not be imported: its tests are missing from the verdict."""
        if report.failed:
            self.outcomes["not collected"] += 1
            self.failures.append(f"NOT COLLECTED {report.nodeid}\n{report.longreprtext}")

    def pytest_warning_recorded(self, warning_message: Any) -> None:
        """Note a warning by its first line."""
        first, _, _ = str(warning_message.message).partition("\n")
        self.warnings[f"{warning_message.category.__name__}: {first[:LONGEST]}"] += 1


def machine(device: str) -> Iterator[str]:
    """Versions, GPU and capability."""
    facts = gpus.known()
    yield f"penchant {kernel_version()}, torch {facts.torch}, Python {platform.python_version()}"
    yield f"{platform.platform()}, {os.cpu_count()} cores"
    yield f"CUDA of the build {facts.build}, kernels for {', '.join(facts.architectures) or 'none'}"
    yield f"driver {facts.driver or 'none'}, which supports CUDA {facts.supported or 'none'}"
    if device != "cuda":
        yield f"device: {device}, in the place of a GPU"
        return
    for number in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(number)
        size = found.total_memory / 2**30
        yield f"cuda:{number} {found.name}, capability {found.major}.{found.minor}, {size:.1f} GiB"
    yield f"cuDNN {torch.backends.cudnn.version()}"


def another_build() -> Iterator[str]:
    """How to install another build of torch, where the build is the reason."""
    packages = []
    for name in ("torch", "torchvision"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version, _, _ = importlib.metadata.version(name).partition("+")
            packages.append(f"{name}=={version}+{BUILD}")
    index = f"https://download.pytorch.org/whl/{BUILD}"
    command = f"{sys.executable} -m pip install {' '.join(packages)} --extra-index-url {index}"
    yield f"for example, for most drivers and GPUs: {command}"


def run_tests(table: Path, selected: list[str], *, processes: int = 1) -> tuple[int, Watch]:
    """Run what is marked `cuda`; warnings are errors nowhere."""
    os.environ[on_cuda.TABLE] = str(table)
    watch = Watch()
    options = ["-q", "-p", "no:cacheprovider", "-m", "cuda", "-W", "default", "-p", "cuda_lines"]
    several = ["-n", str(processes), "--dist", "worksteal"]
    options += several if processes > 1 else ["-p", "no:xdist"]
    # A package that cannot be imported costs its own tests only.
    options.append("--continue-on-collection-errors")
    if not selected:
        os.chdir(ROOT)  # where pytest finds its settings and all tests
    code = pytest.main([*options, *selected], plugins=[watch])
    return int(code), watch


def main() -> int:
    """Run the tests; the exit code is pytest's, or 2 where there is no GPU."""
    parser = argparse.ArgumentParser(description="tests on a GPU, with a verdict")
    parser.add_argument("--device", choices=("cuda", *on_cuda.EMULATED), default="cuda")
    parser.add_argument("--processes", type=int, default=1, help="of tests; a GPU takes one")
    parser.add_argument("--report", type=Path, default=Path(REPORT))
    parser.add_argument("tests", nargs="*", help="files or options for pytest; all without any")
    given = parser.parse_args()
    report = Report(given.report.resolve())
    report.say(*machine(given.device))
    reason = _obstacle(given.device)
    if reason is not None:
        report.say(f"no verdict: {reason}")
        if "pytorch.org" in reason:
            report.say(*another_build())
        if given.device == "cuda":
            report.say(f"without a GPU, on emulated ones: make test-cuda DEVICE={EMULATED}")
        return NO_DEVICE
    os.environ[on_cuda.DEVICE] = given.device
    if given.device == EMULATED and not emulated_cuda.is_loaded():
        # from the start, because torch looks for CUDA only once
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.argv], emulated_cuda.environment())

    start = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="penchant-cuda-"))
    table, reached = folder / "table.txt", folder / "lines.txt"
    if on_cuda.tested_device() == "cuda":
        os.environ[cuda_lines.FILE] = str(reached)
    code, watch = run_tests(table, given.tests, processes=given.processes)
    report.say(*watch.failures, printed=False)
    lines = sorted(table.read_text().splitlines()) if table.is_file() else []
    report.say("", HEAD, *lines, "", cuda_sizes.HEAD)
    with on_cuda.on_tested_device() as device:
        for line in cuda_sizes.table(device):
            report.say(line)
            if line.startswith(cuda_sizes.FAILED):
                code = code or 1
    if on_cuda.tested_device() == "cuda":
        rows, unreached = cuda_lines.table(reached)
        report.say("", cuda_lines.HEAD, *rows)
        if unreached and not given.tests:
            code = code or 1
    total = watch.warnings.total()
    report.say("", f"{total} warnings" + (":" if total else ""))
    report.say(*(f"{count:5} x {text}" for text, count in watch.warnings.most_common()))
    report.say("", _verdict(code, watch, given.device, time.perf_counter() - start))
    report.say(f"everything above, and every failure in full, is in {report.path}")
    return code


def _obstacle(device: str) -> str | None:
    """Why there is no such device here; None where there is."""
    if device == "cuda":
        return gpus.obstacle(gpus.known())
    return emulated_cuda.obstacle() if device == EMULATED else None


def _verdict(code: int, watch: Watch, device: str, seconds: float) -> str:
    name = torch.cuda.get_device_name(0) if device == "cuda" else f"the {device} device"
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(watch.outcomes.items()))
    known = {0: "everything conforms", 1: "some tests fail", 5: "no test was selected"}
    verdict = known.get(code, "the tests were stopped before their end")
    return f"verdict on {name}, torch {torch.__version__}: {verdict} ({counts}, {seconds:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
