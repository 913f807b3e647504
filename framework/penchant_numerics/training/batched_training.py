"""Many trainings of one measurement: one by one on a CPU, as stacks where the device profits.

On a CPU every item is a shard and a training of its own, so that trainings spread over workers.
Elsewhere many items are one shard, and its networks are trained side by side, in as few stacks as
the budget of bytes allows. Which networks share a stack follows from options, the device's type and
the setting `memory`, never from what is free.

What cannot share a stack is trained one by one everywhere, each a shard: a learning rate is chosen
among several, layers draw random numbers, inputs are streamed, torch cannot stack an operation. So
are networks whose steps take so many bytes that each keeps a device busy.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import lacks_batching, memory, warn_not_vectorised
from penchant_numerics.roles import EstimatorContext
from penchant_numerics.training.stacked import OneByOne, group_size, stack_trainings
from penchant_numerics.training.stacked_training import Stacked, stacking_obstacle, step_bytes
from torch import Tensor, nn

STACK_SHARE = 0.25  # what a stack may take of the budget
SHOWN = 4  # samples that tell whether a network can be stacked
SMALL = 2**26  # bytes of a step up to which a network alone leaves a GPU idle; an estimate

Row = dict[str, Any]


class Learner(NamedTuple):
    """A network and what it learns.

    Attributes:
        network: The network.
        samples: What it is trained on.
        keys: Tell its training from others; the order of samples comes from them.
        test: What a sweep of learning rates is judged on.
        step: Steps it has made.

    >>> samples = Samples(torch.ones(3, 2, device="cpu"), torch.zeros(3, device="cpu").long())
    >>> learner = Learner(nn.Linear(2, 2), samples, keys=("first", 0))
    >>> learner.step, learner._replace(step=10).step
    (0, 10)
    """

    network: nn.Module
    samples: Samples
    keys: tuple[Any, ...]
    test: Samples | None = None
    step: int = 0

    @property
    def test_samples(self) -> Samples:
        """`test` of a learner that was given some."""
        assert self.test is not None
        return self.test


Begin = Callable[[Any], Learner]
Evaluate = Callable[[Any, Learner], Any]
Group = list[tuple[Any, Learner]]


class Trains(EstimatorContext, Protocol):
    """What trains and spreads work over shards; a probe's context does."""

    @property
    def training(self) -> Any:
        """The recipe: a `trainer.Recipe`."""

    @property
    def architecture(self) -> Any:
        """What makes networks; it has a `shape`."""

    def network(self, index: int = 0, outputs: int | None = None) -> nn.Module:
        """A network of the architecture."""

    def train(
        self,
        network: nn.Module,
        samples: Samples,
        *keys: object,
        steps: Sequence[int] | None = None,
        test: Samples | None = None,
    ) -> Iterator[tuple[int, nn.Module]]:
        """Train a network, and yield (step, network) at some steps."""

    def map(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        *,
        shared: Mapping[str, Any] | None = None,
    ) -> Iterator[Row]:
        """Yield what a function makes of every item, each a shard."""


def map_trainings(
    context: Trains,
    function: Callable[[Any, Any], Row],
    items: Sequence[Any],
    *,
    outputs: int | None = None,
    alike: Callable[[Any], Any] | None = None,
    shared: Mapping[str, Any] | None = None,
) -> list[Row]:
    """A row for every item, in their order.

    Args:
        context: Spreads the shards.
        function: A function of a context and an item, made with `shard_of`; where trainings share
            stacks it is given lists of items.
        items: One a training.
        outputs: Of the networks that are trained, where not those of the architecture.
        alike: What neighbours have in common that may be one shard, where shapes in their rows
            depend on it.
        shared: What all shards are given.

    Returns:
        What the function found for each item.
    """
    size = trainings_a_shard(context, outputs)
    if size == 1:
        return list(context.map(function, items, shared=shared))

    # neighbours that are alike, as many as share a stack
    shards = []
    for _, same in itertools.groupby(items, alike or _always):
        neighbours = list(same)
        for first in range(0, len(neighbours), size):
            last = first + size
            shards.append(neighbours[first:last])

    # every item has its row again
    rows = []
    answers = context.map(function, shards, shared=shared)
    for shard, row in zip(shards, answers, strict=True):
        for position in range(len(shard)):
            rows.append({name: values[position] for name, values in row.items()})
    return rows


def trainings_a_shard(context: Trains, outputs: int | None = None) -> int:
    """How many trainings are one shard: as many as share a stack at most.

    Args:
        context: Where they are trained, and how.
        outputs: Of the networks, where not those of the architecture.

    Returns:
        One on a CPU, and for networks that cannot be stacked or need not be.
    """
    if group_size(context.device) == 1:
        return 1
    # any numbers will do: only shapes matter
    shape = context.architecture.shape
    inputs = torch.zeros(SHOWN, *shape, device=context.device, dtype=context.dtype)
    labels = torch.zeros(SHOWN, device=context.device, dtype=torch.int64)
    shown = Samples(inputs, labels)
    network = context.network(0, outputs=outputs)
    first = Learner(network, shown, keys=())
    return _limit(context, first).networks


def _always(item: Any) -> bool:
    """All items are alike."""
    return True


def shard_of(item: Any, rows: Callable[[list[Any]], list[Row]]) -> Row:
    """The answer of a shard: the row of its item, or rows stacked where it has a list of items.

    Args:
        item: The shard's.
        rows: Makes a row for each of several items.

    Returns:
        Values by name, stacked along a first axis for a list of items.

    >>> shard_of([2, 3], lambda items: [{"square": item**2} for item in items])
    {'square': array([4, 9])}
    """
    if not isinstance(item, list):
        return rows([item])[0]

    # one array per name
    rows_of_items = rows(item)
    stacked = {}
    for name in rows_of_items[0]:
        values = [row[name] for row in rows_of_items]
        stacked[name] = _stacked(values)
    return stacked


def _stacked(values: list[Any]) -> Any:
    if isinstance(values[0], Tensor):
        return torch.stack(values)
    return np.array(values)


def measured(context: Trains, item: Any, begin: Begin, measure: Evaluate) -> Row:
    """The answer of a shard whose items are trained to the end and then measured.

    Args:
        context: Trains.
        item: The shard's: one, or a list of several.
        begin: Makes the learner of an item.
        measure: Makes a row of an item and its trained learner.

    Returns:
        As `shard_of` has it.
    """

    def rows(items: list[Any]) -> list[Row]:
        by_item = train_and_evaluate(context, items, begin, measure)
        return [by_step[-1] for by_step in by_item]

    return shard_of(item, rows)


def train_and_evaluate(
    context: Trains,
    items: Sequence[Any],
    begin: Begin,
    evaluate: Evaluate,
    *,
    steps: Sequence[int] | None = None,
) -> list[list[Any]]:
    """Train a learner for every item, and evaluate it at some steps.

    Args:
        context: Trains.
        items: One per learner.
        begin: Makes the learner of an item.
        evaluate: Called with an item and its learner at that step, in evaluation mode.
        steps: When; by default at the end only.

    Returns:
        The results by item and step. After an early stop the last one is repeated.
    """
    requested = None if steps is None else sorted(set(steps))
    results = []
    for group in stacks(context, items, begin):
        if len(group) == 1:
            results.append(_evaluate_one(context, *group[0], evaluate, requested))
        else:
            results += _evaluate_stack(context, group, evaluate, requested)
    return results


def _evaluate_one(
    context: Trains, item: Any, learner: Learner, evaluate: Evaluate, steps: list[int] | None
) -> list[Any]:
    """Results of one learner, by step."""
    trained = context.train(
        learner.network, learner.samples, *learner.keys, steps=steps, test=learner.test
    )
    evaluations = []
    for step, network in trained:
        now = learner._replace(network=network, step=step)
        evaluations.append(evaluate(item, now))
    # after an early stop nothing changes
    missing = 0
    if steps is not None:
        missing = len(steps) - len(evaluations)
    return evaluations + evaluations[-1:] * missing


def _evaluate_stack(
    context: Trains, group: Group, evaluate: Evaluate, steps: list[int] | None
) -> list[list[Any]]:
    """Results of learners that share a stack, by learner and step."""
    learners = [learner for _, learner in group]
    training = train_together(context, learners)
    if steps is None:
        steps = [training.total]
    results: list[list[Any]] = [[] for _ in group]
    for until in steps:
        training.run(until)
        trained = training.networks()
        for number, (item, learner) in enumerate(group):
            now = learner._replace(network=trained[number], step=training.steps[number])
            results[number].append(evaluate(item, now))
    for network, learner in zip(training.networks(), learners):
        # no step is left, but the context says so where nothing was learnt
        for _ in context.train(network, learner.samples, *learner.keys, steps=()):
            pass
    return results


def train_together(context: Trains, learners: Sequence[Learner]) -> OneByOne | Stacked:
    """A training of these learners that has not begun; each has its own order of samples."""
    # as if each were trained separately
    seeds = []
    for learner in learners:
        generator = context.generator("training", *learner.keys)
        seeds.append(generator.initial_seed())

    networks = [learner.network for learner in learners]
    samples = [learner.samples for learner in learners]
    return stack_trainings(networks, samples, context.training, seeds=seeds)


def stacks(context: Trains, items: Sequence[Any], begin: Begin) -> Iterator[Group]:
    """Items with their learners, as many at a time as are trained together.

    Args:
        context: Where they are trained, and how.
        items: One per learner.
        begin: Makes the learner of an item, which then holds its samples.

    Yields:
        Neighbours of equally many samples.
    """
    limit = None
    waiting: Group = []
    for item in items:
        learner = begin(item)
        if limit is None:
            limit = _limit(context, learner) if len(items) > 1 else _Limit(1)
        if waiting and not limit.takes([each for _, each in waiting], learner):
            yield waiting
            waiting = []
        waiting.append((item, learner))
        # at once, so that the next one is not made before its turn
        if len(waiting) == limit.networks:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


class _Limit(NamedTuple):
    """How much a stack may be: networks, their bytes in a step, and bytes of everything."""

    networks: int
    bytes_each: int = 0
    bytes_allowed: int = 0

    def takes(self, learners: list[Learner], another: Learner) -> bool:
        """Whether another learner may join these."""
        count = len(learners[0].samples.labels)
        if len(another.samples.labels) != count:
            return False
        samples = [learner.samples for learner in (*learners, another)]
        # a step of all of them, and their samples behind each other
        a_step = len(samples) * self.bytes_each
        needed = a_step + _copied_bytes(samples)
        return needed <= self.bytes_allowed


def _limit(context: Trains, first: Learner) -> _Limit:
    """How much may share a stack with this learner."""
    single = _Limit(1)
    recipe = context.training
    most = group_size(context.device)
    swept = getattr(recipe, "learning_rates", ())
    if most == 1 or swept:
        return single
    samples = len(first.samples.labels)
    if recipe.total_steps(samples) == 0:
        return single
    if stacking_obstacle([first.network], [first.samples], recipe) is not None:
        return single
    # whether a network can be stacked is known for certain when it was
    try:
        each = step_bytes(first.network, first.samples, recipe)
    except RuntimeError as error:
        if not lacks_batching(error):
            raise
        warn_not_vectorised(error, "trainings")
        return single
    if each > SMALL:
        return single
    allowed = int(STACK_SHARE * memory.available(context.device))
    return _Limit(most, each, allowed)


def _copied_bytes(samples: Sequence[Samples]) -> int:
    """Bytes of the samples of a stack: as they are given, and their copies behind each other."""
    total = 0
    for tensors in zip(*samples, strict=True):
        # what all share is not copied
        first = tensors[0]
        shared = all(tensor is first for tensor in tensors)
        if not shared:
            given = sum(tensor.nbytes for tensor in tensors)
            total += 2 * given
    return total
