"""The executor, as data."""

from collections.abc import Callable
from typing import Any

import attrs
import penchant


@attrs.frozen
class Ray(penchant.Executor):
    """Runs jobs and shards on a Ray cluster, or on this machine if no address is given.

    Jobs and shards are Ray tasks. Nodes need no disk in common: data, trained networks, modules of
    your own and results go through Ray. One whose node dies is done again; a job or shard fails
    after five attempts without progress, because a machine that leaves counts as one.

    Reference: Moritz et al., Ray: A Distributed Framework for Emerging AI Applications, OSDI 2018.
    """

    name = "ray"
    target = "penchant_ray.executors.ray:RayEngine"
    engine = True
    remote = True
    attempts = 5

    address: str | None = penchant.option(
        None, "host:port, or auto for the cluster here; by default RAY_ADDRESS, else one is started"
    )
    cpus_per_worker: float = penchant.option(1.0, "cores that Ray reserves for a task", above=0)
    gpus_per_worker: float = penchant.option(
        0.0, "devices that Ray reserves for a task; 1 with device = 'cuda'", at_least=0
    )

    def ask(self, question: Callable[[], Any]) -> Any:
        """The answer of a function where jobs run: the device is theirs, not the head node's."""
        if not self.gpus_per_worker:
            return question()
        from penchant_ray.executors.ray import ask

        return ask(self, question)
