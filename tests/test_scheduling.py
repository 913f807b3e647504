"""The queue behind every executor, with workers that are not there."""

import collections
import pickle

from penchant.execution.scheduling import WorkerPool


class Worker:
    """Answers at once; one that never starts says nothing."""

    blameless = False

    def __init__(self, index, starts):
        self.index = index
        self.said = collections.deque([("ready",)] if starts else [])

    def give(self, shared, task):
        function, item = pickle.loads(task)
        answer = function(pickle.loads(shared), item, self.index)
        self.said.append(("done", pickle.dumps(answer)))

    def receive(self):
        return self.said.popleft()

    def ended(self):
        return False

    def leave(self):
        pass

    def stop(self, patience=1.0):
        return "stopped"


class Staff:
    """Two workers, of whom one never comes: its machine has gone and there is no other."""

    size = 2

    def __init__(self, absent):
        self.absent = absent
        self.silences = 0

    def hire(self, index, bench):
        return Worker(index, index != self.absent)

    def share(self, data):
        return data

    def ready(self, workers, seconds):
        heard = [worker for worker in workers if worker.said]
        self.silences = 0 if heard else self.silences + 1
        assert self.silences < 5, "everybody waits for a worker that never comes"
        return heard

    def close(self):
        pass


def _times(setup, item, worker):
    return setup * item


def test_nobody_waits_for_a_worker_that_never_comes():
    for absent in (0, 1):
        pool = WorkerPool(Staff(absent))
        assert list(pool.map(_times, 10, [1, 2, 3])) == [10, 20, 30]
        # Whoever is there and idle comes before one who would have to be started.
        assert list(pool.map(_times, 2, [4])) == [8]
        pool.close()
