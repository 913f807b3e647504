"""Many trainings of a measurement: which share a stack, and what is told of them."""

import contextlib
import inspect
from types import SimpleNamespace

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import memory
from penchant_numerics.training import (
    Learner,
    batched_training,
    map_trainings,
    shard_of,
    stacks,
    train_and_evaluate,
)
from torch import nn

STEPS = {"steps": 3, "batch": 4, "learning_rate": 0.1}


class Trains:
    """What a probe's context is to trainings; it notes what it trains by itself."""

    dtype = torch.float32
    architecture = SimpleNamespace(shape=(3,))

    def __init__(self, device="cpu", make=lambda outputs: nn.Linear(3, outputs), **recipe):
        self.device = torch.device(device)
        self.make = make
        self.training = penchant.Training(**{**STEPS, **recipe})
        self.alone = []

    def network(self, index=0, outputs=None):
        assert self.device.type != "cpu"  # on a CPU nothing is drawn to find out
        return self.make(outputs or 2).to(self.device)

    def generator(self, *keys):
        return torch.Generator(device="cpu").manual_seed(hash(keys) % 1000)

    def train(self, network, samples, *keys, steps=None, test=None):
        self.alone.append((keys, steps))
        if steps != ():
            yield self.training.total_steps(len(samples.labels)), network

    def map(self, function, items, shared=None):
        for item in items:
            yield function(self, item)


class Odd(nn.Module):
    """Reads a number, which no stack can."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 2)

    def forward(self, x):
        return self.line(x) * (1.0 if float(x.sum()) > 0 else 2.0)


class Dropping(nn.Module):
    """Draws random numbers without a layer that says so."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 2)

    def forward(self, x):
        return self.line(nn.functional.dropout(x, 0.5, self.training))


def place(device):
    """A device by name, which may have to be emulated."""
    return testing.emulated_device() if device == "emulated" else contextlib.nullcontext()


def learner(device, number=0, *, samples=None, count=8, make=lambda: nn.Linear(3, 2)):
    generator = torch.Generator(device="cpu").manual_seed(number)
    if samples is None:
        inputs = torch.randn(count, 3, generator=generator, device="cpu")
        labels = torch.arange(count, device="cpu") % 2
        samples = Samples(inputs, labels).to(device, torch.float32)
    return Learner(make().to(device), samples, (number,))


def sizes(context, begin, items=range(5)):
    return [len(group) for group in stacks(context, list(items), begin)]


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_stacks_are_of_the_device_s_size(device):
    with place(device):
        found = sizes(Trains(device), lambda item: learner(device, item), range(40))
    assert found == ([1] * 40 if device == "cpu" else [32, 8])


def test_on_a_cpu_no_learner_is_made_before_its_turn():
    made = []

    def begin(item):
        made.append(item)
        return learner("cpu", item)

    for number, _ in enumerate(stacks(Trains(), [0, 1, 2], begin)):
        assert made == list(range(number + 1))


@pytest.mark.parametrize(
    ("recipe", "make"),
    [
        ({"learning_rates": (0.1, 0.2)}, lambda: nn.Linear(3, 2)),
        ({"steps": 0}, lambda: nn.Linear(3, 2)),
        ({}, lambda: nn.Sequential(nn.Dropout(0.1), nn.Linear(3, 2))),
        ({}, Odd),
        ({}, Dropping),
    ],
)
@pytest.mark.filterwarnings("default::penchant_numerics.device.vectorisation.NotVectorisedWarning")
def test_what_cannot_be_stacked_is_trained_alone(recipe, make):
    with testing.emulated_device():
        context = Trains("emulated", make=lambda outputs: make(), **recipe)
        assert sizes(context, lambda item: learner("emulated", item, make=make)) == [1] * 5
        assert batched_training.trainings_a_shard(context) == 1


def test_neighbours_of_equally_many_samples_share_a_stack():
    counts = [8, 8, 9, 9, 9, 8]
    with testing.emulated_device():
        found = sizes(
            Trains("emulated"), lambda item: learner("emulated", item, count=counts[item]), range(6)
        )
    assert found == [2, 3, 1]


def test_a_stack_fits_into_its_share_of_the_budget():
    with testing.emulated_device():
        shared = learner("emulated", count=1000).samples
        context = Trains("emulated")
        # samples of their own: 1000 inputs of 3 numbers and labels, 20 kB, twice
        with memory.budget(4 * 130_000):
            assert sizes(context, lambda item: learner("emulated", item, count=1000)) == [3, 2]
            # those that all share are not copied
            assert sizes(context, lambda item: learner("emulated", item, samples=shared)) == [5]
        with memory.budget(4):
            assert sizes(context, lambda item: learner("emulated", item)) == [1] * 5


def test_an_item_is_a_shard_on_a_cpu_and_a_list_elsewhere():
    given = []

    def square(context, item):
        given.append(item)
        return shard_of(item, lambda items: [{"square": each**2} for each in items])

    assert map_trainings(Trains(), square, [1, 2, 3]) == [
        {"square": 1},
        {"square": 4},
        {"square": 9},
    ]
    with testing.emulated_device():
        rows = map_trainings(Trains("emulated"), square, list(range(34)))
    assert [row["square"] for row in rows] == [number**2 for number in range(34)]
    assert given == [1, 2, 3, list(range(32)), [32, 33]]


def test_neighbours_that_are_not_alike_are_shards_of_their_own():
    def counted(context, item):
        return shard_of(item, lambda items: [{"numbers": np.ones(each)} for each in items])

    with testing.emulated_device():
        context = Trains("emulated")
        found = map_trainings(context, counted, [2, 2, 3, 2], alike=lambda item: item)
    assert [len(row["numbers"]) for row in found] == [2, 2, 3, 2]


def test_a_network_that_keeps_a_device_busy_is_trained_alone(monkeypatch):
    with testing.emulated_device():
        one = learner("emulated")
        context = Trains("emulated")
        taken = batched_training.step_bytes(one.network, one.samples, context.training)
        monkeypatch.setattr(batched_training, "SMALL", taken)
        assert sizes(context, lambda item: learner("emulated", item)) == [5]
        assert batched_training.trainings_a_shard(context) == 32
        monkeypatch.setattr(batched_training, "SMALL", taken - 1)
        assert sizes(context, lambda item: learner("emulated", item)) == [1] * 5
        assert batched_training.trainings_a_shard(context) == 1


def test_rows_of_tensors_are_stacked():
    found = shard_of([1, 2], lambda items: [{"row": torch.ones(3) * item} for item in items])
    np.testing.assert_array_equal(found["row"], [[1, 1, 1], [2, 2, 2]])


def test_the_context_judges_every_network_of_a_stack():
    with testing.emulated_device():
        context = Trains("emulated")
        seen = train_and_evaluate(
            context,
            [4, 5],
            lambda item: learner("emulated", item),
            lambda item, now: (item, now.step),
            steps=[0, 2, 3, 3],
        )
    assert seen == [[(4, 0), (4, 2), (4, 3)], [(5, 0), (5, 2), (5, 3)]]
    assert context.alone == [((4,), ()), ((5,), ())]


def test_a_context_has_what_trainings_ask_of_it():
    for name, method in inspect.getmembers(batched_training.Trains, inspect.isfunction):
        if not name.startswith("_"):
            assert callable(getattr(penchant.Context, name)), (name, method)
