"""Why a job cannot begin."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.job.attempts import call_probe
from penchant.execution.job.context import Context
from penchant.execution.job.devices import resolve_device
from penchant.execution.job.environment import isolated
from penchant.execution.job.fitting import check_fit, naming_unselected
from penchant.execution.job.mapping import Pool
from penchant.experiments.jobs import Job

from penchant_tools.timing import JobTimer


def refusal(
    job: Job,
    folder: Path,
    *,
    pool: Pool | None = None,
    limit: AbstractContextManager[None] | None = None,
) -> str:
    """Why a job cannot begin; empty where it can.

    Args:
        job: What would be measured.
        folder: Where it may write.
        pool: Where its shards run.
        limit: Ends the probe after a while; without one the probe is not called.

    Returns:
        What the job would fail with.
    """
    device = resolve_device(job.settings.device)
    component = job.probe.component
    try:
        with naming_unselected(job.probe), isolated(job.settings, device, lambda text: None):
            context = Context(job, folder, device=device, pool=pool)
            check_fit(job, context)
            measure = resolve(component.target, f"probe {component.name!r}")
            if limit is not None:
                with limit:
                    call_probe(job, measure, context)
    except Error as error:
        return str(error)
    except Exception as error:  # whatever a probe raises, its job fails
        return f"{type(error).__name__}: {error}"
    return ""


def tried(job: Job, folder: Path, seconds: float) -> str:
    """Why a job is refused: by the kernel, or by the probe within some seconds.

    Args:
        job: What would be measured.
        folder: Where it may write.
        seconds: How long the probe may run.

    Returns:
        What the job would fail with; empty where it began well.
    """
    pool = JobTimer(time.process_time, lambda estimate: None)
    reached: list[bool] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reason = refusal(job, folder, pool=pool, limit=_processor_limit(seconds, reached))
    except LongEnoughError:
        return ""
    # The limit may have been reported in other words, and answers that stand for others may fail
    # where those of a run do not.
    return "" if reached or pool.skipped else reason


class LongEnoughError(BaseException):
    """A probe has run for long enough; none can catch it by accident."""


@contextlib.contextmanager
def _processor_limit(seconds: float, reached: list[bool]) -> Iterator[None]:
    """Raise when the processor has worked for some seconds: a busy machine changes nothing.

    Then once more every second: nothing is raised where it would go no further, or where it would
    leave half an object.

    Args:
        seconds: The limit.
        reached: Is not empty once it was reached.

    Yields:
        Nothing.
    """
    # Signals reach the main thread only, and not every system has timers.
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "setitimer"):
        yield
        return

    def over(signum: int, frame: FrameType | None) -> None:
        reached.append(True)
        if not _in_lifecycle(frame):
            raise LongEnoughError

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _in_lifecycle(frame: FrameType | None) -> bool:
    """Was a destructor, a weak reference's callback, or the making of what has one interrupted?

    Python only prints the errors of the first two; a callback is given the reference, which is dead
    by then. The destructor of an object that is half made would fail.
    """
    while frame is not None:
        code = frame.f_code
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
        dead = any(isinstance(each, weakref.ref) and each() is None for each in given)
        half_made = code.co_name == "__init__" and given and hasattr(type(given[0]), "__del__")
        if dead or half_made or code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
