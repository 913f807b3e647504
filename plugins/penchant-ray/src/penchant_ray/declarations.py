"""The executor, as data."""

from collections.abc import Callable
from typing import Any

import attrs
import penchant


@attrs.frozen
class Ray(penchant.Executor):
    """Runs jobs and shards on a Ray cluster, or on this machine if no address is given.

    Workers are Ray tasks. A worker that dies is restarted and its work is repeated. A job or shard
    fails after five attempts, because a machine that leaves the cluster counts as one.
    The run folder must be on a file system with locks that all machines of the cluster share.

    Reference: Moritz et al., Ray: A Distributed Framework for Emerging AI Applications, OSDI 2018.
    """

    name = "ray"
    target = "penchant_ray.executors.ray:RayWorkers"
    remote = True
    attempts = 5

    address: str | None = penchant.option(
        None, "host:port of a cluster, or auto for the one here; by default one is started"
    )
    cpus_per_worker: float = penchant.option(1.0, "cores that Ray reserves for a worker", above=0)
    gpus_per_worker: float = penchant.option(
        0.0, "devices that Ray reserves for a worker; 1 with device = 'cuda'", at_least=0
    )

    def ask(self, question: Callable[[], Any]) -> Any:
        """The answer of a function where workers run: the device is theirs, not the head node's."""
        if not self.gpus_per_worker:
            return question()
        from penchant_ray.executors.ray import ask

        return ask(self, question)
