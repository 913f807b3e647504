"""An executor of your own, complete: workers that are threads of this process.

    python examples/executor_threads.py

Threads share one interpreter, so this is faster only where jobs wait for something else.
"""

from concurrent.futures import Future, ThreadPoolExecutor

import attrs
import penchant


@attrs.frozen
class Threads(penchant.Executor):
    """Runs workers in threads of this process."""

    name = "threads"
    target = "executor_threads:start"


class ThreadWorkers:
    """Starts `work` in threads, and says which of them have ended."""

    def __init__(self, work, size):
        self.size = size
        self._work = work
        self._pool = ThreadPoolExecutor(size)
        self._calls: dict[int, Future] = {}

    def start(self, number):
        self._calls[number] = self._pool.submit(self._work, number)

    def ended(self):
        done = [number for number, call in self._calls.items() if call.done()]
        return {number: self._calls.pop(number).exception() or "" for number in done}

    def stop(self):
        self._pool.shutdown(wait=False, cancel_futures=True)


def start(options, work, workers, threads):
    return ThreadWorkers(work, workers or 2)


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    import penchant_testing as testing

    with tempfile.TemporaryDirectory() as folder:
        testing.check_executor(Threads, Path(folder), deaths=False)
    print("the executor conforms")
