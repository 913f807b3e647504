"""One deterministic training loop.

The order of samples in an epoch comes from (seed, epoch) and what a layer draws in a step from (seed, step), so a training
that is stopped and resumed from its state makes bit-identical steps, and nothing touches the global random state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from penchant_numerics.data import Samples
from torch import Tensor, nn
from torch.nn import functional

_GOLDEN = 0x9E3779B97F4A7C15  # spreads consecutive numbers over all seeds


class Recipe(Protocol):
    """What the loop reads of a training; `penchant.Training` has all of it."""

    batch: int
    optimizer: str
    learning_rate: float
    schedule: str
    momentum: float
    weight_decay: float
    clip: float | None
    loss: str
    until_loss: float | None

    def total_steps(self, samples: int) -> int: ...
    def steps_per_epoch(self, samples: int) -> int: ...


class Trainer:
    """Trains `network` in place, step by step; `state()` and `load()` carry it over a break.

    >>> recipe = penchant.Training(epochs=3)                       # doctest: +SKIP
    >>> trainer = Trainer(network, samples, recipe, seed=0)        # doctest: +SKIP
    >>> trainer.run()                                              # doctest: +SKIP
    """

    def __init__(self, network: nn.Module, samples: Samples, recipe: Recipe, *, seed: int) -> None:
        self.network, self.samples, self.recipe, self.seed = network, samples, recipe, seed
        self.total = recipe.total_steps(len(samples.inputs))
        self.epoch_length = recipe.steps_per_epoch(len(samples.inputs))
        self.optimizer = make_optimizer(network, recipe)
        self.loss = loss_function(recipe.loss)
        self.step = 0
        self.finished = self.total == 0
        self._epoch_loss = 0.0
        self._order: Tensor | None = None

    def run(
        self, *, until: int | None = None, observe: Callable[[int, float], None] | None = None
    ) -> None:
        """Train to step `until` (default: the end); `observe(step, loss)` sees every step's mean loss."""
        until = self.total if until is None else min(until, self.total)
        self.network.train()
        devices = [self.samples.inputs.device] if self.samples.inputs.is_cuda else []
        with torch.random.fork_rng(devices=devices):
            while self.step < until and not self.finished:
                loss = self._advance()
                if observe is not None:
                    observe(self.step, loss)
        self.network.eval()

    def _advance(self) -> float:
        epoch, position = divmod(self.step, self.epoch_length)
        if self._order is None or position == 0:
            self._order = self._shuffled(epoch)
        torch.manual_seed(
            _mixed(self.seed, -1 - self.step)
        )  # inside the forked state: for layers that draw
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * decay(
                self.recipe.schedule, self.step, self.total
            )
        batch = self._batch(position)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.network(batch.inputs), batch.labels)
        loss.backward()
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.step += 1
        value = float(loss.detach())
        self._end_of_step(value, len(batch.labels), position)
        return value

    def _shuffled(self, epoch: int) -> Tensor | None:
        if self.recipe.batch == 0:
            return None
        generator = torch.Generator(device="cpu").manual_seed(_mixed(self.seed, epoch))
        return torch.randperm(len(self.samples.inputs), generator=generator, device="cpu").to(
            self.samples.inputs.device
        )

    def _batch(self, position: int) -> Samples:
        if self._order is None:
            return self.samples
        return self.samples.select(
            self._order[position * self.recipe.batch : (position + 1) * self.recipe.batch]
        )

    def _end_of_step(self, loss: float, count: int, position: int) -> None:
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"training diverged: loss {loss} at step {self.step}; try a smaller learning rate than {self.recipe.learning_rate}"
            )
        self._epoch_loss += loss * count / len(self.samples.inputs)
        if position == self.epoch_length - 1:
            if self.recipe.until_loss is not None and self._epoch_loss < self.recipe.until_loss:
                self.finished = True
            self._epoch_loss = 0.0
        self.finished = self.finished or self.step >= self.total

    def state(self) -> dict[str, Any]:
        """Everything a later run needs to go on, as tensors and plain containers."""
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
        self.step, self.finished = int(state["step"]), bool(state["finished"])
        self._epoch_loss = float(state["epoch_loss"])
        position = self.step % self.epoch_length
        self._order = self._shuffled(self.step // self.epoch_length) if position else None


def _mixed(seed: int, number: int) -> int:
    return (seed + _GOLDEN * (number + 1)) % 2**63


def make_optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The optimiser a recipe asks for."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
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
    """What the learning rate is multiplied with at a step: 1, linear from 1 to 0, or / 10 at each third."""
    if schedule == "linear":
        return 1 - step / total
    if schedule == "thirds":
        return 10.0 ** -min(2, 3 * step // total)
    return 1.0


def loss_function(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Mean loss of outputs (samples, outputs) against labels: `cross-entropy` or `squared-error` (half the sum over outputs)."""
    return _cross_entropy if name == "cross-entropy" else _squared_error


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    if outputs.shape[1] == 1:  # one output is the difference of two logits
        return functional.softplus((1 - 2 * labels.to(outputs.dtype)) * outputs[:, 0]).mean()
    return functional.cross_entropy(outputs, labels)


def _squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    if not labels.is_floating_point():
        labels = (
            functional.one_hot(labels, outputs.shape[1])
            if outputs.shape[1] > 1
            else 2 * labels[:, None] - 1
        )
    return 0.5 * (outputs - labels.to(outputs.dtype).reshape(outputs.shape)).square().sum(1).mean()


@torch.no_grad()
def evaluate(
    network: nn.Module, samples: Samples, *, loss: str = "cross-entropy", chunk: int = 1024
) -> tuple[float, float]:
    """Mean loss and accuracy (0 where labels are not classes) of a network in evaluation mode."""
    training = network.training
    network.eval()
    total, right = 0.0, 0
    for start in range(0, len(samples.inputs), chunk):
        inputs, labels = (
            samples.inputs[start : start + chunk],
            samples.labels[start : start + chunk],
        )
        outputs = network(inputs)
        total += float(loss_function(loss)(outputs, labels)) * len(labels)
        if not labels.is_floating_point():
            right += int((predictions(outputs) == labels).sum())
    network.train(training)
    return total / len(samples.inputs), right / len(samples.inputs)


@torch.no_grad()
def outputs(network: Callable[[Tensor], Tensor], inputs: Tensor, *, chunk: int = 1024) -> Tensor:
    """Outputs (samples, ...) of a network, some samples at a time; the network's mode stays as it is.

    Args:
        network: A module, or any function of a batch of inputs.
        inputs: Inputs (samples, ...).
        chunk: Samples a forward pass. Other chunks may round otherwise.

    Returns:
        The outputs without their graph.

    >>> outputs(lambda x: 2 * x, torch.ones(5, 1, device="cpu"), chunk=2).flatten().tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    parts = [network(part) for part in inputs.split(chunk)]
    return torch.cat(parts)


def predictions(outputs: Tensor) -> Tensor:
    """The class each row of outputs stands for; one output is the difference of two logits."""
    return (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)
