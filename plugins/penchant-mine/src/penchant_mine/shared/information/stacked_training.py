"""One training loop for every neural estimator: stacked networks, each on its own split.

Network r keeps its own block of samples for the reported value (blocks do not overlap while they
fit) and another for early stopping. What is reported is the state of a running average of the
weights that did best on the stopping block, where checks are averaged over a few: the largest of
many noisy values comes too early.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.device import compiled
from penchant_numerics.training import State
from torch import Generator, Tensor

from penchant_mine.shared.information.bounds import Bound
from penchant_mine.shared.information.statistics_stack import StatisticsStack, held_out_scores
from penchant_mine.shared.information.unlearnt_correlations import (
    MOST,
    gain_of_correlations,
    normal_ratio,
)
from penchant_mine.shared.information.unlearnt_lengths import gain_of_lengths

STOPPING_MARGINALS = 4  # shifts of a check; the reported value has more
GAIN = 0.25  # standard errors of the mean over networks: smaller gains do not count


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
    smoothed: int = 1


@dataclass(frozen=True)
class Pairing:
    """x and z (samples, size), and the number of x's partner in z: partners (networks, samples)."""

    x: Tensor
    z: Tensor
    partners: Tensor

    def pick(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs (networks, rows, size) with these numbers (networks, rows)."""
        partners = self.partners.gather(1, rows)
        return self.x[rows], self.z[partners]


@dataclass(frozen=True)
class Trained:
    """What a training found, one number per network: `best_step` is that of the best state."""

    held_out: Tensor
    training: Tensor
    sampling_error: Tensor
    training_error: Tensor
    best_step: Tensor
    steps: int
    diverged: int
    held_out_count: int
    curve: Tensor  # (checks, networks): value on the stopping block
    lengths_gain: tuple[float, float]  # what lengths add to the value, and its standard error
    correlations_gain: tuple[float, float]  # what correlations alone add
    contrasts_gain: float  # of the value with all marginal pairs over that with every second one

    @property
    def finite(self) -> bool:
        """Are values and errors numbers?"""
        numbers = torch.stack([self.held_out, self.training, self.sampling_error])
        finite = torch.isfinite(numbers)
        return bool(finite.all())


@dataclass(frozen=True)
class _Judged:
    """Scores of pairs, and the value and its error from the number of pairs (networks,)."""

    joint: Tensor
    marginal: Tensor
    shifts: list[int]
    value: Tensor
    error: Tensor


@dataclass(frozen=True)
class Split:
    """Sample numbers (networks, ...) of every network's splits."""

    test: Tensor
    stopping: Tensor
    training: Tensor


def split(samples: int, networks: int, recipe: Recipe, order: Tensor) -> Split:
    """Blocks of one random order, a network's moved on from the one before.

    So test blocks are disjoint where they fit.
    """
    test = max(2, round(recipe.held_out * samples))
    stopping = max(2, round(recipe.stopping * samples))
    step = samples // max(1, networks)
    # Network r begins r-th splits further along the same order.
    moved = [order.roll(-number * step) for number in range(networks)]
    rows = torch.stack(moved)
    end = test + stopping
    return Split(test=rows[:, :test], stopping=rows[:, test:end], training=rows[:, end:])


def train(
    stack: StatisticsStack,
    bound: Bound,
    recipe: Recipe,
    pairing: Pairing,
    rows: Split,
    generator: Generator,
) -> Trained:
    """Train every network on its own rows of its own pairs.

    Args:
        stack: The networks; their state is left as it is.
        bound: What is maximised.
        recipe: How.
        pairing: The pairs of every network.
        rows: Which of them every network learns from, stops on and is judged by.
        generator: For the order of samples.

    Returns:
        What was found when their mean gained no more, or the steps were used up.
    """
    # State, batches and checks are separate objects.
    weights = _Weights(stack, recipe)
    batches = _Batches(rows.training, recipe.batch, generator)
    loop = _Loop(stack, bound, recipe, pairing, rows, weights)
    # An untrained network is the first candidate: there may be nothing to learn.
    checks = [loop.check(0)]
    step = 0
    while step < recipe.steps and loop.since_gain < recipe.patience:
        loop.advance(batches.following())
        step += 1
        if step % recipe.check_every == 0 or step == recipe.steps:
            checks.append(loop.check(step))
    return loop.finish(step, torch.stack(checks))


class _Batches:
    """Rows of the training split: every network walks through its own order, pass after pass."""

    def __init__(self, rows: Tensor, batch: int, generator: Generator) -> None:
        self._rows = rows
        self._generator = generator
        self.size = min(batch, rows.shape[1])
        self._order: Tensor | None = None
        self._position = 0

    def following(self) -> Tensor:
        """Rows (networks, batch) of the next batch."""
        if self._order is None or self._position + self.size > self._order.shape[1]:
            # A new pass has a new order for every network.
            keys = torch.rand(self._rows.shape, generator=self._generator, device="cpu")
            order = keys.to(self._rows.device).argsort(1)
            self._order = self._rows.gather(1, order)
            self._position = 0
        start = self._position
        self._position += self.size
        return self._order[:, start : self._position]


class _Weights:
    """Parameters that learn, their running average, and the best of its states."""

    def __init__(self, stack: StatisticsStack, recipe: Recipe) -> None:
        trainable = {name for name, _ in stack.module.named_parameters()}
        self.learning: State = {}
        self.averaged: State = {}
        self.best: State = {}
        self.buffers: State = {}  # stay at initialisation
        for name, tensor in stack.state.items():
            if name not in trainable:
                self.buffers[name] = tensor
                continue
            self.learning[name] = tensor.clone().requires_grad_()
            self.averaged[name] = tensor.clone()
            self.best[name] = tensor.clone()
        # One optimiser: Adam treats every number by itself, so networks stay independent.
        parameters = list(self.learning.values())
        fused = parameters[0].device.type in ("cpu", "cuda")
        self._optimizer = torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=fused)
        self._average = recipe.average
        self._averages = 0

    def update(self, loss: Tensor) -> None:
        """One step down the loss, which enters the average."""
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()
        self._averages += 1
        # Young averages forget their start faster.
        young = self._averages / (self._averages + 9)
        weight = 1 - min(self._average, young)
        newest = [parameter.detach() for parameter in self.learning.values()]
        torch._foreach_lerp_(list(self.averaged.values()), newest, weight)

    def update_best(self, better: Tensor) -> None:
        """The averages of these networks (networks,) are the best so far."""
        for name, best in self.best.items():
            # Best states are updated network by network; a mask as index would have to be counted.
            further = [1] * (best.ndim - 1)
            chosen = better.reshape(-1, *further)
            self.best[name] = torch.where(chosen, self.averaged[name], best)


class _Loop:
    """Steps and checks of all networks, which go on while their mean gains.

    A gain that the mean's own standard error hides would not change what is reported.
    """

    def __init__(
        self,
        stack: StatisticsStack,
        bound: Bound,
        recipe: Recipe,
        pairing: Pairing,
        rows: Split,
        weights: _Weights,
    ) -> None:
        self.stack = stack
        self.bound = bound
        self.recipe = recipe
        self.pairing = pairing
        self.rows = rows
        self.weights = weights
        device = pairing.x.device
        count = len(stack)
        self.best_value = torch.full((count,), -math.inf, device=device, dtype=torch.float64)
        self.best_step = torch.zeros(count, device=device, dtype=torch.int64)
        self.diverged = torch.zeros(count, device=device, dtype=torch.bool)
        self.since_gain = 0
        self._gained_to = torch.tensor(-math.inf, device=device, dtype=torch.float64)
        self._recent: list[Tensor] = []
        self._step_scores = compiled(stack.scores, device, steps=recipe.steps)

    def advance(self, rows: Tensor) -> None:
        """One step of all networks; the gradient of the sum of losses is that of each."""
        shifts = shifts_for(rows.shape[1], self.recipe.shifts)
        x, z = self.pairing.pick(rows)
        state = {**self.weights.buffers, **self.weights.learning}
        scores = self._step_scores(x, z, shifts, state=state)
        joint, marginal = scores[:, 0], scores[:, 1:]
        loss = self.bound.loss(joint, marginal)
        # A network that diverges must not take the others along.
        finite = torch.isfinite(loss)
        losses = torch.where(finite, loss, 0.0)
        self.weights.update(losses.sum())

    def check(self, step: int) -> Tensor:
        """Judge the averaged weights on the stopping block and store those that are better."""
        # Checks are frequent, so they use fewer marginal pairs.
        marginals = min(STOPPING_MARGINALS, self.recipe.marginals)
        shifts = shifts_for(self.rows.stopping.shape[1], marginals)
        joint, marginal = self._scores(self.weights.averaged, self.rows.stopping, shifts)
        value = self.bound.value(joint, marginal)
        self.diverged |= ~torch.isfinite(value)
        # One lucky check is no gain: the mean of the last few is compared.
        recent = [*self._recent, value]
        self._recent = recent[-self.recipe.smoothed :]
        smooth = torch.stack(self._recent).mean(0)
        better = smooth > self.best_value  # never true for what is not a number
        self.best_value = torch.where(better, smooth, self.best_value)
        self.best_step = torch.where(better, step, self.best_step)
        self.weights.update_best(better)
        contributions = self.bound.contributions(joint, marginal, shifts)
        variance = contributions.var(1) / contributions.shape[1]
        self._count_gain(variance.mean() / len(variance))
        return value

    def _count_gain(self, variance: Tensor) -> None:
        """Has the mean of the best values gained since it last did, measured by its variance?"""
        mean = self.best_value.mean()
        gained = mean > self._gained_to + GAIN * variance.sqrt()
        self._gained_to = torch.where(gained, mean, self._gained_to)
        self.since_gain = 0 if gained else self.since_gain + 1

    def _scores(self, state: State, rows: Tensor, shifts: Sequence[int]) -> tuple[Tensor, Tensor]:
        x, z = self.pairing.pick(rows)
        return held_out_scores(self.stack, {**self.weights.buffers, **state}, x, z, shifts)

    def _judged(self, rows: Tensor) -> _Judged:
        """What the best states give on these rows."""
        count = rows.shape[1]
        shifts = shifts_for(count, self.recipe.marginals)
        joint, marginal = self._scores(self.weights.best, rows, shifts)
        contributions = self.bound.contributions(joint, marginal, shifts)
        value = self.bound.value(joint, marginal)
        return _Judged(joint, marginal, shifts, value, contributions.std(1) / math.sqrt(count))

    def _lengths_gain(self, judged: _Judged) -> tuple[float, float]:
        x, z = self.pairing.pick(self.rows.test)
        lengths = x.norm(dim=2), z.norm(dim=2)
        return gain_of_lengths(self.bound, judged.joint, judged.marginal, lengths, judged.shifts)

    def _correlations_gain(self, judged: _Judged) -> tuple[float, float]:
        widest = max(self.pairing.x.shape[1], self.pairing.z.shape[1])
        if widest > MOST:
            return 0.0, 0.0
        # One network's training samples at a time: they may be all there are.
        ratios = []
        for number in range(len(self.stack)):
            own = slice(number, number + 1)
            one = Pairing(self.pairing.x, self.pairing.z, self.pairing.partners[own])
            x, z = one.pick(self.rows.training[own])
            test_x, test_z = one.pick(self.rows.test[own])
            ratios.append(normal_ratio((x[0], z[0]), (test_x[0], test_z[0]), judged.shifts))
        joint, marginal = (torch.stack(each).to(judged.joint.dtype) for each in zip(*ratios))
        scores = judged.joint, judged.marginal
        return gain_of_correlations(self.bound, scores, (joint, marginal), judged.shifts)

    def _contrasts_gain(self, judged: _Judged) -> float:
        fewer = self.bound.value(judged.joint, judged.marginal[:, ::2])
        return float((judged.value - fewer).mean())

    def finish(self, steps: int, curve: Tensor) -> Trained:
        """Values and errors of the best states, on held-out and as many training samples."""
        count = self.rows.test.shape[1]
        # As many training samples as held-out ones, so that both are as noisy.
        held_out = self._judged(self.rows.test)
        training = self._judged(self.rows.training[:, :count])
        return Trained(
            held_out=held_out.value,
            training=training.value,
            sampling_error=held_out.error,
            training_error=training.error,
            best_step=self.best_step,
            steps=steps,
            diverged=int(self.diverged.sum()),
            held_out_count=count,
            curve=curve,
            lengths_gain=self._lengths_gain(held_out),
            correlations_gain=self._correlations_gain(held_out),
            contrasts_gain=self._contrasts_gain(held_out),
        )


def shifts_for(samples: int, count: int) -> list[int]:
    """At most `count` shifts 1, 2, ... that pair no sample with its own partner."""
    return list(range(1, 1 + min(count, samples - 1)))
