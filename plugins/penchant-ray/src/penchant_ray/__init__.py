"""Jobs and shards on a Ray cluster: the executor `ray`.

Reference: Moritz et al., Ray: A Distributed Framework for Emerging AI Applications, OSDI 2018.
"""

import penchant

from penchant_ray import declarations


@penchant.hookimpl
def penchant_executors() -> list[type[penchant.Executor]]:
    """Executors this plugin offers."""
    return [declarations.Ray]
