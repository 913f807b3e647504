"""Workers that are Ray tasks: Ray schedules them, reserves devices and reports how they ended."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any

import penchant
import ray

from penchant_ray.declarations import Ray


def connect(options: Ray, workers: int | None = None) -> bool:
    """Join the cluster, or start one as large as the workers need; False where that is done."""
    if ray.is_initialized():
        return False
    address = options.address or "local"
    if address.startswith("ray://"):
        found = f"found address {address!r}; use host:port"
        raise penchant.Error(f"the driver must be a machine of the cluster, {found}")
    cores = None
    if workers and address == "local":
        cores = max(1, round(workers * options.cpus_per_worker))
    stops = signal.getsignal(signal.SIGTERM)
    try:
        # What workers print is in Ray's log files; the driver's terminal is the run's.
        ray.init(
            address=address, num_cpus=cores, log_to_driver=False, logging_level=logging.WARNING
        )
    except Exception as error:  # Ray has no class of its own for a start that fails
        ray.shutdown()
        where = options.address or "this machine"
        raise penchant.Error(f"there is no Ray cluster on {where}: {error}") from error
    # Ray would end the command at SIGTERM, which stops a run in good order.
    with contextlib.suppress(ValueError):  # only the main thread has signals
        signal.signal(signal.SIGTERM, stops)
    return True


def ask(options: Ray, question: Callable[[], Any]) -> Any:
    """The answer of a function where a worker would run."""
    connected = connect(options)
    try:
        return ray.get(_remote(options).remote(pickle.dumps(question), (), {}, sys.path))
    finally:
        if connected:
            ray.shutdown()


def _remote(options: Ray) -> Any:
    resources = {"num_cpus": options.cpus_per_worker, "num_gpus": options.gpus_per_worker}
    # The kernel starts another worker for one that died, and notes how it died.
    return ray.remote(_call).options(max_retries=0, scheduling_strategy="SPREAD", **resources)


def _call(function: bytes, arguments: Any, environment: dict[str, str], path: list[str]) -> Any:
    """Call a function on a machine of the cluster, with modules and variables of the command."""
    os.environ.update(environment)
    sys.path.extend(folder for folder in path if folder not in sys.path)
    return pickle.loads(function)(*arguments)


class RayWorkers:
    """Ray tasks as workers: `penchant.Executor` describes the methods."""

    def __init__(
        self, options: Ray, work: Callable[[int], None], workers: int | None, threads: int
    ) -> None:
        self._connected = connect(options, workers)
        has = ray.cluster_resources()
        room = has.get("CPU", 1.0) / options.cpus_per_worker
        if options.gpus_per_worker:
            room = min(room, has.get("GPU", 0.0) / options.gpus_per_worker)
        if room < 1:
            raise penchant.Error(f"the cluster has no room for a worker: {has}")
        self.size = workers or int(room)
        self._remote = _remote(options)
        self._work = ray.put(pickle.dumps(work))
        own = {name: text for name, text in os.environ.items() if name.startswith("PENCHANT_")}
        count = str(threads)
        self._environment = {**own, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
        self._running: dict[Any, int] = {}

    def start(self, number: int) -> None:
        """Submit a worker; it begins when there is room for it."""
        task = self._remote.remote(self._work, (number,), self._environment, sys.path)
        self._running[task] = number

    def ended(self) -> dict[int, str | Exception]:
        """Workers that ended since the last call."""
        tasks = list(self._running)
        done, _ = ray.wait(tasks, num_returns=len(tasks), timeout=0) if tasks else ([], [])
        return {self._running.pop(task): _ending(task) for task in done}

    def stop(self) -> None:
        """End all workers, and leave a cluster that was joined for them."""
        for task in self._running:
            with contextlib.suppress(ray.exceptions.RayError, ValueError):
                ray.cancel(task, force=True)
        if self._connected:
            ray.shutdown()


def _ending(task: Any) -> str | Exception:
    """What a worker raised, or how it died; empty where it returned."""
    try:
        ray.get(task)
    except ray.exceptions.RayTaskError as error:
        return error.cause if isinstance(error.cause, Exception) else error
    except ray.exceptions.RayError as error:
        reason, _, _ = str(error).partition("\n")
        return f"{type(error).__name__}: {reason}"
    return ""
