"""How long a job takes: it is run in short, in a process that is ended when its time is over.

Of every map the first shard and one in the middle are done, and stand for the others. The probe
goes on with their answers, so that what it does after its maps is timed as well; its numbers are
thrown away. What does not end in time is foreseen by the progress that it has reported, and a
training by the steps that it has made.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import attrs
from penchant.execution.job.attempts import run_job
from penchant.execution.job.context import Context
from penchant.execution.job.devices import resolve_device
from penchant.execution.job.environment import peak_memory
from penchant.execution.job.mapping import Arrays, Map
from penchant.execution.queue.progress import Message, Reporter, reporting
from penchant.experiments.jobs import Job
from penchant.plugins import discovery

QUICK = 1.0  # seconds of a first shard beyond which no other shard is done
TO_LEAVE = 0.5  # seconds that a job is given to come back to Python
BETWEEN_REPORTS = 0.1  # seconds


@attrs.frozen
class Estimate:
    """What a job takes, as far as it is known.

    Attributes:
        seconds: Of the whole job, on one worker.
        mapped: Of these, what its shards take.
        shards: How many there are.
        skipped: For how many of them another one's answer stands.
        steps: Of one training, where the job trains and options say how many.
        memory: Largest memory of its process, in bytes.
        ended: The job came to its end.
        error: What it, or its process, failed with.
        warnings: What it warned of.
    """

    seconds: float = 0.0
    mapped: float = 0.0
    shards: int = 0
    skipped: int = 0
    steps: int = 0
    memory: int = 0
    ended: bool = False
    error: str = ""
    warnings: tuple[str, ...] = ()


def estimated(job: Job, folder: Path, seconds: float) -> Estimate:
    """What a job takes, found in at most so many seconds.

    Args:
        job: What would be measured.
        folder: Where it may write.
        seconds: After which its process is killed.

    Returns:
        The last estimate that it sent; at least the time that it was given.
    """
    # A fork has everything loaded. CUDA does not survive one, and macOS forbids it.
    forks = sys.platform == "linux" and resolve_device(job.settings.device).type == "cpu"
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    settings = attrs.evolve(job.settings, time_limit=max(seconds - TO_LEAVE, seconds / 2))
    job = attrs.evolve(job, settings=settings)
    process = context.Process(target=_measure, args=(job, folder, sender), daemon=True)
    began = time.perf_counter()
    process.start()
    sender.close()
    estimate = Estimate()
    with contextlib.suppress(EOFError):
        while receiver.poll(max(0.0, seconds - (time.perf_counter() - began))):
            estimate = receiver.recv()
    receiver.close()
    spent = time.perf_counter() - began
    if spent >= seconds:
        process.kill()
    process.join()
    if estimate.ended:
        return estimate
    # Its process may have been killed by the system, such as where memory ran out.
    died = process.exitcode and spent < seconds
    error = f"its process ended with exit code {process.exitcode}" if died else ""
    return attrs.evolve(estimate, seconds=max(estimate.seconds, spent), error=error)


def _measure(job: Job, folder: Path, sender: Connection) -> None:
    """Run a job in short and send what is known of its cost; the end of the child process."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    limit = job.settings.time_limit or 0.0
    began = time.perf_counter()
    # One thread of a CPU knows its own time, on a busy machine too.
    alone = job.settings.threads == 1 and resolve_device(job.settings.device).type == "cpu"
    timer = JobTimer(time.process_time if alone else time.perf_counter, sender.send)
    register_optimizer_step_post_hook(timer.count_step)
    with warnings.catch_warnings(), reporting(_Progress(timer)):
        # Numbers that stand for others may well not be finite.
        warnings.simplefilter("ignore")
        timer.steps = _steps(job, folder)
        listeners = discovery.load().listening("penchant_result_stored")
        result = run_job(Context(job, folder, pool=timer), listeners=listeners)
    # Some code reports the end of its time in words of its own.
    stopped = result.error is not None and time.perf_counter() - began >= limit
    error = "" if stopped else result.error or ""
    timer.send(ended=not stopped, error=error, warnings=tuple(result.warnings))


def _steps(job: Job, folder: Path) -> int:
    """Steps of one training, by the recipe and the number of samples; 0 where it is unknown."""
    training = job.probe.training
    # A network of the user's is measured as it is.
    trained = job.architecture is not None and job.architecture.network_kind != "fresh"
    if training is None or trained:
        return 0
    if training.steps is not None:
        return training.steps
    samples = job.probe.component.options().get("train")
    if not isinstance(samples, int):
        if job.dataset is None:
            return 0
        # Whatever is wrong with the data is found again, and reported, when the job runs.
        with contextlib.suppress(Exception):
            samples = len(Context(job, folder).data.train.inputs)
    return training.total_steps(samples) if isinstance(samples, int) else 0


class JobTimer:
    """Does the shards of a job in short, counts steps of its trainings, and keeps the time.

    Args:
        clock: Seconds since some moment.
        send: Called with every new estimate.

    Attributes:
        steps: Steps of one training, where known.
    """

    def __init__(self, clock: Callable[[], float], send: Callable[[Estimate], None]) -> None:
        self.steps = 0
        self._clock = clock
        self._send = send
        self._began = clock()
        self._skipped_seconds = 0.0
        self._known = Estimate()
        self._sent = 0.0
        # The shard that is being done, if any: when it began, and how many are like it.
        self._shard: tuple[float, int] | None = None
        self._left = 0.0  # seconds that it, or the job outside of its shards, still takes
        self._steps_made = 0
        self._first_step = 0.0

    @property
    def skipped(self) -> int:
        """For how many shards another one's answer stands."""
        return self._known.skipped

    def map(self, whole: Map, shards: Sequence[int], /) -> Iterator[Arrays]:
        """Yield an answer for every shard: its own, or that of one before it."""
        count = len(shards)
        self._known = attrs.evolve(self._known, shards=self._known.shards + count)
        answer, cold = self._do(whole, shards[0], count)
        done = {0: answer}
        each = cold
        if count > 1 and cold < QUICK:
            # By now there is what the first had to make once. The last may be a small rest.
            middle = count // 2
            done[middle], each = self._do(whole, shards[middle], count - 1)
        skipped = count - len(done)
        self._skipped_seconds += skipped * each
        self._known = attrs.evolve(
            self._known,
            mapped=self._known.mapped + cold + (count - 1) * each,
            skipped=self._known.skipped + skipped,
        )
        self._report()
        for number in range(count):
            if number in done:
                answer = done[number]
                yield answer
            else:
                # A copy each: the probe holds as much memory as it would.
                yield copy.deepcopy(answer)

    def _do(self, whole: Map, shard: int, alike: int) -> tuple[Arrays, float]:
        began = self._clock()
        self._begin((began, alike))
        answer = whole.compute(shard)
        self._begin(None)
        return answer, self._clock() - began

    def _begin(self, shard: tuple[float, int] | None) -> None:
        self._shard = shard
        self._left = 0.0
        self._steps_made = 0

    def count_step(self, *_: Any) -> None:
        """A step of an optimiser was made."""
        now = self._clock()
        # The first one pays for what is made once.
        if self._steps_made == 0:
            self._first_step = now
        elif self._steps_made < self.steps:
            each = (now - self._first_step) / self._steps_made
            self._left = (self.steps - self._steps_made - 1) * each
        self._steps_made += 1
        self._report()

    def progress(self, done: int, total: int) -> None:
        """So many of a total are done, since the shard or the job began."""
        began = self._began if self._shard is None else self._shard[0]
        if self._steps_made == 0 and done:
            self._left = (total - done) * (self._clock() - began) / done
        self._report()

    def _report(self) -> None:
        """Send what is known, a few times a second."""
        now = time.monotonic()
        if now - self._sent > BETWEEN_REPORTS:
            self._sent = now
            self.send()

    def send(self, **end: Any) -> None:
        """Send what is known; `end` says how the job ended."""
        now = self._clock()
        seconds = now - self._began + self._skipped_seconds
        mapped = self._known.mapped
        left = 0.0 if end.get("ended") else self._left
        if self._shard is not None:
            began, alike = self._shard
            mapped += alike * (now - began + left)
            seconds += alike * (now - began + left) - (now - began)
        else:
            seconds += left
        self._send(
            attrs.evolve(
                self._known,
                seconds=seconds,
                mapped=mapped,
                steps=self.steps,
                memory=peak_memory(),
                **end,
            )
        )


class _Progress(Reporter):
    """Passes on how far a job or its shard is."""

    def __init__(self, timer: JobTimer) -> None:
        self._timer = timer

    def report(self, message: Message) -> None:
        """Pass on a message, unless it counts shards: those are counted already."""
        if message.get("what") != "shards" and message.get("total"):
            self._timer.progress(message["done"], message["total"])
