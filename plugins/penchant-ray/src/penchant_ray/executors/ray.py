"""The command's side of a run on Ray: jobs are tasks, and the run folder stays here."""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
import pickle
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import penchant
import ray

from penchant_ray.declarations import Ray
from penchant_ray.executors import tasks
from penchant_ray.executors.endpoint import Endpoint
from penchant_ray.executors.tasks import INLINE, Setup

SECONDS_TO_GROW = 300.0  # until a cluster without room for a job is given up
MOST_SAMPLES = 16  # datasets that stay in the object store: neighbouring jobs share one
MOST_WAITING = 100_000  # calls of tasks that wait for the command at a time
SECONDS_BETWEEN_UPDATES = 0.5  # of what is known of the cluster
log = logging.getLogger(__name__)

# A node that lacks this package can say so.
ray.cloudpickle.register_pickle_by_value(tasks)


def connect(options: Ray, workers: int | None = None, code: Sequence[Path] = ()) -> bool:
    """Join the cluster, or start one as large as the workers need; False where that is done.

    Args:
        options: Where the cluster is.
        workers: How many workers the command asks for.
        code: Modules of the user's own, which are sent to the nodes.

    Returns:
        Whether to leave the cluster at the end.
    """
    if ray.is_initialized():
        return False
    address = options.address or os.environ.get("RAY_ADDRESS") or "local"
    if address.startswith("ray://"):
        found = f"found address {address!r}; use host:port"
        raise penchant.Error(f"the driver must be a machine of the cluster, {found}")
    cores = None
    if workers and address == "local":
        cores = max(1, round(workers * options.cpus_per_worker))
    stops = signal.getsignal(signal.SIGTERM)
    try:
        # What tasks print is in Ray's log files; the driver's terminal is the run's.
        ray.init(
            address=address,
            num_cpus=cores,
            log_to_driver=False,
            logging_level=logging.WARNING,
            runtime_env={"py_modules": [str(path) for path in code]} if code else None,
        )
    except ray.exceptions.RuntimeEnvSetupError as error:
        ray.shutdown()
        listed = ", ".join(path.stem for path in code)
        raise penchant.Error(f"modules of your own ({listed}) cannot be sent: {error}") from error
    except Exception as error:  # Ray has no class of its own for a start that fails
        ray.shutdown()
        where = "this machine" if address == "local" else address
        raise penchant.Error(f"there is no Ray cluster on {where}: {error}") from error
    # Ray would end the command at SIGTERM, which stops a run in good order.
    with contextlib.suppress(ValueError):  # only the main thread has signals
        signal.signal(signal.SIGTERM, stops)
    return True


def ask(options: Ray, question: Callable[[], Any]) -> Any:
    """The answer of a function where a job would run."""
    connected = connect(options)
    try:
        setup = Setup(None, "", _environment(1), {}, 1)
        task = _remote(tasks.ask, options).remote(pickle.dumps(question), setup)
        answer = ray.get(task)
    finally:
        if connected:
            ray.shutdown()
    if isinstance(answer, str):
        raise penchant.Error(answer)
    return answer


def _resources(options: Ray) -> dict[str, float]:
    return {"num_cpus": options.cpus_per_worker, "num_gpus": options.gpus_per_worker}


def _remote(function: Callable[..., Any], options: Ray) -> Any:
    return ray.remote(function).options(
        max_retries=type(options).attempts - 1, scheduling_strategy="SPREAD", **_resources(options)
    )


def _environment(threads: int) -> dict[str, str]:
    own = {name: text for name, text in os.environ.items() if name.startswith("PENCHANT_")}
    return {**own, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}


class RayEngine:
    """An engine on Ray: `penchant.Executor` describes its methods."""

    def __init__(self, options: Ray, work: None, workers: int | None, threads: int) -> None:
        self._options = options
        self._workers = workers
        self._threads = threads
        self._connected = False
        self._endpoint: Any = None
        self._calls: Any = None  # the next calls of tasks, which it will give
        self._running: dict[Any, Any] = {}  # tasks, and their orders
        self._samples: dict[bytes, Any] = {}  # answers that are sent to many
        self._slots = 0  # how many tasks the cluster has room for
        self._free = 0
        self._updated = 0.0
        self._room_since = time.monotonic()

    def run(self, orders: Sequence[Any], server: Any) -> Iterator[tuple[str, Any]]:
        """Yield the id of every order as it ends, with its files or how its process died."""
        try:
            yield from self._run(orders, server)
        except ray.exceptions.RayError as error:
            what = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise penchant.Error(f"Ray has failed on the command's machine: {what}") from error

    def _run(self, orders: Sequence[Any], server: Any) -> Iterator[tuple[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            code = server.copy_code(Path(folder))
            self._connected = connect(self._options, self._workers, code)
        self._endpoint = self._start_endpoint()
        environment = _environment(self._threads)
        attempts = type(self._options).attempts
        setup = Setup(
            self._endpoint, secrets.token_hex(8), environment, _resources(self._options), attempts
        )
        remote = _remote(tasks.do_job, self._options)
        waiting = collections.deque(orders)
        self._calls = self._endpoint.exchange.remote([])
        while waiting or self._running:
            self._update_room()
            while waiting and len(self._running) < (self._workers or 2 * self._slots + 4):
                order = waiting.popleft()
                self._running[remote.remote(pickle.dumps(order), setup)] = order
            ended, _ = ray.wait([self._calls, *self._running], timeout=SECONDS_BETWEEN_UPDATES)
            for task in ended:
                if task is self._calls:
                    answers = self._answers(ray.get(task), server)
                    self._calls = self._endpoint.exchange.remote(answers)
                    continue
                order = self._running.pop(task)
                outcome = _outcome(task)
                if isinstance(outcome, str) and server.may_retry(order.id):
                    waiting.appendleft(order)
                else:
                    yield order.id, outcome

    def _start_endpoint(self) -> Any:
        """The actor on the node of the command, which may have no CPUs for tasks."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = ray.get_runtime_context().get_node_id()
        return (
            ray.remote(Endpoint)
            .options(
                num_cpus=0,
                max_concurrency=MOST_WAITING,
                max_restarts=-1,
                max_task_retries=-1,
                scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
            )
            .remote()
        )

    def _update_room(self) -> None:
        """See how many tasks the cluster has room for; one that stays without any is an error."""
        now = time.monotonic()
        if now - self._updated < SECONDS_BETWEEN_UPDATES:
            return
        self._updated = now
        has = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self._slots = sum(map(self._room_of, has))
        self._free = self._room_of(ray.available_resources())
        if self._slots:
            self._room_since = now
            return
        needs = " and ".join(
            f"{number:g} {name[4:-1].upper()}"
            for name, number in _resources(self._options).items()
            if number
        )
        found = f"none of its {len(has)} nodes has {needs}"
        if now - self._room_since > SECONDS_TO_GROW:
            raise penchant.Error(f"the cluster has no room for a job: {found}")
        if self._room_since > self._updated - 1.0:
            log.warning("waiting for a node: %s", found)

    def _room_of(self, resources: dict[str, float]) -> int:
        """How many tasks these resources are enough for."""
        options = self._options
        room = resources.get("CPU", 0.0) / options.cpus_per_worker
        if options.gpus_per_worker:
            room = min(room, resources.get("GPU", 0.0) / options.gpus_per_worker)
        return int(room)

    def _answers(self, calls: list[tuple[bytes, Any]], server: Any) -> list[tuple[bytes, Any]]:
        """The command's answers to calls of tasks."""
        answers = []
        for name, (what, packed, held) in calls:
            answer = self._answer(server, what, packed, held)
            if name:
                answers.append((name, answer))
        return answers

    def _answer(self, server: Any, what: str, packed: Any, held: Any) -> Any:
        """The command's answer to a call; a mistake of the user's is one for the job."""
        answer: Any = None
        try:
            packed = ray.get(packed) if isinstance(packed, ray.ObjectRef) else packed
            if packed in self._samples:
                return self._samples[packed]
            further = [] if held is None else [ray.get(held[0])[0]]
            ask = self._room if what == "room" else functools.partial(server.answer, what)
            answer = ask(*pickle.loads(packed), *further)
        except ray.exceptions.RayError:
            pass  # the node that called has left: its task is done again
        except Exception as error:
            if what != "samples":
                raise
            own = isinstance(error, penchant.Error)
            answer = error if own else penchant.Error(f"{type(error).__name__}: {error}")
        sent: Any = pickle.dumps(answer)
        if len(sent) > INLINE:
            sent = [tasks.put(sent)]
            if what == "samples":
                if len(self._samples) == MOST_SAMPLES:
                    del self._samples[next(iter(self._samples))]
                self._samples[packed] = sent
        return sent

    def _room(self, job: str, sent: int) -> int:
        """How many tasks of shards a job may have, of which it has sent some."""
        jobs = max(1, len(self._running))
        share = ((self._workers or self._slots) - jobs) // jobs
        return max(0, min(share, sent + self._free))

    def stop(self) -> None:
        """End all tasks, and leave a cluster that was joined for them."""
        with contextlib.suppress(ray.exceptions.RayError, ValueError, RuntimeError):
            for task in self._running:
                ray.cancel(task, force=True)
            if self._calls is not None:
                # It would be tried again when the actor ends, with a warning.
                ray.cancel(self._calls)
                ray.kill(self._endpoint)
        if self._connected:
            ray.shutdown()


def _outcome(task: Any) -> dict[str, bytes] | str | Exception:
    """What became of a job: its files, how its process died, or why no node can run it."""
    try:
        found = ray.get(task)
    except ray.exceptions.RuntimeEnvSetupError as error:
        return penchant.Error(f"modules of your own cannot be sent: {error}")
    except ray.exceptions.RayTaskError as error:
        return f"{type(error.cause).__name__}: {error.cause}"
    except ray.exceptions.RayError as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return penchant.Error(found) if isinstance(found, str) else found
