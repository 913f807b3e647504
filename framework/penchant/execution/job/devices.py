"""The device of a job: resolved once, from what the experiment says and the number of a worker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penchant.errors import Error
from penchant.experiments.jobs import Job
from penchant.experiments.settings import Settings

if TYPE_CHECKING:
    import torch


def resolve_device(setting: str, worker: int = 0) -> torch.device:
    """The device of a worker: auto, cpu, cuda or cuda:N; without a number, worker i takes i."""
    import torch

    if setting == "auto":
        setting = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = setting.partition(":")
    # The last is one that a test emulates.
    kinds = ("cpu", "cuda", torch._C._get_privateuse1_backend_name())
    if kind not in kinds or (number and not number.isdigit()):
        raise Error(f"device must be auto, cpu, cuda or cuda:N, found {setting!r}")
    if kind != "cuda":
        return torch.device(setting)
    if not torch.cuda.is_available():
        from penchant.execution.job import gpus

        reason = gpus.obstacle(gpus.known())
        raise Error(f"device {setting!r} is not available: {reason}; or use device = 'cpu'")
    count = torch.cuda.device_count()
    if number and int(number) >= count:
        available = f"there are {count} CUDA devices, numbered from 0"
        raise Error(f"device {setting!r} is not available: {available}")
    return torch.device(kind, int(number) if number else worker % count)


def worker_device(job: Job, worker: int = 0) -> torch.device:
    """The device of a worker, which must be of the kind that the job's result will name."""
    device = resolve_device(job.settings.device, worker)
    expected = job.record["device"]
    if device.type != expected:
        raise Error(f"a worker has the device {device.type}, expected {expected}")
    return device


def job_device(setting: str) -> tuple[str, dict[str, str]]:
    """What the keys of jobs say of a setting: the kind of device, and which GPU."""
    from penchant.execution.job import gpus

    kind = resolve_device(setting).type
    # Workers share all devices of a kind unless one is named.
    return kind, gpus.identity(setting if ":" in setting else kind)


def default_workers(settings: Settings) -> int:
    """Number of workers where none is given: one per core, on CUDA `per_device` per GPU."""
    import torch

    if resolve_device(settings.device).type != "cuda":
        return os.cpu_count() or 1
    # A device that is named by its number is one; without a number all are used.
    devices = 1 if settings.device.startswith("cuda:") else torch.cuda.device_count()
    return devices * settings.per_device
