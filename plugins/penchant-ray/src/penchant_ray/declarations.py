"""The executor, as data."""

import attrs
import penchant


@attrs.frozen
class Ray(penchant.Executor):
    """Spreads jobs and shards over a Ray cluster, or over this machine where none is named.

    Workers are actors, one item each at a time; what a map shares goes to the object store once. A
    worker that dies is replaced and its item done again, and a node that leaves takes no item with
    it. The run folder must be on a file system that all machines of the cluster share.

    Reference: Moritz et al., Ray: A Distributed Framework for Emerging AI Applications, OSDI 2018.
    """

    name = "ray"
    target = "penchant_ray.executors.ray:start"
    counts_workers = True

    address: str | None = penchant.option(
        None, "address of a cluster, or auto for the one here; by default one is started"
    )
    cpus_per_worker: float = penchant.option(1.0, "cores that Ray reserves for a worker", above=0)
    gpus_per_worker: float = penchant.option(
        0.0, "devices that Ray reserves for a worker; 1 with device = 'cuda'", at_least=0
    )
