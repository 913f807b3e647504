"""Ensembles: network i is one definite network, however it is drawn."""

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.training import constructed, draw, draw_ahead, parameter_count
from penchant_numerics.training.ensembles import drawing
from torch import nn


class Drawn:
    """An architecture for tests: a factory, seeded by index."""

    def __init__(self, factory):
        self.factory = factory

    def seed_of(self, index):
        return 1000 + index

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.factory()


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, 2)
    )


def reinitialised():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 2))
    for parameter in network.parameters():
        nn.init.trunc_normal_(parameter, std=0.3)
    return network


class Buffered(nn.Module):
    """Random buffers made out of place: cannot be replayed."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(64) * 2)
        self.linear = nn.Linear(64, 2)

    def forward(self, inputs):
        return self.linear(inputs.flatten(1) * self.scale)


class Rescaled(nn.Module):
    """A parameter computed from its own draw: cannot be replayed."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 2)
        with torch.no_grad():
            self.linear.weight /= self.linear.weight.norm()

    def forward(self, inputs):
        return self.linear(inputs.flatten(1))


CASES = [
    (convolutional, "replayed"),
    (reinitialised, "replayed"),
    (Buffered, "constructed"),
    (Rescaled, "constructed"),
]


@pytest.mark.parametrize(("factory", "sampler"), CASES)
def test_drawn_networks_are_bit_identical_to_constructed_ones(factory, sampler):
    architecture = Drawn(factory)
    ensemble = draw(architecture, [4, 2, 9])
    assert ensemble.sampler == sampler
    for position, index in enumerate([4, 2, 9]):
        network = architecture.build(1000 + index)
        for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
            assert torch.equal(ensemble.state[name][position], tensor), name


@pytest.mark.parametrize(("factory", "sampler"), CASES)
def test_stacked_and_single_evaluation_agree_with_the_module(factory, sampler):
    architecture = Drawn(factory)
    inputs = torch.randn(5, 1, 8, 8)
    ensemble = draw(architecture, range(3), prepare=nn.Module.eval)
    stacked = ensemble.map(lambda network: network(inputs))
    one_by_one = torch.stack([network(inputs) for network in ensemble.each()])
    modules = torch.stack([architecture.build(1000 + index).eval()(inputs) for index in range(3)])
    torch.testing.assert_close(stacked, modules, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one_by_one, modules, rtol=1e-4, atol=1e-6)


def test_drawing_leaves_the_global_random_state_alone():
    before = torch.random.get_rng_state()
    draw(Drawn(convolutional), range(3))
    assert torch.equal(before, torch.random.get_rng_state())


def test_biases_can_be_taken_away():
    bare = draw(Drawn(convolutional), range(2), prepare=nn.Module.eval).without_biases()
    inputs = torch.randn(4, 1, 8, 8)
    doubled = bare.map(lambda network: network(2 * inputs))
    torch.testing.assert_close(
        doubled, 2 * bare.map(lambda network: network(inputs)), rtol=1e-4, atol=1e-5
    )


def test_a_constructed_network_depends_on_its_seed_only_and_leaves_no_trace():
    before = torch.get_rng_state()
    first, again, other = (constructed(lambda: nn.Linear(3, 2), seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)


class Counted(Drawn):
    """Knows how often it was asked to build."""

    def __init__(self, factory):
        super().__init__(factory)
        self.built = 0

    def build(self, seed):
        self.built += 1
        return super().build(seed)


def test_how_an_architecture_is_drawn_is_found_out_once():
    architecture = Counted(convolutional)
    first = draw(architecture, range(3))
    assert architecture.built == 2, "the first network and another one are made both ways"
    second = draw(architecture, range(3, 6))
    assert parameter_count(architecture) == 3 * 9 + 3 + 2 * 3 + 3 * 36 * 2 + 2
    assert architecture.built == 2
    whole = draw(Drawn(convolutional), range(6))
    for name, tensor in whole.state.items():
        assert torch.equal(torch.cat([first.state[name], second.state[name]]), tensor)


def test_what_somebody_does_to_a_drawn_module_stays_with_it():
    architecture = Drawn(convolutional)

    def spoilt(module):
        module[0].weight.fill_(7.0)
        module[2] = nn.Tanh()
        return module

    draw(architecture, [0], prepare=spoilt)
    module = draw(architecture, [0]).module
    assert isinstance(module[2], nn.ReLU) and (module[0].weight != 7.0).all()


@pytest.mark.parametrize(("factory", "sampler"), CASES)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_and_drawing_ahead_change_no_bit(factory, sampler, threads):
    blocks = [range(0, 3), range(3, 4), range(4, 9)]
    expected = draw(Drawn(factory), range(9)).state
    before = torch.random.get_rng_state()
    with drawing(threads, ahead=True):
        found = list(draw_ahead(Drawn(factory), blocks, prepare=nn.Module.eval))
    assert torch.equal(before, torch.random.get_rng_state())
    assert [len(ensemble) for ensemble in found] == [3, 1, 5]
    for name, tensor in expected.items():
        assert torch.equal(torch.cat([ensemble.state[name] for ensemble in found]), tensor)


def test_networks_with_a_draw_that_torch_does_not_see_are_constructed():
    """Numbers of Python's own: the first network replays, another one does not."""
    import random

    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            seen = random.Random(torch.initial_seed()).random()
            self.scale = nn.Parameter(torch.tensor([seen]))

    ensemble = draw(Drawn(Hidden), range(3))
    assert ensemble.sampler == "constructed"
    assert len(set(ensemble.state["scale"].flatten().tolist())) == 3


def test_what_a_drawing_thread_raises_is_raised(monkeypatch):
    from penchant_numerics.training import ensembles

    def broken(*anything):
        raise RuntimeError("no numbers left")

    architecture = Drawn(convolutional)
    draw(architecture, range(2))
    monkeypatch.setattr(ensembles, "_stacked", broken)
    monkeypatch.setattr(ensembles, "replay", broken)
    with drawing(2, ahead=True), pytest.raises(RuntimeError, match="no numbers left"):
        list(draw_ahead(architecture, [range(2), range(2, 4)]))


def test_a_network_that_is_built_seeds_no_other_device():
    """Seeds of devices that are not in use yet are kept by torch, each with a text of the stack."""
    bound = testing.architecture({"name": "import", "factory": testing.TINY}, shape=(4,))
    before = len(torch.cuda._queued_calls)
    bound(0)
    constructed(lambda: nn.Linear(2, 1), 7)
    assert len(torch.cuda._queued_calls) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="here memory can be page-locked")
def test_only_small_stacks_are_drawn_in_page_locked_memory(monkeypatch):
    """Without a GPU torch refuses to lock memory, which shows where it is tried."""
    from penchant_numerics.training import ensembles

    architecture = Drawn(convolutional)
    expected = draw(architecture, range(3)).state
    with drawing(1, pinned=True):
        with pytest.raises(RuntimeError, match="(?i)pin|accelerator|CUDA"):
            draw(architecture, range(3))
        size = sum(tensor.nbytes for tensor in expected.values())
        monkeypatch.setattr(ensembles, "_MOST_PINNED", size - 1)
        found = draw(architecture, range(3)).state
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
