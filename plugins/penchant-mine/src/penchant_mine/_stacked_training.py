"""One training loop for every neural estimator: stacked networks, each on its own split, stopped on samples kept for that.

Network r keeps its own block of samples for the reported value (blocks do not overlap while they fit) and another for early
stopping. What is reported is the state of a running average of the weights that did best on the stopping block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.ensembles import State
from torch import Generator, Tensor

from penchant_mine._bounds import Bound
from penchant_mine._statistics_stack import StatisticsStack, held_out_scores


@dataclass(frozen=True)
class Recipe:
    """How statistics networks are trained and judged."""

    steps: int
    batch: int
    learning_rate: float
    shifts: int
    check_every: int
    patience: int
    average: float
    held_out: float
    stopping: float
    marginals: int


@dataclass(frozen=True)
class Pairing:
    """x and z (samples, size), and the number of x's partner in z for every network: partners (networks, samples)."""

    x: Tensor
    z: Tensor
    partners: Tensor

    def pick(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs (networks, rows, size) with these numbers (networks, rows)."""
        return self.x[rows], self.z[self.partners.gather(1, rows)]


@dataclass(frozen=True)
class Trained:
    """What a training found, one number a network: `best_step` is where the kept state was reached."""

    held_out: Tensor
    training: Tensor
    sampling_error: Tensor
    best_step: Tensor
    steps: int
    diverged: int
    held_out_count: int
    curve: Tensor  # (checks, networks): value on the stopping block


@dataclass(frozen=True)
class Split:
    """Sample numbers (networks, ...) of every network's parts."""

    test: Tensor
    stopping: Tensor
    training: Tensor


def split(samples: int, networks: int, recipe: Recipe, order: Tensor) -> Split:
    """Blocks of one random order, a network's moved on from the one before, so that test blocks are disjoint where they fit."""
    test, stopping = (
        max(2, round(recipe.held_out * samples)),
        max(2, round(recipe.stopping * samples)),
    )
    step = samples // max(1, networks)
    rows = torch.stack([order.roll(-number * step) for number in range(networks)])
    return Split(rows[:, :test], rows[:, test : test + stopping], rows[:, test + stopping :])


def train(
    stack: StatisticsStack,
    bound: Bound,
    recipe: Recipe,
    pairing: Pairing,
    rows: Split,
    generator: Generator,
) -> Trained:
    """Train every network on its own rows of its own pairs, until none of them gains or the steps are used up."""
    loop = _Loop(stack, bound, recipe, pairing, rows, generator)
    checks = [loop.check(0)]
    step = 0
    while step < recipe.steps and loop.since_best < recipe.patience:
        loop.advance()
        step += 1
        if step % recipe.check_every == 0 or step == recipe.steps:
            checks.append(loop.check(step))
    return loop.finish(step, torch.stack(checks))


class _Loop:
    def __init__(
        self,
        stack: StatisticsStack,
        bound: Bound,
        recipe: Recipe,
        pairing: Pairing,
        rows: Split,
        generator: Generator,
    ) -> None:
        self.stack, self.bound, self.recipe, self.pairing, self.rows, self.generator = (
            stack,
            bound,
            recipe,
            pairing,
            rows,
            generator,
        )
        self.device = pairing.x.device
        trainable = {name for name, _ in stack.module.named_parameters()}
        own = {name: tensor for name, tensor in stack.state.items() if name in trainable}
        self.buffers = {
            name: tensor for name, tensor in stack.state.items() if name not in trainable
        }  # stay as they were drawn
        self.parameters = {name: tensor.clone().requires_grad_() for name, tensor in own.items()}
        self.averaged = {name: tensor.clone() for name, tensor in own.items()}
        self.best = {name: tensor.clone() for name, tensor in own.items()}
        fused = self.device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(
            list(self.parameters.values()), lr=recipe.learning_rate, fused=fused
        )
        self.best_value = torch.full(
            (len(stack),), -math.inf, device=self.device, dtype=torch.float64
        )
        self.best_step = torch.zeros(len(stack), device=self.device, dtype=torch.int64)
        self.diverged = torch.zeros(len(stack), device=self.device, dtype=torch.bool)
        self.since_best = 0
        self.batch = min(recipe.batch, rows.training.shape[1])
        self.shifts = range(1, 1 + min(recipe.shifts, self.batch - 1))
        self._order: Tensor | None = None
        self._position = 0
        self._averages = 0

    def advance(self) -> None:
        """One step of all networks; the sum of their losses keeps their gradients apart."""
        scores = self.stack.scores(
            *self.pairing.pick(self._next_batch()),
            self.shifts,
            state={**self.buffers, **self.parameters},
        )
        loss = self.bound.loss(scores[:, 0], scores[:, 1:])
        self.optimizer.zero_grad(set_to_none=True)
        torch.where(torch.isfinite(loss), loss, 0.0).sum().backward()
        self.optimizer.step()
        self._averages += 1
        weight = 1 - min(
            self.recipe.average, self._averages / (self._averages + 9)
        )  # young averages forget their start faster
        torch._foreach_lerp_(
            list(self.averaged.values()), [p.detach() for p in self.parameters.values()], weight
        )

    def _next_batch(self) -> Tensor:
        """Rows of the training part: every network walks through its own random order, a pass after another."""
        if self._order is None or self._position + self.batch > self._order.shape[1]:
            keys = torch.rand(self.rows.training.shape, generator=self.generator, device="cpu").to(
                self.device
            )
            self._order, self._position = self.rows.training.gather(1, keys.argsort(1)), 0
        chosen = self._order[:, self._position : self._position + self.batch]
        self._position += self.batch
        return chosen

    def check(self, step: int) -> Tensor:
        """Judge the averaged weights on the stopping block and keep those that are better than before."""
        value = self._value(self.averaged, self.rows.stopping, min(4, self.recipe.marginals))
        better = value > self.best_value  # never true for what is not a number
        self.diverged |= ~torch.isfinite(value)
        self.best_value = torch.where(better, value, self.best_value)
        self.best_step[better] = step
        for name, kept in self.best.items():
            kept[better] = self.averaged[name][better]
        self.since_best = 0 if bool(better.any()) else self.since_best + 1
        return value

    def _value(self, state: State, rows: Tensor, marginals: int) -> Tensor:
        return self.bound.value(*self._scores(state, rows, shifts_for(rows.shape[1], marginals)))

    def _scores(self, state: State, rows: Tensor, shifts: Sequence[int]) -> tuple[Tensor, Tensor]:
        return held_out_scores(
            self.stack, {**self.buffers, **state}, *self.pairing.pick(rows), shifts
        )

    def finish(self, steps: int, curve: Tensor) -> Trained:
        """Value, error and training value of the kept states."""
        test, count = self.rows.test, self.rows.test.shape[1]
        shifts = shifts_for(count, self.recipe.marginals)
        joint, marginal = self._scores(self.best, test, shifts)
        error = self.bound.contributions(joint, marginal, shifts).std(1) / math.sqrt(count)
        seen = self.rows.training[:, :count]
        return Trained(
            held_out=self.bound.value(joint, marginal),
            training=self._value(self.best, seen, self.recipe.marginals),
            sampling_error=error,
            best_step=self.best_step,
            steps=steps,
            diverged=int(self.diverged.sum()),
            held_out_count=count,
            curve=curve,
        )


def shifts_for(samples: int, wanted: int) -> list[int]:
    """Shifts 1, 2, ... that pair no sample with its own partner."""
    return list(range(1, 1 + min(wanted, samples - 1)))
