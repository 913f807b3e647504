"""Fresh networks beside a trained one: the same architecture, as it is initialised.

Each is stored as a file of weights and measured like the network itself: on the same samples, with
the same options. A module is initialised again layer by layer, by its `reset_parameters`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penchant.errors import Error
from penchant.execution.job.networks import BoundArchitecture
from penchant.experiments.arrays import with_arrays
from penchant.experiments.jobs import Job
from penchant.seeds import derive

if TYPE_CHECKING:
    from torch import nn

FOLDER = "fresh-networks"


def write_fresh(job: Job, network: nn.Module, folder: Path, count: int, shape: Any) -> list[Path]:
    """Write the weights of fresh networks; those that are there stay.

    Args:
        job: A job of the trained network.
        network: The trained network.
        folder: Where to write.
        count: How many.
        shape: Shape and outputs of the data.

    Returns:
        Their files.

    Raises:
        Error: A layer cannot be initialised again.
    """
    import torch

    make = _maker(job, network, shape)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.pt" for number in range(1, count + 1)]
    for number, path in enumerate(paths):
        if not path.is_file():
            temporary = path.with_suffix(".part")
            torch.save(make(number).state_dict(), temporary)
            temporary.rename(path)
    return paths


def _maker(job: Job, network: nn.Module, shape: Any) -> Callable[[int], nn.Module]:
    assert job.architecture is not None
    component = job.architecture.component
    source = getattr(component, "factory", None)
    if hasattr(source, "state_dict") and not isinstance(source, type):
        return lambda number: initialised(network, derive(job.seed, "card", number))
    size, outputs = shape
    label = job.architecture.label
    return BoundArchitecture(with_arrays(component), label, tuple(size), outputs, job.seed)


def initialised(network: nn.Module, seed: int) -> nn.Module:
    """A copy of a network whose layers are initialised again.

    Raises:
        Error: A layer with parameters has no `reset_parameters`.
    """
    import torch

    fresh = copy.deepcopy(network)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for name, module in fresh.named_modules():
            if next(module.parameters(recurse=False), None) is None:
                continue
            reset = getattr(module, "reset_parameters", None)
            reset = reset or getattr(module, "_reset_parameters", None)
            if reset is None:
                kind = type(module).__name__
                what = f"the layer {name!r} ({kind})" if name else f"the network itself ({kind})"
                hint = "give its class and `weights`, so that fresh ones can be made"
                raise Error(f"{what} has parameters and no reset_parameters: {hint}")
            reset()
    return fresh
