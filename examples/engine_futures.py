"""An engine of your own, complete: jobs and shards are futures of `concurrent.futures`.

    python examples/engine_futures.py

Nothing but the command sees the run folder: every job has a private one. Threads share one
interpreter, so this is faster only where jobs wait for something else.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import attrs
import penchant


@attrs.frozen
class Futures(penchant.Executor):
    """Runs jobs and shards as futures, in threads of this process."""

    name = "futures"
    target = "engine_futures:FuturesEngine"
    engine = True


class FuturesEngine:
    """Two pools: a job that waits for its shards must not keep these from running."""

    def __init__(self, options, work, workers, threads):
        self._jobs = ThreadPoolExecutor(workers or 2)
        self._shards = ThreadPoolExecutor(workers or 2)

    def run(self, orders, server):
        self._call = server.answer
        calls = {self._jobs.submit(self._do, order): order.id for order in orders}
        for call in as_completed(calls):
            yield calls[call], call.result()

    def _do(self, order):
        with tempfile.TemporaryDirectory() as folder:
            return order.run(self._call, self, Path(folder))

    def map(self, whole, shards):
        """Yield the answers of shards, which the command stores for a run that resumes."""
        for shard, arrays in zip(shards, self._shards.map(whole.run, shards)):
            self._call("store", whole.job, [whole.path(shard).name], [arrays])
            yield arrays

    def stop(self):
        self._jobs.shutdown(wait=False, cancel_futures=True)
        self._shards.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    import penchant_testing as testing

    with tempfile.TemporaryDirectory() as folder:
        testing.check_executor(Futures, Path(folder), deaths=False)
    print("the engine conforms")
