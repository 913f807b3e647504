"""Networks trained side by side: a stack makes the steps of `Trainer`, network by network."""

from dataclasses import dataclass

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.data import Samples, stream
from penchant_numerics.device import precision
from penchant_numerics.training import stacked as side
from penchant_numerics.training.stacked_training import layer_obstacle, step_bytes
from torch import nn

COUNT, SAMPLES = 3, 14
HOST = {"device": "cpu", "dtype": torch.float64}


@dataclass
class Recipe:
    """A training, as a probe is given it."""

    steps: int = 12
    batch: int = 4
    optimizer: str = "sgd"
    learning_rate: float = 0.05
    schedule: str = "constant"
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    loss: str = "cross-entropy"
    until_loss: float | None = None

    def total_steps(self, samples):
        return self.steps

    def steps_per_epoch(self, samples):
        return -(-samples // self.batch) if self.batch else 1


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), (4,)


def lenet():
    """With batch-norm; without parameters whose gradient is zero, where Adam follows rounding."""
    layers = [nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.Tanh(), nn.AvgPool2d(2)]
    layers += [nn.Conv2d(3, 4, 2, bias=False), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, 3)), (1, 8, 8)


def build(make):
    """Networks of one kind with data of their own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        networks = [make()[0].double() for _ in range(COUNT)]
        shape = make()[1]
        samples = []
        for _ in range(COUNT):
            inputs = torch.randn(SAMPLES, *shape, **HOST)
            samples.append(Samples(inputs, torch.randint(0, 3, (SAMPLES,), device="cpu")))
    return networks, samples


def trained(kind, make, recipe, limit=None, stops=(None,)):
    networks, samples = build(make)
    training = kind(networks, samples, recipe, seeds=[5, 6, 7], limit=limit)
    for until in stops:
        training.run(until)
    return training


def assert_same(single, stacked):
    for one, other in zip(single.networks(), stacked.networks()):
        ours = other.state_dict()
        for name, value in one.state_dict().items():
            torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-11)
    assert single.steps == stacked.steps


RECIPES = {
    "full batches": Recipe(batch=0),
    "mini-batches": Recipe(),
    "momentum": Recipe(momentum=0.9, weight_decay=0.01, schedule="linear"),
    "thirds": Recipe(schedule="thirds", clip=0.3),
    "adam": Recipe(optimizer="adam", learning_rate=0.01, weight_decay=0.1),
    "adam, clipped": Recipe(optimizer="adam", clip=0.2, batch=0, loss="squared-error"),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
@pytest.mark.parametrize("make", [mlp, lenet])
def test_a_stack_makes_the_steps_of_single_trainings(make, recipe):
    single, stacked = (
        trained(kind, make, recipe, stops=(7, None)) for kind in (side.OneByOne, side.Stacked)
    )
    assert_same(single, stacked)
    points = build(make)[1][0].inputs
    torch.testing.assert_close(
        stacked.outputs(points), single.outputs(points), rtol=1e-9, atol=1e-11
    )
    for name, weight in single.weights().items():
        torch.testing.assert_close(stacked.weights()[name], weight, rtol=1e-9, atol=1e-11)


def test_parameters_are_clamped_after_every_step():
    single, stacked = (
        trained(kind, mlp, Recipe(batch=0), limit=0.2) for kind in (side.OneByOne, side.Stacked)
    )
    assert_same(single, stacked)
    assert max(float(value.abs().max()) for value in stacked.ensemble().state.values()) <= 0.2


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_each_network_ends_when_its_own_loss_is_small_enough(optimizer):
    recipe = Recipe(
        steps=200, until_loss=0.75, momentum=0.9, optimizer=optimizer, learning_rate=0.05
    )
    single, stacked = (trained(kind, mlp, recipe) for kind in (side.OneByOne, side.Stacked))
    assert_same(single, stacked)
    assert len(set(stacked.steps)) > 1  # not all at once
    assert max(stacked.steps) < 200


def test_frozen_parameters_stay_and_the_given_networks_too():
    networks, samples = build(lenet)
    before = [{name: v.clone() for name, v in each.state_dict().items()} for each in networks]
    for network in networks:
        network[0].weight.requires_grad_(False)
    training = side.Stacked(networks, samples, Recipe(), seeds=[0, 1, 2])
    training.run()
    for network, state, after in zip(networks, before, training.networks()):
        for name, value in network.state_dict().items():
            assert torch.equal(value, state[name])
        assert torch.equal(after[0].weight, state["0.weight"])
        assert not torch.equal(after[4].weight, state["4.weight"])


def test_shared_samples_are_not_copied():
    networks, samples = build(mlp)
    shared = [samples[0]] * COUNT
    training = side.Stacked(networks, shared, Recipe(), seeds=[5, 6, 7])
    assert training._data.inputs.data_ptr() == samples[0].inputs.data_ptr()
    training.run()
    single = side.OneByOne(build(mlp)[0], shared, Recipe(), seeds=[5, 6, 7])
    single.run()
    assert_same(single, training)


def test_what_cannot_be_stacked_is_refused_with_its_reason():
    networks, samples = build(mlp)
    for network in networks:
        network.append(nn.Dropout(0.1))
    with pytest.raises(ValueError, match=r"layer '3' \(Dropout\) draws random numbers"):
        side.Stacked(networks, samples, Recipe(), seeds=[0, 1, 2])
    fewer = [*samples[:2], Samples(samples[2].inputs[:9], samples[2].labels[:9])]
    with pytest.raises(ValueError, match="different numbers of samples, 9 to 14"):
        side.Stacked(build(mlp)[0], fewer, Recipe(), seeds=[0, 1, 2])
    counting = nn.Sequential(nn.BatchNorm1d(4, momentum=None))
    assert "counts its batches" in layer_obstacle(counting)
    with pytest.raises(ValueError, match="found 2 seeds for 3 networks"):
        side.Stacked(build(mlp)[0], samples, Recipe(), seeds=[0, 1])


def test_the_rule_stacks_on_a_gpu_only():
    networks, samples = build(mlp)
    training = side.stack_trainings(networks, samples, Recipe(), seeds=[0, 1, 2])
    assert isinstance(training, side.OneByOne)
    assert side.groups(5, torch.device("cuda")) == [[0, 1, 2, 3, 4]]
    assert side.groups(2, torch.device("cpu")) == [[0], [1]]


def test_divergence_names_the_networks():
    networks, samples = build(mlp)
    with torch.no_grad():
        networks[1][2].bias.fill_(1e200)  # its square is beyond the range of numbers
    recipe = Recipe(loss="squared-error", steps=3)
    training = side.Stacked(networks, samples, recipe, seeds=[0, 1, 2])
    with pytest.raises(FloatingPointError, match=r"diverged before step 3, networks \[1\]"):
        training.run()


def told_losses(kind, recipe):
    """What a training tells of its losses, by network and step."""
    networks, samples = build(mlp)
    training = kind(networks, samples, recipe, seeds=[5, 6, 7])
    found = {}

    def record(number, step, loss):
        assert (number, step) not in found
        found[number, step] = loss

    training.run(7, losses=record)
    training.run(losses=record)
    return training, found


@pytest.mark.parametrize("until_loss", [None, 0.75])
def test_the_loss_of_every_step_is_told(until_loss):
    recipe = Recipe(steps=60, momentum=0.9, until_loss=until_loss, learning_rate=0.05)
    single, expected = told_losses(side.OneByOne, recipe)
    stacked, found = told_losses(side.Stacked, recipe)
    assert single.steps == stacked.steps and len(found) == sum(stacked.steps)
    assert found == pytest.approx(expected, rel=1e-9)
    by_hand = [(number, step) for number in range(COUNT) for step in range(1, 8)]
    assert set(by_hand) <= found.keys()


def counted(kind, steps, *, networks=COUNT, **named):
    """Waits, copies to the device and launches of a run on the emulated device."""
    with testing.emulated_device() as counts:
        _, samples = build(mlp)
        places = [number % COUNT for number in range(networks)]
        placed = [build(mlp)[0][place].to("emulated") for place in places]
        data = [samples[place].to("emulated", torch.float64) for place in places]
        training = kind(placed, data, Recipe(steps=steps), seeds=places)
        before = counts.waits, counts.by_kind().get("to device", 0), counts.launches
        training.run(**named)
        after = counts.waits, counts.by_kind().get("to device", 0), counts.launches
    return [new - old for new, old in zip(after, before)]


def test_a_stack_waits_for_the_device_every_fifty_steps_at_most():
    told = []
    waits, sent, _ = counted(side.Stacked, 12)
    assert waits == 1  # whether all is finite, at the end
    assert sent == 3 + 1  # the order of an epoch, which has four steps; numbers of networks once
    waits, _, _ = counted(side.Stacked, 52, losses=lambda *each: told.append(each))
    assert waits == 1 + 2
    assert len(told) == 52 * COUNT


def test_launches_of_a_stack_do_not_grow_with_its_networks():
    few, many = (counted(side.Stacked, 4, networks=count)[2] for count in (2, 4))
    assert few == many
    few, many = (counted(side.OneByOne, 4, networks=count)[2] for count in (2, 4))
    assert many == 2 * few


def test_a_stack_has_the_precision_of_trainings():
    def weights(kind):
        networks, samples = build(mlp)
        single = [network.float() for network in networks]
        data = [part.to("cpu", torch.float32) for part in samples]
        training = kind(single, data, Recipe(steps=5), seeds=[0, 1, 2])
        training.run()
        return training.ensemble().state["0.weight"]

    exact = weights(side.OneByOne)
    with precision.chosen("bfloat16-training"):
        single, stacked = weights(side.OneByOne), weights(side.Stacked)
    assert float((single - exact).abs().max()) > 1e-5
    assert float((stacked - exact).abs().max()) > 1e-5  # eight bits, not twenty-four
    torch.testing.assert_close(stacked, single, rtol=0, atol=1e-3)


def test_streamed_inputs_are_not_stacked():
    networks, samples = build(mlp)
    streamed = [stream((part.inputs.float().numpy(), part.labels.numpy())) for part in samples]
    assert "streamed" in side.stacking_obstacle(networks, streamed, Recipe())


def test_bytes_of_a_step_are_those_of_parameters_and_activations():
    network = nn.Sequential(nn.Linear(100, 200), nn.Tanh(), nn.Linear(200, 3)).double()
    inputs, labels = torch.randn(64, 100, **HOST), torch.zeros(64, dtype=torch.long, device="cpu")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    parameters = 8 * sum(parameter.numel() for parameter in network.parameters())
    taken = step_bytes(network, Samples(inputs, labels), Recipe(batch=32, optimizer="adam"))
    # values and their copies, gradients, two moments and what Adam makes of them
    assert 4 * parameters < taken < 9 * parameters
    larger = step_bytes(network, Samples(inputs, labels), Recipe(batch=0, optimizer="adam"))
    # of every sample Tanh's outputs are stored, and logarithms of probabilities
    stored = (larger - taken) / (32 * 8)
    assert 195 <= stored <= 210
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
