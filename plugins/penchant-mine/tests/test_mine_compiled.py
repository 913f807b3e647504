"""`information.stacked_training`: steps that are compiled, as on CUDA, give plain steps' values.

The first backend takes what torch has recorded and runs it as it is, the second writes C++ first,
which takes ten seconds.
"""

import warnings

import pytest
import torch
import torch._dynamo
from penchant_mine.shared.information.bounds import DonskerVaradhan
from penchant_mine.shared.information.stacked_training import Pairing, Recipe, split, train
from penchant_mine.shared.information.statistics_stack import StatisticsStack
from penchant_numerics.device import compilation, compiling
from penchant_numerics.training import ensembles
from torch import nn

# What torch's compiler says of itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
STEPS = 12


def generator(seed):
    return torch.Generator(device="cpu").manual_seed(seed)


class Drawn:
    """Networks by number, in double precision."""

    def __init__(self, make):
        self.make = make

    def seed_of(self, index):
        return index

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make().double()


NETWORKS = {
    # multiplied out, a few shifts at a time
    "perceptron": lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)),
    # by vmap
    "module": lambda: nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 1)),
}


def trained(make):
    x = torch.randn(120, 1, generator=generator(0), dtype=torch.float64, device="cpu")
    noise = torch.randn(120, 2, generator=generator(1), dtype=torch.float64, device="cpu")
    z = x + 0.5 * noise
    recipe = Recipe(STEPS, 32, 1e-2, 3, 4, STEPS, 0.9, 0.2, 0.1, 8)
    rows = split(len(x), 2, recipe, torch.randperm(len(x), generator=generator(2), device="cpu"))
    pairing = Pairing(x, z, torch.arange(len(x), device="cpu").expand(2, -1))
    stack = StatisticsStack(ensembles.draw(Drawn(make), range(2)))
    return train(stack, DonskerVaradhan(0.1), recipe, pairing, rows, generator(3))


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_steps_give_the_values_of_plain_ones(kind, backend, monkeypatch):
    plain = trained(NETWORKS[kind])
    monkeypatch.setattr(compilation, "WORTHWHILE", 1)
    calls = []
    compile_it = torch.compile

    def counted(function, **options):
        given = options if backend == "inductor" else {"backend": backend}
        fast = compile_it(function, **given)

        def call(*args, **named):
            calls.append(function)
            return fast(*args, **named)

        return call

    monkeypatch.setattr(torch, "compile", counted)
    torch._dynamo.reset()
    breaks = torch._dynamo.utils.counters["graph_break"]
    breaks.clear()
    with compiling("cpu"), warnings.catch_warnings():
        # A step that could not be compiled would say so.
        warnings.simplefilter("error", UserWarning)
        fast = trained(NETWORKS[kind])
    assert len(calls) == STEPS and not breaks
    for name in ("held_out", "training", "sampling_error", "training_error", "curve"):
        found, expected = getattr(fast, name), getattr(plain, name)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)
    assert torch.equal(fast.best_step, plain.best_step)
    # The networks learnt something, so that steps matter.
    assert float((plain.curve[-1] - plain.curve[0]).min()) > 1e-3
