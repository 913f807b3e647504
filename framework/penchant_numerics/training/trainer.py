"""One deterministic training loop.

The order of samples in an epoch comes from (seed, epoch) and what a layer draws in a step from
(seed, step), so a training that is stopped and resumed from its state makes bit-identical steps,
and nothing touches the global random state.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import torch
from penchant_numerics.curvature import loss_function, losses
from penchant_numerics.data import Samples, are_sequences, positions_counted
from penchant_numerics.device import compiled, training_cast
from penchant_numerics.statistics import binomial_stderr
from torch import Tensor, nn

_GOLDEN = 0x9E3779B97F4A7C15  # spreads consecutive numbers over all seeds
READ_EVERY = {"cpu": 1}  # steps after which losses are read: on the CPU nothing waits
LATER = 50  # the same on other devices

Observer = Callable[[int, float], None]  # called with a step and its mean loss


class _Step(NamedTuple):
    """A step whose loss was not read yet."""

    number: int
    position: int  # in its epoch
    size: int  # of its batch
    loss: Tensor


class Recipe(Protocol):
    """What the loop reads of a training; `penchant.Training` has all of it."""

    @property
    def batch(self) -> int:
        """Samples of a step; 0 is all of them."""

    @property
    def optimizer(self) -> str:
        """`sgd` or `adam`."""

    @property
    def learning_rate(self) -> float:
        """That of the first step."""

    @property
    def schedule(self) -> str:
        """How it falls (`decay`)."""

    @property
    def momentum(self) -> float:
        """Of `sgd`."""

    @property
    def weight_decay(self) -> float:
        """Of either optimiser."""

    @property
    def clip(self) -> float | None:
        """The largest norm of a gradient."""

    @property
    def loss(self) -> str:
        """Its name (`losses`)."""

    @property
    def until_loss(self) -> float | None:
        """The mean loss of an epoch below which training ends."""

    def total_steps(self, samples: int) -> int:
        """How many steps the training has on `samples` samples."""

    def steps_per_epoch(self, samples: int) -> int:
        """After how many of them each sample was seen once."""


class Trainer:
    """Trains `network` in place, step by step; `state()` and `load()` carry it over a break.

    Args:
        network: What is trained.
        samples: What it is trained on, on the network's device.
        recipe: How.
        seed: What the order of samples, and what layers draw, come from.

    >>> from penchant import Training
    >>> samples = Samples(torch.eye(2, device="cpu"), torch.tensor([0, 1], device="cpu"))
    >>> trainer = Trainer(nn.Linear(2, 2), samples, Training(steps=100, batch=0), seed=0)
    >>> trainer.run()
    >>> trainer.step, evaluate(trainer.network, samples)[1]  # all steps, and the accuracy
    (100, 1.0)
    """

    def __init__(self, network: nn.Module, samples: Samples, recipe: Recipe, *, seed: int) -> None:
        self.network = network
        self.samples = samples
        self.recipe = recipe
        self.seed = seed
        self.optimizer = make_optimizer(network.parameters(), recipe)
        self.loss = loss_function(recipe.loss)

        # how far it goes, and how far it is
        count = len(samples.inputs)
        self.total = recipe.total_steps(count)
        self.epoch_length = recipe.steps_per_epoch(count)
        self.step = 0
        self.finished = self.total == 0
        if self.total:
            losses.check_labels(recipe.loss, samples.labels)
        self._epoch_loss = 0.0
        self._order: Tensor | None = None
        self._unread: list[_Step] = []
        device = samples.inputs.device
        self._batch_loss = compiled(self._loss_of, device, steps=self.total)

    def run(
        self,
        *,
        until: int | None = None,
        observe: Observer | None = None,
        after_step: Callable[[int], None] | None = None,
        losses: Observer | None = None,
    ) -> None:
        """Train to step `until` (default: the end).

        Losses stay on their device and are read every so often (`READ_EVERY`), because reading one
        waits for the device. A training that diverges is noticed then.

        Args:
            until: The last step.
            observe: Called after every step with its number and its mean loss, which is read.
            after_step: Called after every step with its number; nothing is read for it.
            losses: Called with the number and the mean loss of every step, when they are read.
        """
        if until is None:
            until = self.total
        until = min(until, self.total)
        self.network.train()
        inputs = self.samples.inputs
        every = READ_EVERY.get(inputs.device.type, LATER)
        if observe is not None:
            every = 1

        # the global random numbers are put back afterwards
        devices = [inputs.device] if inputs.is_cuda else []
        with torch.random.fork_rng(devices=devices):
            while self.step < until and not self.finished:
                self._advance()
                if len(self._unread) >= every or self._must_read():
                    self._read(observe, losses)
                if after_step is not None:
                    after_step(self.step)
        self._read(observe, losses)
        self.network.eval()

    def _advance(self) -> None:
        """One step."""
        epoch, position = divmod(self.step, self.epoch_length)
        if self._order is None or position == 0:
            self._order = self._shuffled(epoch)
        self._set_learning_rate()

        # inside the forked state: for layers that draw
        seed = _mixed(self.seed, -1 - self.step)
        seed_device(self.samples.inputs.device, seed)

        # descend
        batch = self._batch(position)
        self.optimizer.zero_grad(set_to_none=True)
        with training_cast(batch.inputs.device):
            loss = self._batch_loss(batch.inputs, batch.labels)
        loss.backward()
        clip = self.recipe.clip
        if clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        self.optimizer.step()

        # count
        self.step += 1
        self.finished = self.step >= self.total
        count = len(batch.labels)
        made = _Step(self.step, position, count, loss.detach())
        self._unread.append(made)

    def _loss_of(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of a batch."""
        return self.loss(self.network(inputs), labels)

    def _set_learning_rate(self) -> None:
        factor = decay(self.recipe.schedule, self.step, self.total)
        rate = self.recipe.learning_rate * factor
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _shuffled(self, epoch: int) -> Tensor | None:
        """The order of samples in an epoch, sampled on the CPU; None where batches are whole."""
        if self.recipe.batch == 0:
            return None
        # the same however the training came here
        generator = torch.Generator(device="cpu")
        generator.manual_seed(_mixed(self.seed, epoch))
        inputs = self.samples.inputs
        order = torch.randperm(len(inputs), generator=generator, device="cpu")
        # streamed inputs are found by the host
        if not isinstance(inputs, Tensor):
            return order
        return order.to(inputs.device)

    def _batch(self, position: int) -> Samples:
        """The samples of a step of an epoch."""
        if self._order is None:
            inputs = self.samples.inputs
            whole = inputs if isinstance(inputs, Tensor) else inputs.whole()
            return self.samples._replace(inputs=whole)

        # this many after those of earlier steps
        first = position * self.recipe.batch
        last = first + self.recipe.batch
        return self.samples.select(self._order[first:last])

    def _must_read(self) -> bool:
        """Whether the loss of the epoch that has just ended may end the training."""
        latest = self._unread[-1]
        ended = latest.position == self.epoch_length - 1
        return ended and self.recipe.until_loss is not None

    def _read(self, *observers: Observer | None) -> None:
        """Read the losses that are still on the device, in one go, and draw their consequences."""
        steps, self._unread = self._unread, []
        if not steps:
            return
        # double precision holds what any precision of a loss holds
        losses = torch.stack([step.loss for step in steps])
        values = losses.double().tolist()

        # in the order of steps
        active = [observe for observe in observers if observe is not None]
        for step, loss in zip(steps, values):
            self._end_of_step(step, loss)
            for observe in active:
                observe(step.number, loss)

    def _end_of_step(self, step: _Step, loss: float) -> None:
        """Refuse a loss that is not finite, and stop where the recipe says so.

        Args:
            step: The step.
            loss: Its mean loss.
        """
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"training diverged: loss {loss} at step {step.number}; "
                f"try a smaller learning rate than {self.recipe.learning_rate}"
            )

        # the mean loss of an epoch is known at its end
        self._epoch_loss += loss * step.size / len(self.samples.inputs)
        if step.position == self.epoch_length - 1:
            limit = self.recipe.until_loss
            if limit is not None and self._epoch_loss < limit:
                self.finished = True
            self._epoch_loss = 0.0

    def state(self) -> dict[str, Any]:
        """Everything a later run needs to go on, as tensors and plain containers."""
        self._read()
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "finished": self.finished,
            "epoch_loss": self._epoch_loss,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state; samples, recipe and seed must be the same."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        # how far it was
        self.step = int(state["step"])
        self.finished = bool(state["finished"])
        self._epoch_loss = float(state["epoch_loss"])

        # in the middle of an epoch its order is needed again
        epoch, position = divmod(self.step, self.epoch_length)
        self._order = None
        if position:
            self._order = self._shuffled(epoch)


def _mixed(seed: int, number: int) -> int:
    """A seed of its own for each number."""
    spread = _GOLDEN * (number + 1)
    return (seed + spread) % 2**63


def seed_device(device: torch.device, seed: int) -> None:
    """Seed the global generators that layers on a device draw from: the CPU's and its own.

    `torch.manual_seed` seeds those of all devices, and where CUDA is not in use it formats Python's
    stack for each of them, which takes longer than a step of a small network.

    Args:
        device: Where the layers are.
        seed: Any whole number.
    """
    torch.default_generator.manual_seed(seed)
    # where the layers are, if not on the CPU
    if device.type == "cuda":
        number = device.index
        if number is None:
            number = torch.cuda.current_device()
        own = torch.cuda.default_generators[number]
        own.manual_seed(seed)
    elif device.type not in ("cpu", "meta"):
        torch.get_device_module(device).manual_seed(seed)


def make_optimizer(tensors: Iterable[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """The optimiser a recipe asks for."""
    # frozen parameters stay as they are
    parameters = [tensor for tensor in tensors if tensor.requires_grad]
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


def decay(schedule: str, step: int, total: int) -> float:
    """What the learning rate is multiplied with at a step.

    Args:
        schedule: `constant`, `linear` from 1 to 0, or `thirds`, divided by ten at each third.
        step: The step, from 0.
        total: How many there are.

    Returns:
        A factor between 0 and 1.

    >>> decay("thirds", 50, 100)
    0.1
    """
    if schedule == "linear":
        return 1 - step / total
    if schedule == "thirds":
        thirds = min(2, 3 * step // total)
        return 10.0**-thirds
    return 1.0


@torch.no_grad()
def evaluate(
    network: nn.Module, samples: Samples, *, loss: str = "cross-entropy", chunk: int = 1024
) -> tuple[float, float]:
    """Mean loss and accuracy of a network in evaluation mode.

    Args:
        network: The network; its mode is put back.
        samples: Inputs and labels.
        loss: As for `loss_function`.
        chunk: Samples a forward pass.

    Returns:
        The mean loss, and the accuracy, 0 where labels are not classes; of sequences, both over
        the positions that count.

    >>> samples = Samples(torch.eye(2, device="cpu"), torch.tensor([0, 0], device="cpu"))
    >>> loss, accuracy = evaluate(nn.Identity(), samples)
    >>> round(loss, 4), accuracy
    (0.8133, 0.5)
    """
    training = network.training
    network.eval()
    measure = loss_function(loss)
    losses, rights, counts = [], [], []
    batches = zip(samples.inputs.split(chunk), samples.labels.split(chunk))
    for inputs, labels in batches:
        outputs = network(inputs)
        losses.append(measure(outputs, labels))
        counts.append(_terms(labels))
        if not labels.is_floating_point():
            agree = predictions(outputs) == labels
            rights.append(agree.sum())
    network.train(training)

    # all is read in one go; batches are weighted by their size
    means = torch.stack(losses).double().tolist()
    sizes = [int(count) for count in counts]
    total = 0.0
    for mean, count in zip(means, sizes):
        # a batch without a position that counts has no mean
        if count:
            total += mean * count
    right = 0
    if rights:
        right = int(torch.stack(rights).sum())
    seen = sum(sizes)
    return total / seen, right / seen


def _terms(labels: Tensor) -> int | Tensor:
    """How many terms a mean loss has, on the labels' device where they must be counted."""
    if are_sequences(labels):
        return positions_counted(labels).sum()
    return len(labels)


@torch.no_grad()
def outputs(network: Callable[[Tensor], Tensor], inputs: Tensor, *, chunk: int = 1024) -> Tensor:
    """Outputs (samples, ...) of a network, some samples at a time; its mode stays as it is.

    Args:
        network: A module, or any function of a batch of inputs.
        inputs: Inputs (samples, ...).
        chunk: Samples a forward pass. Other chunks may round otherwise.

    Returns:
        The outputs without their graph.

    >>> outputs(lambda x: 2 * x, torch.ones(5, 1, device="cpu"), chunk=2).flatten().tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    chunks = []
    for batch in inputs.split(chunk):
        chunks.append(network(batch))
    return torch.cat(chunks)


def predictions(outputs: Tensor) -> Tensor:
    """The class each row of outputs stands for; one output is the difference of two logits.

    >>> predictions(torch.tensor([[0.1, 0.9], [2.0, 1.0]], device="cpu")).tolist()
    [1, 0]
    """
    if outputs.shape[-1] > 1:
        return outputs.argmax(-1)
    positive = outputs[..., 0] > 0
    return positive.long()


def right_answers(network: Callable[[Tensor], Tensor], samples: Samples) -> Tensor:
    """Whether a network, in the mode it is in, is right on each sample (samples,), or position.

    >>> inputs = torch.eye(2, device="cpu")
    >>> right_answers(lambda x: x, Samples(inputs, torch.tensor([0, 0], device="cpu"))).tolist()
    [True, False]
    """
    return predictions(outputs(network, samples.inputs)) == samples.labels


def accuracy_numbers(
    right: float, samples: Samples, *, answers: int | None = None, over: str = ""
) -> dict[str, Any]:
    """The accuracy of one network on samples, as the arguments of a quantity.

    Args:
        right: The share of labels that it is right on.
        samples: On which.
        answers: Independent answers, where these are fewer than samples, or more.
        over: What the error is over; by default the samples' own units.

    Returns:
        `value`, `stderr`, `over`, `count` and `null`, the accuracy of a constant answer.

    >>> samples = Samples(torch.eye(4, device="cpu"), torch.tensor([0, 1, 1, 1], device="cpu"))
    >>> accuracy_numbers(0.5, samples)["null"]
    0.75
    """
    count = len(samples.labels)
    return {
        "value": right,
        "stderr": float(binomial_stderr(right, answers or count)),
        "over": over or samples.kind.units,
        "count": count,
        "null": samples.kind.commonest,
    }
