"""Trains several networks of one architecture as one network of stacked parameters.

All networks share every forward and backward pass (`torch.vmap`), and make the steps that `Trainer`
makes for each: its own order of samples, its own running statistics of batch-norm, a gradient
clipped by its own norm, an end at its own loss. Adam and SGD act on every number by itself, so that
one optimiser step is one step of every network.

Adam divides a gradient by its own size. Where a gradient is zero but for rounding (a bias in front
of a batch-norm), it follows the rounding, and so stacked and single trainings differ there by more
than rounding.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from penchant_numerics.curvature import check_labels, loss_function
from penchant_numerics.data import Samples
from penchant_numerics.device import LiveBytes, compiled, training_cast
from penchant_numerics.refusal import Refusal
from penchant_numerics.training.ensembles import Ensemble, State, state_of
from penchant_numerics.training.trainer import (
    LATER,
    READ_EVERY,
    Recipe,
    _mixed,
    decay,
    make_optimizer,
)
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

CHUNK = 1024  # inputs a forward pass
_FEW = 2  # samples of a step that is measured: batch-norm in training needs two
_TINY = 1e-6  # keeps a gradient of zero from being divided by, as `clip_grad_norm_` does

Losses = Callable[
    [int, int, float], None
]  # called with a network's number, a step and its mean loss


class Stacked:
    """Networks with parameters stacked along a first axis, trained by one optimiser.

    A network that has reached its end leaves the stack.

    Args:
        networks: The networks; they stay as they are.
        samples: What each is trained on, as many samples for each.
        recipe: How all are trained.
        seeds: What the order of samples of each comes from.
        limit: Every parameter is clamped to [-limit, limit] after every step; None leaves them.

    >>> from penchant import Training
    >>> samples = Samples(torch.eye(2, device="cpu"), torch.tensor([0, 1], device="cpu"))
    >>> networks = [nn.Linear(2, 2), nn.Linear(2, 2)]
    >>> training = Stacked(networks, [samples, samples], Training(steps=5), seeds=[0, 1])
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
        obstacle = stacking_obstacle(networks, samples, recipe)
        if obstacle is not None:
            raise Refusal(f"these networks cannot be trained as one stack: {obstacle}")
        self.recipe = recipe
        self.limit = limit
        self.module = copy.deepcopy(networks[0])
        self.loss = loss_function(recipe.loss)
        for each in samples:
            check_labels(recipe.loss, each.labels)
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
        self._step_losses = self._last_losses  # of all networks that made the last step
        self._epoch_losses = self._last_losses.double()
        self._unread: list[tuple[int, list[int], Tensor]] = []  # step, networks, their losses
        device = self._data.inputs.device
        self._mean_losses = compiled(self._vectorised_losses, device, steps=self.total)

    def _start_optimizer(self) -> None:
        """Make what is trained a leaf of the graph, and an optimiser of it."""
        for name in self._trained:
            value = self._state[name].detach().clone()
            self._state[name] = value.requires_grad_()
        self._optimizer = make_optimizer(self._parameters(), self.recipe)

    def _parameters(self) -> list[Tensor]:
        """What is trained, stacked."""
        return [self._state[name] for name in self._trained]

    def run(self, until: int | None = None, *, losses: Losses | None = None) -> None:
        """Train every network to this step, or to its end.

        Args:
            until: The last step.
            losses: Called with a network's number, a step and its mean loss, for every step. They
                stay on the device and are read every so often, because reading waits for it.
        """
        if until is None:
            until = self.total
        last = min(until, self.total)
        self.module.train()
        every = READ_EVERY.get(self._data.inputs.device.type, LATER)

        # step by step, as long as one of the networks goes on
        while self.step < last and self._active:
            active = self._active
            self._advance()
            if losses is not None:
                self._unread.append((self.step, active, self._step_losses))
            if len(self._unread) >= every:
                self._read(losses)
        self._read(losses)
        self.module.eval()
        # once a run, because asking waits for the device
        self._check_finite()

    def _read(self, losses: Losses | None) -> None:
        """Read the losses that are still on the device, in one go."""
        steps, self._unread = self._unread, []
        if not steps:
            return
        together = torch.cat([values for _, _, values in steps])
        values = iter(together.double().tolist())
        for step, active, _ in steps:
            # one value per network, step by step
            for number, loss in zip(active, values):
                if losses is not None:
                    losses(number, step, loss)

    def _advance(self) -> None:
        """One step of every network that has not ended."""
        epoch, position = divmod(self.step, self.epoch_length)
        inputs, labels = self._data.batch(epoch, position, self._active)

        # the learning rate of this step
        factor = decay(self.recipe.schedule, self.step, self.total)
        rate = self.recipe.learning_rate * factor
        for group in self._optimizer.param_groups:
            group["lr"] = rate

        # the loss of one network does not depend on another's parameters
        self._optimizer.zero_grad(set_to_none=True)
        losses = self._losses(inputs, labels)
        losses.sum().backward()
        self._step_losses = self._last_losses = losses.detach()
        if self.recipe.clip is not None:
            clip_each(self._parameters(), self.recipe.clip)
        self._optimizer.step()
        clamp(self._parameters(), self.limit)

        # count
        self.step += 1
        for number in self._active:
            self.steps[number] = self.step
        if self.recipe.until_loss is not None:
            self._end_of_step(labels.shape[1], position, self.recipe.until_loss)

    def _losses(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Mean losses (networks,) on batches (networks, samples, ...)."""
        with training_cast(inputs.device):
            return self._mean_losses(self._state, inputs, labels)

    def _vectorised_losses(self, state: State, inputs: Tensor, labels: Tensor) -> Tensor:
        def loss(own_state: State, own_inputs: Tensor, own_labels: Tensor) -> Tensor:
            outputs = functional_call(self.module, own_state, (own_inputs,))
            return self.loss(outputs, own_labels)

        return torch.vmap(loss)(state, inputs, labels)

    def _end_of_step(self, count: int, position: int, until_loss: float) -> None:
        """Networks whose mean loss of an epoch is small enough have come to their end."""
        self._epoch_losses += self._last_losses.double() * count / self._data.count
        if position < self.epoch_length - 1:
            return
        # the mean loss of an epoch is known at its end
        small_enough = self._epoch_losses < until_loss
        ended = small_enough.tolist()
        if any(ended):
            self._leave(ended)
        self._epoch_losses = torch.zeros_like(self._epoch_losses)

    def _leave(self, ended: list[bool]) -> None:
        """Remove networks that have ended; the others go on in a smaller stack."""
        staying = []
        for row, end in enumerate(ended):
            if end:
                number = self._active[row]
                self._ended[number] = _slice_of(self._state, row)
            else:
                staying.append(row)

        # what the optimiser remembers of those that stay
        remembered = {}
        for name in self._trained:
            memory = self._optimizer.state[self._state[name]]
            remembered[name] = _stacked_tensors(memory, staying)

        # a stack of these, and an optimiser that goes on from there
        self._active = [self._active[row] for row in staying]
        self._epoch_losses = self._epoch_losses[staying]
        self._last_losses = self._last_losses[staying]
        for name, tensor in self._state.items():
            self._state[name] = tensor[staying]
        self._start_optimizer()
        for name, memory in remembered.items():
            self._optimizer.state[self._state[name]] = memory

    @torch.no_grad()
    def _check_finite(self) -> None:
        """Refuse networks whose last loss, or a parameter, is not finite."""
        finite = torch.isfinite(self._last_losses)
        for tensor in self._parameters():
            numbers = torch.isfinite(tensor).flatten(1)
            finite &= numbers.all(1)

        # by the numbers that the networks have outside
        judged = zip(self._active, finite.tolist())
        diverged = [number for number, good in judged if not good]
        if diverged:
            raise FloatingPointError(
                f"training diverged before step {self.step}, networks {diverged}; "
                f"try a smaller learning rate than {self.recipe.learning_rate}"
            )

    def ensemble(self) -> Ensemble:
        """Copies of the networks as they are now, stacked, in their order."""
        # those that have ended, and those that still go on
        states = dict(self._ended)
        for row, number in enumerate(self._active):
            states[number] = _slice_of(self._state, row)
        ordered = [states[number] for number in range(len(self.steps))]
        stacked = _stack_states(ordered)
        return Ensemble(self.module, stacked, "trained")

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs (networks, points, outputs) at these inputs."""

        def made(network: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
            """What one network makes of the points."""
            return network(points)

        ensemble = self.ensemble()
        chunks = []
        for chunk in inputs.split(CHUNK):
            chunks.append(ensemble.map(made, chunk))
        return torch.cat(chunks, dim=1)

    def networks(self) -> list[nn.Module]:
        """Copies of the networks as they are now."""
        ensemble = self.ensemble()
        copies = []
        for number in range(len(ensemble)):
            network = copy.deepcopy(self.module)
            # the state shares memory with the copy
            own = state_of(network)
            for name, tensor in ensemble.state.items():
                own[name].copy_(tensor[number])
            copies.append(network)
        return copies

    def weights(self) -> dict[str, Tensor]:
        """Stacked parameters with at least two axes, by name."""
        return stacked_weights(self.ensemble())


class _Batches:
    """Samples of all networks, and each network's batches in its own order."""

    def __init__(self, samples: Sequence[Samples], seeds: Sequence[int], recipe: Recipe) -> None:
        if len(seeds) != len(samples):
            raise Refusal(
                f"expected one seed per network, found {len(seeds)} seeds for {len(samples)} "
                f"networks"
            )
        self.seeds = list(seeds)
        self.size = recipe.batch

        # (networks, samples, ...)
        inputs = [each.inputs for each in samples]
        labels = [each.labels for each in samples]
        self.inputs = _stack_or_expand(inputs)
        self.labels = _stack_or_expand(labels)
        self.count = self.inputs.shape[1]

        # orders of the current epoch, and which training took the last batch
        self._epoch: int | None = None
        self._orders: Tensor | None = None
        self._active: list[int] = []
        self._chosen: Tensor | None = None

    def _numbers(self, active: list[int]) -> Tensor:
        """Numbers of networks on the device, sent once as long as they are the same."""
        if self._chosen is None or active != self._active:
            self._active = active
            self._chosen = torch.tensor(active, device=self.inputs.device)
        return self._chosen

    def batch(self, epoch: int, position: int, active: list[int]) -> tuple[Tensor, Tensor]:
        """Inputs and labels (networks, samples, ...) of a step, for some networks."""
        # a size of 0 is all samples
        chosen = self._numbers(active)
        if self.size == 0 and len(active) == len(self.seeds):
            return self.inputs, self.labels
        if self.size == 0:
            return self.inputs[chosen], self.labels[chosen]

        # each network has an order of its own
        if epoch != self._epoch or self._orders is None:
            self._epoch = epoch
            self._orders = self._shuffled(epoch)

        # this many after those of earlier steps
        first = position * self.size
        last = first + self.size
        rows = self._orders[chosen, first:last]
        networks = chosen[:, None]
        return self.inputs[networks, rows], self.labels[networks, rows]

    def _shuffled(self, epoch: int) -> Tensor:
        """The order (networks, samples) of an epoch: each network's is that of its `Trainer`."""
        orders = []
        for seed in self.seeds:
            generator = torch.Generator(device="cpu")
            generator.manual_seed(_mixed(seed, epoch))
            order = torch.randperm(self.count, generator=generator, device="cpu")
            orders.append(order)
        return torch.stack(orders).to(self.inputs.device)


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
    counts = sorted({len(each.inputs) for each in samples})
    if len(counts) > 1:
        return f"they have different numbers of samples, {counts[0]} to {counts[-1]}"
    if any(not isinstance(each.inputs, Tensor) for each in samples):
        return "their inputs are streamed"
    return layer_obstacle(networks[0])


def layer_obstacle(network: nn.Module) -> str | None:
    """Why a layer keeps networks of this kind from sharing their passes, or None.

    >>> layer_obstacle(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    "layer '1' (Dropout) draws random numbers"
    """
    for name, module in network.named_modules():
        kind = type(module).__name__
        layer = f"layer {name!r} ({kind})"
        # dropout, and the one activation that is random
        drops = isinstance(module, _DropoutNd) and module.p > 0
        if drops or isinstance(module, nn.RReLU):
            return f"{layer} draws random numbers"
        # torch has no batching rule for its kernels
        if isinstance(module, nn.RNNBase):
            return f"{layer} cannot be vectorised"
        # without a momentum the mean of all batches is stored
        if isinstance(module, _BatchNorm) and module.momentum is None:
            return f"{layer} counts its batches"
    return None


def step_bytes(network: nn.Module, samples: Samples, recipe: Recipe) -> int:
    """Bytes that one network takes in a step of a stack, beside the samples it is trained on.

    Measured in a step of a stack of one, on a copy of the network, with few samples and with more:
    what its forward pass stores grows with the batch, the rest is parameters and their gradients.

    Args:
        network: The network; it stays as it is.
        samples: What it is trained on.
        recipe: How.

    Returns:
        What a step of a whole batch takes.

    Raises:
        RuntimeError: Where torch cannot stack what the network does.
    """
    count = len(samples.labels)
    few, peak = _bytes_of_a_step(network, samples, recipe, _FEW)
    more, _ = _bytes_of_a_step(network, samples, recipe, 2 * _FEW)
    a_sample = (more - few) // _FEW
    # a batch of 0 is all samples
    batch = min(recipe.batch, count) or count
    return peak + a_sample * batch


def _bytes_of_a_step(
    network: nn.Module, samples: Samples, recipe: Recipe, count: int
) -> tuple[int, int]:
    """Bytes that a forward pass of `count` samples stores, and the peak in a step of them."""
    # as many as requested, with repetition where there are fewer
    numbers = torch.arange(count, device=samples.labels.device)
    positions = numbers % len(samples.labels)
    some = samples.select(positions)
    with LiveBytes(peaks=True) as live:
        trial = Stacked([network], [some], recipe, seeds=[0])
        trial.module.train()
        before = live.alive()
        losses = trial._losses(some.inputs[None], some.labels[None])
        stored = live.alive() - before
        del losses
        trial._advance()
    return stored, live.peak


def stack_networks(networks: Sequence[nn.Module]) -> Ensemble:
    """Networks of one architecture as an ensemble; parameters and buffers are copied."""
    states = [state_of(network) for network in networks]
    stacked = _stack_states(states)
    return Ensemble(networks[0], stacked, "trained")


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
    # one norm per network
    gradients = [each.grad for each in parameters if each.grad is not None]
    norms = []
    for each in gradients:
        flat = each.flatten(1)
        norms.append(torch.linalg.vector_norm(flat, dim=1))
    total = torch.linalg.vector_norm(torch.stack(norms), dim=0)  # (networks,)

    # small gradients stay as they are
    factors = largest / (total + _TINY)
    factors = factors.clamp(max=1.0)
    for each in gradients:
        others = [1] * (each.ndim - 1)
        each.mul_(factors.view(-1, *others))


def stacked_weights(ensemble: Ensemble) -> dict[str, Tensor]:
    """Stacked parameters with at least two axes."""
    weights = {}
    for name, value in ensemble.module.named_parameters():
        if value.ndim > 1:
            weights[name] = ensemble.state[name]
    return weights


def _slice_of(stacked: State, row: int) -> State:
    """A copy of one network's state out of a stacked one."""
    state = {}
    for name, tensor in stacked.items():
        state[name] = tensor[row].detach().clone()
    return state


def _stacked_tensors(memory: Mapping[str, Any], positions: list[int]) -> dict[str, Any]:
    """The tensors of an optimiser's state: moments are stacked, counters are not."""
    chosen = {}
    for key, value in memory.items():
        chosen[key] = value
        if isinstance(value, Tensor) and value.ndim > 0:
            chosen[key] = value[positions]
    return chosen


def _stack_states(states: Sequence[State]) -> State:
    """States along a new first axis."""
    stacked = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        stacked[name] = torch.stack(tensors)
    return stacked


def _stack_or_expand(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors along a new first axis; one that all share is not copied."""
    first = tensors[0]
    shared = all(tensor is first for tensor in tensors)
    if shared:
        return first.expand(len(tensors), *first.shape)
    return torch.stack(list(tensors))
