"""The environment of a job: torch's state and limits while it runs, and what results record."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penchant.experiments.settings import Settings
from penchant.plugins.discovery import kernel_version

if TYPE_CHECKING:
    import torch

MOST_DRAWING = 16  # threads that draw networks for one GPU


@contextlib.contextmanager
def isolated(
    settings: Settings, device: torch.device, warn: Callable[[str], None]
) -> Iterator[None]:
    """Threads and policy of a job; afterwards everything is as before.

    Args:
        settings: Threads of torch and of the libraries of linear algebra, precision and memory.
        device: Where the job runs.
        warn: Called with warnings about memory and about algorithms that are not deterministic.

    Yields:
        Nothing: the job runs inside.
    """
    import torch
    from penchant_numerics.device import limited_threads

    with limited_threads(settings.threads), policy(settings, device, warn):
        if device.type == "cuda":
            # The job's largest memory counts from here on.
            torch.cuda.reset_peak_memory_stats(device)
        try:
            yield
        finally:
            # Page-locked memory, which torch would otherwise hold for the next copies to a GPU.
            release = getattr(torch.accelerator, "empty_host_cache", None)
            if device.type == "cuda" and release is not None:
                release()


@contextlib.contextmanager
def policy(settings: Settings, device: torch.device, warn: Callable[[str], None]) -> Iterator[None]:
    """Precision, memory, random state and determinism, the same for every job and shard.

    Args:
        settings: Precision and memory.
        device: Where the job runs.
        warn: Called with warnings about memory and about algorithms that are not deterministic.

    Yields:
        Nothing: the job or shard runs inside.
    """
    from penchant_numerics.device import isolation, memory
    from penchant_numerics.training import ensembles

    budget = None if settings.memory is None else int(settings.memory * 2**30)
    threads = drawing_threads(settings, device)
    ahead, pinned = device.type != "cpu", device.type == "cuda"
    with (
        memory.budget(budget, per_device=settings.per_device),
        ensembles.drawing(threads, ahead=ahead, pinned=pinned),
        isolation.isolated(device, warn, precision=settings.precision),
    ):
        yield


def drawing_threads(settings: Settings, device: torch.device) -> int:
    """Threads that draw networks on the host: the run's own, on CUDA a worker's share of cores.

    Networks are the same whatever their number.
    """
    import torch

    if device.type != "cuda":
        return settings.threads
    workers = settings.workers or torch.cuda.device_count() * settings.per_device
    share = (os.cpu_count() or 1) // max(1, workers)
    return max(settings.threads, min(MOST_DRAWING, share))


def recorded_policy(device: torch.device) -> dict[str, str]:
    """The device and the policy in force, as results record them."""
    from penchant.execution.job import gpus
    from penchant_numerics.device import isolation

    name = str(device)
    return {"device": name, **gpus.identity(name), **gpus.drivers(name), **isolation.flags(device)}


def peak_memory(device: torch.device | None = None) -> int:
    """Largest memory in bytes: of this process, or of a job on a CUDA device."""
    if device is not None and device.type == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    # Bytes on macOS, kilobytes elsewhere.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def environment() -> dict[str, str]:
    """Versions and hardware that the numbers of a run were made with."""
    import numpy
    import torch
    from penchant.execution.job import gpus

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "penchant": kernel_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "cpus": str(os.cpu_count()),
        **gpus.identity(kind),
        **gpus.drivers(kind),
    }
