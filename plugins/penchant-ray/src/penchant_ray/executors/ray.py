"""Workers that are Ray actors.

Ray places them, carries items and what they share, and says how they died. What a worker says, its
answers included, comes through a connection of its own to the driver.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import secrets
import sys
import threading
import time
import warnings
from multiprocessing.connection import Client, Connection, Listener, Pipe, wait
from typing import Any

import penchant
import ray

from penchant_ray.declarations import Ray

SECONDS_TO_START = 120.0  # without a single worker, until somebody is told
SECONDS_TO_EXPLAIN = 10.0  # that Ray is given to find out how a worker died
TRIES = 3  # to start a cluster here: a busy machine may need longer than Ray waits
BACKLOG = 128  # workers that may connect at the same moment
NODE_LOST = ("node has died", "node was terminated", "node died", "NODE_DIED", "preempted")


def start(options: Ray, workers: int | None, threads: int) -> RayStaff:
    """Connect to a cluster, or start one on this machine.

    Args:
        options: Where it is, and what a worker is given of it.
        workers: How many workers; by default as many as the cluster has room for.
        threads: Threads of each.

    Returns:
        What hires workers.
    """
    if options.address and options.address.startswith("ray://"):
        found = f"found address {options.address!r}"
        raise penchant.Error(f"the driver must be a machine of the cluster, {found}; use host:port")
    ours = not ray.is_initialized()
    if ours:
        _connect(options, workers)
    size = workers or _room(options)
    return RayStaff(options, size, threads, ours=ours)


def _connect(options: Ray, workers: int | None) -> None:
    """Join the cluster; one on this machine is made as large as the workers need."""
    cores = None
    if options.address is None and workers is not None:
        cores = max(1, round(workers * options.cpus_per_worker))
    # What workers print is in Ray's log files; the driver's terminal is the run's.
    arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    tries = 1
    if options.address is None:
        arguments |= {"address": "local", "num_cpus": cores}
        tries = TRIES
    else:
        arguments |= {"address": options.address}
    for left in reversed(range(tries)):
        try:
            ray.init(**arguments)
            return
        except Exception as error:  # Ray has no class of its own for a start that fails
            ray.shutdown()
            if left:
                continue
            where = options.address or "this machine"
            raise penchant.Error(f"there is no Ray cluster on {where}: {error}") from error


def _room(options: Ray) -> int:
    """How many workers the cluster has room for."""
    resources = ray.cluster_resources()
    room = resources.get("CPU", 1.0) / options.cpus_per_worker
    if options.gpus_per_worker:
        devices = resources.get("GPU", 0.0)
        room = min(room, devices / options.gpus_per_worker)
    if room < 1:
        asked = f"{options.cpus_per_worker:g} cores and {options.gpus_per_worker:g} devices"
        raise penchant.Error(f"the cluster has no room for a worker with {asked}: {resources}")
    return int(room)


class RayStaff:
    """Starts workers on the machines of a cluster."""

    def __init__(self, options: Ray, size: int, threads: int, *, ours: bool) -> None:
        self.size = size
        self._options = options
        self._threads = threads
        self._ours = ours
        self._began = time.monotonic()
        self._tickets = itertools.count()
        self._expected: dict[int, RayWorker] = {}
        # Workers connect to this machine; only those that know the key are let in.
        host = "127.0.0.1" if options.address is None else ray.util.get_node_ip_address()
        self._key = secrets.token_bytes(32)
        self._listener = Listener((host, 0), backlog=BACKLOG, authkey=self._key)
        self._woken, self._wake = Pipe(duplex=False)
        self._closed = False
        threading.Thread(target=self._welcome, daemon=True).start()

    def hire(self, index: int, bench: Any) -> RayWorker:
        """Ask Ray for a worker; it connects when there is room for it."""
        ticket = next(self._tickets)
        door = (self._listener.address, self._key, ticket)
        resources = {
            "num_cpus": self._options.cpus_per_worker,
            "num_gpus": self._options.gpus_per_worker,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
        }
        desk = ray.remote(Desk).options(**resources)
        environment = _environment(self._threads)
        surroundings = (environment, list(sys.path))
        actor = desk.remote(door, index, self._threads, surroundings, pickle.dumps(bench))
        worker = RayWorker(actor, index)
        self._expected[ticket] = worker
        return worker

    def share(self, data: bytes) -> Any:
        """Put bytes into the object store, once for all workers."""
        return ray.put(data)

    def ready(self, workers: list[RayWorker], seconds: float) -> list[RayWorker]:
        """Workers that have something to say; one that connects in the meantime is heard next."""
        found: dict[Any, RayWorker] = {}
        for worker in workers:
            if worker.connection is not None:
                found[worker.connection] = worker
        if workers and not found:
            self._warn_without_workers()
        else:
            # Counted from the last worker: one that dies late is not a cluster without room.
            self._began = time.monotonic()
        heard = wait([self._woken, *found], seconds)
        if self._woken in heard:
            self._woken.recv_bytes()
        return [found[connection] for connection in heard if connection in found]

    def _warn_without_workers(self) -> None:
        """Say so where a run waits for a cluster that has no room."""
        waited = time.monotonic() - self._began
        if waited < SECONDS_TO_START:
            return
        # It is said again after as long.
        self._began = time.monotonic()
        asked = f"{self._options.cpus_per_worker:g} cores, {self._options.gpus_per_worker:g} GPUs"
        free = ray.available_resources()
        warnings.warn(f"no worker has started yet: each needs {asked}, free {free}", stacklevel=2)

    def _welcome(self) -> None:
        """Let workers in, as long as the staff is there."""
        while not self._closed:
            try:
                connection = self._listener.accept()
                ticket = connection.recv()
            except Exception:  # a stranger, or a worker that died at the door
                continue
            worker = self._expected.pop(ticket, None)
            if worker is None or worker.stopped:
                connection.close()
                continue
            worker.connection = connection
            self._wake.send_bytes(b"!")

    def close(self) -> None:
        """Leave the cluster; one that was started here is stopped."""
        self._closed = True
        # Whoever waits for workers is woken by a last visitor.
        with contextlib.suppress(Exception):
            Client(self._listener.address, authkey=self._key).close()
        self._listener.close()
        if self._ours:
            ray.shutdown()


class RayWorker:
    """An actor, and the connection it makes when it has started."""

    def __init__(self, actor: Any, index: int) -> None:
        self.connection: Connection | None = None
        self.stopped = False
        self.blameless = False
        self._actor = actor
        self._index = index
        # Ends when the worker does; later, the call that it is busy with.
        self._call = actor.__ray_ready__.remote()

    def give(self, shared: Any, task: bytes) -> None:
        """Call the actor with an item; inside a list, what is shared stays in the store."""
        self._call = self._actor.work.remote([shared], task)

    def send(self, message: tuple[Any, ...]) -> None:
        """Tell the worker something."""
        # One that died in the meantime is noticed when its answer is awaited.
        with contextlib.suppress(OSError):
            assert self.connection is not None
            self.connection.send(message)

    def receive(self) -> Any:
        """What the worker says."""
        assert self.connection is not None
        return self.connection.recv()

    def ended(self) -> bool:
        """Has Ray noticed that the actor died, as when a machine has gone?"""
        done, _ = ray.wait([self._call], timeout=0)
        if not done:
            return False
        return self._death() is not None

    def _death(self, seconds: float = 0.0) -> Exception | None:
        try:
            ray.get(self._call, timeout=seconds)
        except ray.exceptions.GetTimeoutError:
            return None
        except ray.exceptions.RayError as error:
            return error
        return None

    def leave(self) -> None:
        """Ray ends it."""

    def stop(self, patience: float = 1.0) -> str:
        """End the actor; returns how it ended, where it had ended before."""
        self.stopped = True
        how = "stopped"
        # Without patience nobody asks: the worker is stopped in the middle of its work.
        if patience:
            seconds = SECONDS_TO_EXPLAIN if self._is_cut() else 0.0
            error = self._death(seconds)
            text = "connection lost" if error is None else str(error)
            self.blameless = any(sign in text for sign in NODE_LOST)
            how = _shortened(text)
        if self.connection is not None:
            self.connection.close()
        with contextlib.suppress(ray.exceptions.RayError, ValueError):
            ray.kill(self._actor, no_restart=True)
        return how

    def _is_cut(self) -> bool:
        """Has the other end of the connection gone?"""
        if self.connection is None or self.connection.closed:
            return False
        try:
            # Whoever has died says nothing, and is readable for ever.
            return self.connection.poll(0) and not self.connection.recv()
        except (EOFError, OSError):
            return True


def _shortened(text: str) -> str:
    """The lines of Ray's message that say something about this death."""
    lines = [line.strip() for line in text.splitlines()]
    telling = []
    for line in lines:
        if "exit" in line or "node" in line or "memory" in line:
            telling.append(line)
    # Where no line tells anything, the first ones stand.
    chosen = telling or lines
    return " ".join(chosen[:2])[:300]


def _environment(threads: int) -> dict[str, str]:
    """What a worker's libraries read, wherever it runs."""
    found = {}
    for name, value in os.environ.items():
        if name.startswith("PENCHANT_"):
            found[name] = value
    # Cores are shared with other workers.
    found["OMP_NUM_THREADS"] = str(threads)
    found["OPENBLAS_NUM_THREADS"] = str(threads)
    return found


class Desk:
    """The actor: it connects to the driver, and does what it is called for."""

    def __init__(
        self,
        door: tuple[Any, bytes, int],
        index: int,
        threads: int,
        surroundings: tuple[dict[str, str], list[str]],
        bench: bytes,
    ) -> None:
        environment, path = surroundings
        os.environ.update(environment)
        # Modules beside the user's experiment are found here as well.
        sys.path.extend(place for place in path if place not in sys.path)
        address, key, ticket = door
        connection = Client(address, authkey=key)
        connection.send(ticket)
        # Loaded only now: libraries read their number of threads when they are loaded.
        self._bench = pickle.loads(bench)(connection, index, threads)
        self._shared: Any = None

    def work(self, shared: list[Any], task: bytes) -> None:
        """Do one item; what its map shares is fetched where it is another's."""
        (reference,) = shared
        setup = None
        if reference != self._shared:
            setup = ray.get(reference)
            self._shared = reference
        self._bench.do(setup, task)
