"""What holds for a whole experiment: seeds, device, precision, executor."""

import attrs
from penchant.components.component import Component
from penchant.components.options import option
from penchant.errors import Error

LARGEST_SEED = 2**63 - 1


@attrs.frozen
class Settings(Component):
    """What holds for the whole experiment."""

    kind = name = "experiment"

    title: str = option("", "what the run is about")
    seeds: tuple[int, ...] = option((0,), "one job for each", at_least=0, at_most=LARGEST_SEED)
    device: str = option("auto", "auto, cpu, cuda or cuda:1")
    dtype: str = option("float32", "precision of networks and data", choices=("float32", "float64"))
    shape: tuple[int, ...] = option(
        (1, 32, 32), "input shape where there is no dataset", at_least=1
    )
    outputs: int = option(1, "outputs where there is no dataset", at_least=1)
    precision: str = option(
        "float32",
        "of products: float32, tf32 on a GPU, or bfloat16 in forward passes of trainings",
        choices=("float32", "tf32", "bfloat16-training"),
    )
    memory: float | None = option(
        None, "GiB that a computation may use; by default 1 on a CPU, 8 on a GPU", above=0
    )
    threads: int = option(1, "torch threads of every job and shard", at_least=1)
    executor: str | None = option(
        None, "how shards are run; by default in processes if there are several"
    )
    workers: int | None = option(
        None, "workers of the executor; by default one per core, on CUDA one per GPU", at_least=1
    )
    per_device: int = option(1, "workers per GPU, if their number is not given", at_least=1)
    time_limit: float | None = option(
        None, "seconds after which a job fails; the others go on", above=0
    )
    figures: bool = option(True, "draw figures when a job is done")
    store_networks: bool = option(True, "keep checkpoints after the run")
    quick: bool = option(False, "these are reduced numbers, as `--quick` makes them")

    def __attrs_post_init__(self) -> None:
        seeds = list(self.seeds)
        if not seeds:
            raise Error("expected at least one seed, found none")
        if len(set(seeds)) < len(seeds):
            raise Error(f"seeds must differ, found {seeds}")
        if not 1 <= len(self.shape) <= 3:
            raise Error(f"shape must have one to three dimensions, found {list(self.shape)}")
