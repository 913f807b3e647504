"""Ray tasks: a job, and shards of a job for its task.

This module is sent by value, so that a node which lacks a package can say so; it imports nothing
of the project before a task begins.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ray

INLINE = 100_000  # bytes: what is larger goes through the object store
SECONDS_AT_ONCE = 0.2  # of shards that a task does
BYTES_AT_ONCE = 8_000_000  # of their answers


class Setup(NamedTuple):
    """What all tasks of a run are given."""

    endpoint: Any
    run: str  # a name for folders on the nodes
    environment: dict[str, str]
    resources: dict[str, float]
    attempts: int


class Command:
    """Calls the command through its endpoint.

    It never waits with `ray.get` for what takes long: a task that does gives up its CPU, and has
    to share it with another one afterwards.
    """

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint
        self._stored: list[Any] = []  # calls that the command has not answered yet

    def __call__(self, name: str, *arguments: Any) -> Any:
        """The command's answer."""
        packed = pickle.dumps(arguments)
        if name == "report":
            self._endpoint.tell.remote((name, packed, None))
            return None
        sent = put(packed) if len(packed) > INLINE else packed
        return self._answer(self._endpoint.call.remote((name, sent, None)).future())

    def store(self, job: str, names: list[str], answers: Any) -> None:
        """Give the command answers of shards, or a reference to them, a few calls at a time."""
        packed = pickle.dumps((job, names))
        if not isinstance(answers, ray.ObjectRef):
            answers = put((answers, 0.0))
        # The object lives as long as its reference is held here.
        call = self._endpoint.call.remote(("store", packed, [answers])).future()
        self._stored.append((call, answers))
        if len(self._stored) > 8:
            self._answer(self._stored.pop(0)[0])

    def flush(self) -> None:
        """Wait until the command has everything."""
        while self._stored:
            self._answer(self._stored.pop(0)[0])

    def _answer(self, call: Any) -> Any:
        packed = call.result()
        if isinstance(packed, list):
            packed = ray.get(packed[0])
        answer = pickle.loads(packed)
        if isinstance(answer, Exception):
            raise answer
        return answer


def put(value: Any) -> Any:
    """A reference to a value in the object store of this node."""
    try:
        return ray.put(value)
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
        import penchant

        hint = "start its Ray with a larger --object-store-memory, or free its disk"
        full = f"the object store of {socket.gethostname()} and the disk behind it are full"
        raise penchant.Error(f"{full}; {hint}") from error


def ask(question: bytes, setup: Setup) -> Any:
    """The answer of a function where a job would run."""
    return refusable(question, setup, lambda function: function())


def do_job(order: bytes, setup: Setup) -> Any:
    """The files of a job's folder, or text: why this node cannot run it."""

    def measure(order: Any) -> dict[str, bytes]:
        from penchant_ray.executors.shards import ShardPool

        command = Command(setup.endpoint)
        with process_folder(setup.run) as folder:
            files: dict[str, bytes] = order.run(command, ShardPool(command, setup), folder)
        command.flush()
        return files

    return refusable(order, setup, measure)


def do_shards(sent: list[Any], shards: list[int], setup: Setup) -> Any:
    """Answers of the first of these shards, as many as are done in a moment, and their seconds."""
    began = time.monotonic()

    def compute(whole: Any) -> tuple[list[Any], float]:
        answers: list[Any] = []
        size = 0
        for arrays in whole.answers(shards):
            answers.append(arrays)
            size += held_bytes(arrays)
            if time.monotonic() - began > 2 * SECONDS_AT_ONCE or size > BYTES_AT_ONCE:
                break
        return answers, time.monotonic() - began

    with process_folder(setup.run) as folder:
        if _map[0] == sent[0]:
            return compute(_map[1])

        def open_map(whole: Any) -> Any:
            # What shards share is fetched once.
            opened = whole.open(ray.get(sent[1]), Command(setup.endpoint), folder)
            _map[:] = [sent[0], opened]
            return compute(opened)

        return refusable(ray.get(sent[0]), setup, open_map)


_map: list[Any] = [None, None]  # the latest map that this process has opened, and which it is


def held_bytes(arrays: dict[str, Any] | None) -> int:
    """The size of an answer."""
    return sum(array.nbytes for array in (arrays or {}).values())


def refusable(packed: bytes, setup: Setup, use: Callable[[Any], Any]) -> Any:
    """What `use` makes of a packed object, or text: why this node cannot do it."""
    for name, text in setup.environment.items():
        # Data are where this node says.
        if name != "PENCHANT_DATA" or name not in os.environ:
            os.environ[name] = text
    try:
        import penchant

        whole = pickle.loads(packed)
    except (ImportError, AttributeError) as error:
        hint = "install it there; of your own code, Python files beside the module are sent"
        return f"{socket.gethostname()} cannot import what a job needs: {error}; {hint}"
    try:
        return use(whole)
    except penchant.Error as error:
        return str(error)


@contextlib.contextmanager
def process_folder(run: str) -> Iterator[Path]:
    """A folder of this process; trained networks in it are shared by all processes of the node."""
    root = Path(tempfile.gettempdir()) / f"penchant-ray-{os.getuid()}"
    folder = root / run / str(os.getpid())
    networks = root / run / "networks"
    if not folder.is_dir():
        networks.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / "networks").symlink_to(networks)
        sweep(root, run)
    try:
        yield folder
    finally:
        for name in ("jobs", "files"):
            shutil.rmtree(folder / name, ignore_errors=True)


def sweep(root: Path, run: str) -> None:
    """Remove what processes have left that are gone, and runs without any."""
    for path in root.glob("*/*"):
        if path.name.isdigit() and not Path(f"/proc/{path.name}").exists():
            shutil.rmtree(path, ignore_errors=True)
    for path in root.iterdir():
        if path.name != run and not any(each.name.isdigit() for each in path.glob("*")):
            shutil.rmtree(path, ignore_errors=True)
