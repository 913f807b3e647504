"""Trains several networks of one architecture side by side: one after another, or as one network with stacked parameters.

Both make the same steps up to rounding. Stacked, all networks share one forward and one backward pass, which pays where a
single network leaves the device idle: on a GPU. On a CPU the passes are bound by arithmetic and networks are trained one by
one, so that they spread over workers (`make bench` has the ratio).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from penchant_numerics.data import Samples
from penchant_numerics.trainer import Trainer, decay, loss_function
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

CHUNK = 1024  # inputs a forward pass


class OneByOne:
    """Networks with a trainer each. With `limit`, every parameter is clamped to [-limit, limit] after every step."""

    def __init__(
        self,
        networks: Sequence[nn.Module],
        samples: Sequence[Samples],
        recipe: Any,
        *,
        seeds: Sequence[int],
        limit: float | None = None,
    ) -> None:
        self.limit = limit
        parts = zip(networks, samples, seeds, strict=True)
        self.trainers = [Trainer(network, part, recipe, seed=seed) for network, part, seed in parts]

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        return self.trainers[0].total

    def run(self, until: int) -> None:
        """Train every network to this step."""
        for trainer in self.trainers:
            trainer.run(
                until=until,
                observe=lambda step, loss, network=trainer.network: clamp(
                    network.parameters(), self.limit
                ),
            )

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs (networks, points, outputs) at these inputs."""
        return torch.stack(
            [
                torch.cat([trainer.network(part) for part in inputs.split(CHUNK)])
                for trainer in self.trainers
            ]
        )

    def networks(self) -> list[nn.Module]:
        """The networks as they are now."""
        return [trainer.network for trainer in self.trainers]

    def weights(self) -> dict[str, Tensor]:
        """Stacked parameters with at least two axes, by name."""
        named = [dict(trainer.network.named_parameters()) for trainer in self.trainers]
        return {
            name: torch.stack([each[name].detach() for each in named])
            for name, first in named[0].items()
            if first.ndim > 1
        }


class Stacked:
    """The same networks with parameters stacked along a first axis, trained by one optimiser on the full batch.

    Adam and SGD act on every number by itself, so that one optimiser step is one step of every network.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        samples: Sequence[Samples],
        recipe: Any,
        *,
        seeds: Sequence[int],
        limit: float | None = None,
    ) -> None:
        self.module, self.recipe, self.limit = networks[0], recipe, limit
        self.inputs = torch.stack([part.inputs for part in samples])
        self.labels = torch.stack([part.labels for part in samples])
        self.parameters, self.buffers = torch.func.stack_module_state(list(networks))
        self.parameters = {
            name: tensor.detach().clone().requires_grad_()
            for name, tensor in self.parameters.items()
        }
        self.total, self.step = recipe.total_steps(self.inputs.shape[1]), 0
        self.optimizer = _optimizer(list(self.parameters.values()), recipe)
        self.loss = loss_function(recipe.loss)

    def run(self, until: int) -> None:
        """Train every network to this step."""
        while self.step < min(until, self.total):
            self._advance()
        losses = self._losses().detach()
        if not torch.isfinite(losses).all():
            raise FloatingPointError(
                f"training diverged before step {self.step}; try a smaller learning rate"
            )

    def _advance(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * decay(
                self.recipe.schedule, self.step, self.total
            )
        self.optimizer.zero_grad(set_to_none=True)
        self._losses().sum().backward()  # the loss of one network does not depend on another's parameters
        self.optimizer.step()
        clamp(self.parameters.values(), self.limit)
        self.step += 1

    def _losses(self) -> Tensor:
        def loss(
            parameters: dict[str, Tensor],
            buffers: dict[str, Tensor],
            inputs: Tensor,
            labels: Tensor,
        ) -> Tensor:
            return self.loss(
                torch.func.functional_call(self.module, (parameters, buffers), (inputs,)), labels
            )

        return torch.vmap(loss)(self.parameters, self.buffers, self.inputs, self.labels)

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs (networks, points, outputs) at these inputs."""

        def output(
            parameters: dict[str, Tensor], buffers: dict[str, Tensor], part: Tensor
        ) -> Tensor:
            return torch.func.functional_call(self.module, (parameters, buffers), (part,))

        parts = [
            torch.vmap(output, in_dims=(0, 0, None))(self.parameters, self.buffers, part)
            for part in inputs.split(CHUNK)
        ]
        return torch.cat(parts, dim=1)

    def networks(self) -> list[nn.Module]:
        """Copies of the networks as they are now."""
        stacked = {
            name: tensor.detach()
            for name, tensor in (*self.parameters.items(), *self.buffers.items())
        }
        copies = [copy.deepcopy(self.module) for _ in self.inputs]
        for number, network in enumerate(copies):
            network.load_state_dict({name: tensor[number] for name, tensor in stacked.items()})
        return copies

    def weights(self) -> dict[str, Tensor]:
        """Stacked parameters with at least two axes, by name."""
        return {
            name: tensor.detach() for name, tensor in self.parameters.items() if tensor.ndim > 2
        }


def side_by_side(
    networks: Sequence[nn.Module], samples: Sequence[Samples], recipe: Any, **settings: Any
) -> OneByOne | Stacked:
    """Stacked where the rule for the device says so and the training allows it, else one by one."""
    together = (
        len(networks) > 1
        and group_size(samples[0].inputs.device) > 1
        and can_stack(networks[0], recipe)
    )
    return (Stacked if together else OneByOne)(networks, samples, recipe, **settings)


def group_size(device: torch.device) -> int:
    """Networks a shard: one on a CPU, where shards spread over cores, and many on a GPU, where they share every pass."""
    return 1 if device.type == "cpu" else 32


def can_stack(network: nn.Module, recipe: Any) -> bool:
    """Full batches and no clipping of the gradient, layers that neither draw nor count: then networks share every pass."""
    stateless = not any(
        isinstance(module, (_BatchNorm, _DropoutNd)) for module in network.modules()
    )
    return stateless and recipe.batch == 0 and recipe.clip is None and recipe.until_loss is None


def groups(count: int, device: torch.device) -> list[list[int]]:
    """Numbers 0..count-1 in the groups that are one shard each."""
    size = group_size(device)
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


def recorded_steps(total: int, every: int) -> list[int]:
    """Steps at which a training is looked at: its start, every so many, and its end."""
    return sorted({*range(0, total + 1, every), total})


@torch.no_grad()
def clamp(parameters: Any, limit: float | None) -> None:
    """Clamp all parameters to [-limit, limit]: the weight clip of experiment 7."""
    if limit is not None:
        for parameter in parameters:
            parameter.clamp_(-limit, limit)


def _optimizer(parameters: list[Tensor], recipe: Any) -> torch.optim.Optimizer:
    if recipe.optimizer == "adam":
        return torch.optim.Adam(
            parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
    return torch.optim.SGD(
        parameters,
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
    )
