"""Trains several networks of one architecture: one by one, or as one network of stacked parameters.

Both make the same steps up to rounding: the same order of samples for each network (`Trainer`), the
same optimiser, schedule, clipping and end. Stacked, all networks share every forward and backward
pass, which pays where a single network leaves the device idle: on a GPU. On a CPU the passes are
bound by arithmetic, and networks are trained one by one, so that they spread over workers.

Adam divides a gradient by its own size. Where a gradient is zero but for rounding (a bias in front
of a batch-norm), it follows the rounding, and so the two ways differ there by more than rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import torch
from penchant_numerics.data import Samples
from penchant_numerics.ensembles import Ensemble, State, state_of
from penchant_numerics.trainer import (
    Recipe,
    Trainer,
    _mixed,
    decay,
    loss_function,
    make_optimizer,
)
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

CHUNK = 1024  # inputs a forward pass
STACKED = 32  # networks that share a pass on a GPU
_TINY = 1e-6  # keeps a gradient of zero from being divided by, as `clip_grad_norm_` does


class OneByOne:
    """Networks with a trainer each, changed in place.

    Args:
        networks: The networks.
        samples: What each is trained on.
        recipe: How all are trained.
        seeds: What the order of samples of each comes from.
        limit: Every parameter is clamped to [-limit, limit] after every step; None leaves them.
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
        self.trainers = []
        for network, part, seed in zip(networks, samples, seeds, strict=True):
            self.trainers.append(Trainer(network, part, recipe, seed=seed))

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        return self.trainers[0].total

    @property
    def steps(self) -> list[int]:
        """Steps that each network has made."""
        return [trainer.step for trainer in self.trainers]

    def run(self, until: int | None = None) -> None:
        """Train every network to this step, or to its end."""
        for trainer in self.trainers:

            def clamped(step: int, loss: float, network: nn.Module = trainer.network) -> None:
                clamp(network.parameters(), self.limit)

            trainer.run(until=until, observe=clamped)

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs (networks, points, outputs) at these inputs."""
        found = []
        for network in self.networks():
            parts = [network(part) for part in inputs.split(CHUNK)]
            found.append(torch.cat(parts))
        return torch.stack(found)

    def networks(self) -> list[nn.Module]:
        """The networks as they are now."""
        return [trainer.network for trainer in self.trainers]

    def ensemble(self) -> Ensemble:
        """Copies of the networks as they are now, stacked."""
        return stack_networks(self.networks())

    def weights(self) -> dict[str, Tensor]:
        """Stacked parameters with at least two axes, by name."""
        return _weights(self.ensemble())


class Stacked:
    """The same networks with parameters stacked along a first axis, trained by one optimiser.

    Adam and SGD act on every number by itself, so that one optimiser step is one step of every
    network. A network that has reached its end leaves the stack.

    Args:
        networks: The networks; they stay as they are.
        samples: What each is trained on, as many samples for each.
        recipe: How all are trained.
        seeds: What the order of samples of each comes from.
        limit: Every parameter is clamped to [-limit, limit] after every step; None leaves them.
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
        obstacle = stacking_obstacle(networks, samples, recipe)
        if obstacle is not None:
            raise ValueError(f"these networks cannot be trained as one stack: {obstacle}")
        self.recipe = recipe
        self.limit = limit
        self.module = copy.deepcopy(networks[0])
        self.loss = loss_function(recipe.loss)
        self._data = _Batches(samples, seeds, recipe)

        # one tensor of all networks for each parameter and buffer; some are trained
        self._state = stack_networks(networks).state
        self._trained = []
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                self._trained.append(name)
        self._active = list(range(len(networks)))
        self._ended: dict[int, State] = {}
        self.steps = [0] * len(networks)
        self._start_optimizer()

        # how far it goes, and how far it is
        self.total = recipe.total_steps(self._data.count)
        self.epoch_length = recipe.steps_per_epoch(self._data.count)
        self.step = 0
        self._last_losses = self._data.inputs.new_zeros(len(networks))
        self._epoch_losses = self._last_losses.double()

    def _start_optimizer(self) -> None:
        for name in self._trained:
            self._state[name] = self._state[name].detach().clone().requires_grad_()
        self._optimizer = make_optimizer(_Parameters(self._parameters()), self.recipe)

    def _parameters(self) -> list[Tensor]:
        return [self._state[name] for name in self._trained]

    def run(self, until: int | None = None) -> None:
        """Train every network to this step, or to its end."""
        until = self.total if until is None else min(until, self.total)
        self.module.train()
        while self.step < until and self._active:
            self._advance()
        self.module.eval()
        self._check_finite()

    def _advance(self) -> None:
        """One step of every network that has not ended."""
        epoch, position = divmod(self.step, self.epoch_length)
        inputs, labels = self._data.batch(epoch, position, self._active)
        rate = self.recipe.learning_rate * decay(self.recipe.schedule, self.step, self.total)
        for group in self._optimizer.param_groups:
            group["lr"] = rate

        # the loss of one network does not depend on another's parameters
        self._optimizer.zero_grad(set_to_none=True)
        losses = self._losses(inputs, labels)
        losses.sum().backward()
        self._last_losses = losses.detach()
        if self.recipe.clip is not None:
            clip_each(self._parameters(), self.recipe.clip)
        self._optimizer.step()
        clamp(self._parameters(), self.limit)

        self.step += 1
        for number in self._active:
            self.steps[number] = self.step
        if self.recipe.until_loss is not None:
            self._end_of_step(labels.shape[1], position)

    def _losses(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Mean losses (networks,) on batches (networks, samples, ...)."""

        def loss(state: State, own_inputs: Tensor, own_labels: Tensor) -> Tensor:
            outputs = functional_call(self.module, state, (own_inputs,))
            return self.loss(outputs, own_labels)

        return torch.vmap(loss)(self._state, inputs, labels)

    def _end_of_step(self, count: int, position: int) -> None:
        """Networks whose mean loss of an epoch is small enough have come to their end."""
        self._epoch_losses += self._last_losses.double() * count / self._data.count
        if position < self.epoch_length - 1:
            return
        ended = (self._epoch_losses < self.recipe.until_loss).tolist()
        if any(ended):
            self._leave(ended)
        self._epoch_losses = torch.zeros_like(self._epoch_losses)

    def _leave(self, ended: list[bool]) -> None:
        """Put networks aside that have ended; the others go on in a smaller stack."""
        staying = [place for place, end in enumerate(ended) if not end]
        for place, end in enumerate(ended):
            if end:
                self._ended[self._active[place]] = _slice_of(self._state, place)
        older = self._optimizer.state
        before = {name: older[self._state[name]] for name in self._trained}
        self._active = [self._active[place] for place in staying]
        self._epoch_losses = self._epoch_losses[staying]
        self._last_losses = self._last_losses[staying]
        self._state = {name: tensor[staying] for name, tensor in self._state.items()}
        self._start_optimizer()

        # what the optimiser remembers of those that stay: moments are stacked, counters are not
        for name in self._trained:
            kept = {}
            for key, value in before[name].items():
                stacked = isinstance(value, Tensor) and value.ndim > 0
                kept[key] = value[staying] if stacked else value
            self._optimizer.state[self._state[name]] = kept

    @torch.no_grad()
    def _check_finite(self) -> None:
        """Refuse networks whose last loss, or a parameter, is not finite."""
        finite = torch.isfinite(self._last_losses)
        for tensor in self._parameters():
            finite &= torch.isfinite(tensor).flatten(1).all(1)
        diverged = [number for number, good in zip(self._active, finite.tolist()) if not good]
        if diverged:
            raise FloatingPointError(
                f"training diverged before step {self.step}, networks {diverged}; "
                f"try a smaller learning rate than {self.recipe.learning_rate}"
            )

    def ensemble(self) -> Ensemble:
        """Copies of the networks as they are now, stacked, in their order."""
        states = dict(self._ended)
        for place, number in enumerate(self._active):
            states[number] = _slice_of(self._state, place)
        ordered = [states[number] for number in range(len(self.steps))]
        return Ensemble(self.module, _stack_states(ordered), "trained")

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs (networks, points, outputs) at these inputs."""
        ensemble = self.ensemble()
        parts = []
        for part in inputs.split(CHUNK):
            parts.append(ensemble.map(lambda network, points: network(points), part))
        return torch.cat(parts, dim=1)

    def networks(self) -> list[nn.Module]:
        """Copies of the networks as they are now."""
        ensemble = self.ensemble()
        copies = []
        for number in range(len(ensemble)):
            network = copy.deepcopy(self.module)
            own = state_of(network)
            for name, tensor in ensemble.state.items():
                own[name].copy_(tensor[number])
            copies.append(network)
        return copies

    def weights(self) -> dict[str, Tensor]:
        """Stacked parameters with at least two axes, by name."""
        return _weights(self.ensemble())


class _Parameters(nn.Module):
    """Tensors as what an optimiser is made for."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self._tensors = list(tensors)

    def parameters(self, recurse: bool = True) -> Iterable[Tensor]:
        """The tensors."""
        return iter(self._tensors)


class _Batches:
    """Samples of all networks, and each network's batches in its own order."""

    def __init__(self, samples: Sequence[Samples], seeds: Sequence[int], recipe: Recipe) -> None:
        if len(seeds) != len(samples):
            raise ValueError(f"expected a seed a network, found {len(seeds)} for {len(samples)}")
        self.seeds = list(seeds)
        self.size = recipe.batch
        self.inputs = _stack_or_expand([part.inputs for part in samples])
        self.labels = _stack_or_expand([part.labels for part in samples])
        self.count = self.inputs.shape[1]
        self._epoch: int | None = None
        self._orders: Tensor | None = None

    def batch(self, epoch: int, position: int, active: list[int]) -> tuple[Tensor, Tensor]:
        """Inputs and labels (networks, samples, ...) of a step, for some networks."""
        chosen = torch.tensor(active, device=self.inputs.device)
        everybody = len(active) == len(self.seeds)
        if self.size == 0:
            whole = self.inputs, self.labels
            return whole if everybody else (self.inputs[chosen], self.labels[chosen])
        if epoch != self._epoch:
            self._epoch, self._orders = epoch, self._shuffled(epoch)
        first = position * self.size
        rows = self._orders[chosen, first : first + self.size]
        return self.inputs[chosen[:, None], rows], self.labels[chosen[:, None], rows]

    def _shuffled(self, epoch: int) -> Tensor:
        """The order (networks, samples) of an epoch: each network's is that of its `Trainer`."""
        orders = []
        for seed in self.seeds:
            generator = torch.Generator(device="cpu")
            generator.manual_seed(_mixed(seed, epoch))
            orders.append(torch.randperm(self.count, generator=generator, device="cpu"))
        return torch.stack(orders).to(self.inputs.device)


def side_by_side(
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
    """
    worth_it = len(networks) > 1 and group_size(samples[0].inputs.device) > 1
    together = worth_it and stacking_obstacle(networks, samples, recipe) is None
    kind = Stacked if together else OneByOne
    return kind(networks, samples, recipe, seeds=seeds, limit=limit)


def stacking_obstacle(
    networks: Sequence[nn.Module], samples: Sequence[Samples], recipe: Recipe
) -> str | None:
    """Why networks cannot share their passes, or None where they can.

    Args:
        networks: The networks.
        samples: What each is trained on.
        recipe: How they are trained.

    Returns:
        The first reason found.
    """
    counts = sorted({len(part.inputs) for part in samples})
    if len(counts) > 1:
        return f"they have different numbers of samples, {counts[0]} to {counts[-1]}"
    return layer_obstacle(networks[0])


def layer_obstacle(network: nn.Module) -> str | None:
    """Why a layer keeps networks of this kind from sharing their passes, or None.

    >>> layer_obstacle(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    "layer '1' (Dropout) draws random numbers"
    """
    for name, module in network.named_modules():
        layer = f"layer {name!r} ({type(module).__name__})"
        if isinstance(module, _DropoutNd) and module.p > 0:
            return f"{layer} draws random numbers"
        if isinstance(module, nn.RReLU):
            return f"{layer} draws random numbers"
        if isinstance(module, _BatchNorm) and module.momentum is None:
            return f"{layer} counts its batches"
    return None


def can_stack(network: nn.Module, recipe: Recipe) -> bool:
    """Whether networks of this kind can share every pass."""
    return layer_obstacle(network) is None


def group_size(device: torch.device) -> int:
    """Networks a shard: one on a CPU, where shards spread over cores, and many on a GPU."""
    return 1 if device.type == "cpu" else STACKED


def groups(count: int, device: torch.device) -> list[list[int]]:
    """Numbers 0..count-1 in the groups that are one shard each.

    >>> groups(3, torch.device("cpu"))
    [[0], [1], [2]]
    """
    size = group_size(device)
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


def recorded_steps(total: int, every: int) -> list[int]:
    """Steps at which a training is looked at: its start, every so many, and its end.

    >>> recorded_steps(10, 4)
    [0, 4, 8, 10]
    """
    return sorted({*range(0, total + 1, every), total})


def stack_networks(networks: Sequence[nn.Module]) -> Ensemble:
    """Networks of one architecture as an ensemble; parameters and buffers are copied."""
    states = [state_of(network) for network in networks]
    return Ensemble(networks[0], _stack_states(states), "trained")


@torch.no_grad()
def clamp(parameters: Iterable[Tensor], limit: float | None) -> None:
    """Clamp all parameters to [-limit, limit], in place; None leaves them as they are."""
    if limit is not None:
        for parameter in parameters:
            parameter.clamp_(-limit, limit)


@torch.no_grad()
def clip_each(parameters: Sequence[Tensor], largest: float) -> None:
    """Scale the gradients of stacked parameters (networks, ...) to a norm of at most `largest`.

    The norm is that of each network over all its parameters, as `clip_grad_norm_` has it for one.
    """
    norms = [torch.linalg.vector_norm(each.grad.flatten(1), dim=1) for each in parameters]
    total = torch.linalg.vector_norm(torch.stack(norms), dim=0)  # (networks,)
    factors = (largest / (total + _TINY)).clamp(max=1.0)
    for each in parameters:
        each.grad.mul_(factors.view(-1, *[1] * (each.ndim - 1)))


def _weights(ensemble: Ensemble) -> dict[str, Tensor]:
    """Stacked parameters with at least two axes."""
    names = [name for name, value in ensemble.module.named_parameters() if value.ndim > 1]
    return {name: ensemble.state[name] for name in names}


def _slice_of(state: State, place: int) -> State:
    """A copy of one network's part of a stacked state."""
    return {name: tensor[place].detach().clone() for name, tensor in state.items()}


def _stack_states(states: Sequence[State]) -> State:
    stacked = {}
    for name in states[0]:
        stacked[name] = torch.stack([state[name] for state in states])
    return stacked


def _stack_or_expand(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors along a new first axis; one that all share is not copied."""
    if all(tensor is tensors[0] for tensor in tensors):
        return tensors[0].expand(len(tensors), *tensors[0].shape)
    return torch.stack(list(tensors))
