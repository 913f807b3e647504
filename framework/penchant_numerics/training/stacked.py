"""Trains several networks of one architecture: one by one, or as one network of stacked parameters.

Both make the same steps up to rounding. Stacked (`stacked_training`), all networks share every
forward and backward pass, which pays where a single network leaves the device idle: on a GPU. On a
CPU the passes are bound by arithmetic, and networks are trained one by one, so that they spread
over workers.
"""

import functools
from collections.abc import Sequence

import torch
from penchant_numerics.data import Samples
from penchant_numerics.training.ensembles import Ensemble
from penchant_numerics.training.stacked_training import (
    CHUNK,
    Losses,
    Stacked,
    clamp,
    stack_networks,
    stacked_weights,
    stacking_obstacle,
)
from penchant_numerics.training.trainer import Recipe, Trainer, outputs
from torch import Tensor, nn

STACKED = 32  # networks that share a pass on a GPU


class OneByOne:
    """Networks with a trainer each, changed in place.

    Args:
        networks: The networks.
        samples: What each is trained on.
        recipe: How all are trained.
        seeds: What the order of samples of each comes from.
        limit: Every parameter is clamped to [-limit, limit] after every step; None leaves them.

    >>> from penchant import Training
    >>> samples = Samples(torch.eye(2, device="cpu"), torch.tensor([0, 1], device="cpu"))
    >>> networks = [nn.Linear(2, 2), nn.Linear(2, 2)]
    >>> training = OneByOne(networks, [samples, samples], Training(steps=5), seeds=[0, 1])
    >>> training.run()
    >>> training.steps
    [5, 5]
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        samples: Sequence[Samples],
        recipe: Recipe,
        *,
        seeds: Sequence[int],
        limit: float | None = None,
    ) -> None:
        self.limit = limit
        # each has its own order of samples
        self.trainers = []
        for network, own, seed in zip(networks, samples, seeds, strict=True):
            self.trainers.append(Trainer(network, own, recipe, seed=seed))

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        return self.trainers[0].total

    @property
    def steps(self) -> list[int]:
        """Steps that each network has made."""
        return [trainer.step for trainer in self.trainers]

    def run(self, until: int | None = None, *, losses: Losses | None = None) -> None:
        """Train every network to this step, or to its end.

        Args:
            until: The last step.
            losses: Called with a network's number, a step and its mean loss, for every step.
        """
        for number, trainer in enumerate(self.trainers):

            def clamped(step: int, network: nn.Module = trainer.network) -> None:
                """After every step."""
                parameters = network.parameters()
                clamp(parameters, self.limit)

            # losses are reported with the number of their network
            observer = None
            if losses is not None:
                observer = functools.partial(losses, number)
            trainer.run(until=until, after_step=clamped, losses=observer)

    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs (networks, points, outputs) at these inputs."""
        chunks = []
        for network in self.networks():
            chunks.append(outputs(network, inputs, chunk=CHUNK))
        return torch.stack(chunks)

    def networks(self) -> list[nn.Module]:
        """The networks as they are now."""
        return [trainer.network for trainer in self.trainers]

    def ensemble(self) -> Ensemble:
        """Copies of the networks as they are now, stacked."""
        return stack_networks(self.networks())

    def weights(self) -> dict[str, Tensor]:
        """Stacked parameters with at least two axes, by name."""
        return stacked_weights(self.ensemble())


def stack_trainings(
    networks: Sequence[nn.Module],
    samples: Sequence[Samples],
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    limit: float | None = None,
) -> OneByOne | Stacked:
    """Stacked where the rule for the device says so and the training allows it, else one by one.

    Args:
        networks: The networks.
        samples: What each is trained on.
        recipe: How all are trained.
        seeds: What the order of samples of each comes from.
        limit: Every parameter is clamped to [-limit, limit] after every step.

    Returns:
        A training that has not begun.

    >>> from penchant import Training
    >>> samples = Samples(torch.eye(2, device="cpu"), torch.tensor([0, 1], device="cpu"))
    >>> networks = [nn.Linear(2, 2), nn.Linear(2, 2)]
    >>> training = stack_trainings(networks, [samples] * 2, Training(steps=5), seeds=[0, 1])
    >>> type(training).__name__  # on a CPU
    'OneByOne'
    """
    # a function of options and device type only: numbers must not depend on what is free
    most = group_size(samples[0].inputs.device)
    worth_it = len(networks) > 1 and most > 1
    together = worth_it and stacking_obstacle(networks, samples, recipe) is None
    kind = Stacked if together else OneByOne
    return kind(networks, samples, recipe, seeds=seeds, limit=limit)


def group_size(device: torch.device) -> int:
    """Networks per shard: one on a CPU, where shards spread over cores, and many on a GPU.

    >>> group_size(torch.device("cpu")), group_size(torch.device("cuda"))
    (1, 32)
    """
    if device.type == "cpu":
        return 1
    return STACKED


def groups(count: int, device: torch.device) -> list[list[int]]:
    """Numbers 0..count-1 in the groups that are one shard each.

    >>> groups(3, torch.device("cpu"))
    [[0], [1], [2]]
    """
    size = group_size(device)
    numbers = list(range(count))
    groups = []
    for first in range(0, count, size):
        last = first + size
        groups.append(numbers[first:last])
    return groups


def recorded_steps(total: int, every: int) -> list[int]:
    """Steps at which a training is evaluated: its start, every `every` steps, and its end.

    >>> recorded_steps(10, 4)
    [0, 4, 8, 10]
    """
    # the end may be one of them already
    steps = set(range(0, total + 1, every))
    steps.add(total)
    return sorted(steps)
