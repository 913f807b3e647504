"""The kernel's own components, through the same hooks as those of plugins: its executors."""

import attrs
from penchant.components.component import Executor
from penchant.components.hookspecs import hookimpl


@attrs.frozen
class Serial(Executor):
    """Runs everything in this process, one thing after another."""

    name = "serial"
    target = "penchant.execution.workers.executors:Serial"


@attrs.frozen
class Processes(Executor):
    """Spreads jobs and shards over worker processes of this machine, one device each."""

    name = "processes"
    target = "penchant.execution.workers.processes:Processes"


@hookimpl
def penchant_executors() -> list[type[Executor]]:
    """The executors of the kernel."""
    return [Serial, Processes]
