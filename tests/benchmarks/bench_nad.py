"""Neural anisotropy directions of LeNet at 1 x 32 x 32: ours against the plain way, side by side, at equal threads.

Also what all probes share: drawing networks in threads, and a step of a small training.
"""

import resource
import tempfile
import time
from pathlib import Path

import penchant
import penchant_testing as testing
import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import compiling
from penchant_numerics.inputs import finite_differences, input_gradients
from penchant_numerics.training import Trainer, draw
from penchant_numerics.training.ensembles import drawing
from targets import at_least
from torch import nn

SHAPE = (1, 32, 32)


def lenet():
    return testing.architecture("lenet", shape=SHAPE)


def alternating(*functions, repeats=5):
    """The shortest time of each function, measured in turn so that all meet the same machine."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for number, function in enumerate(functions):
            started = time.perf_counter()
            function()
            best[number] = min(best[number], time.perf_counter() - started)
    return best


def plain_differences(architecture, point, networks):
    """Two batches of 1024 displaced images through each network, with autograd recording."""
    step = 100 * torch.eye(point.numel(), device="cpu").reshape(-1, *SHAPE)
    forward, backward = point + step, point - step
    for index in range(networks):
        network = architecture(index)
        (network(forward) - network(backward)).detach() / 200


def our_differences(architecture, point, networks):
    finite_differences(draw(architecture, range(networks)), point, step=100.0)


def plain_gradients(architecture, point, networks):
    for index in range(networks):
        network, x = architecture(index), point[None].clone().requires_grad_()
        network(x).sum().backward()


def our_gradients(architecture, point, networks):
    for first in range(0, networks, 32):
        input_gradients(draw(architecture, range(first, first + 32)), point[None])


def directions(networks, **settings):
    estimators = {"directions": {"method": "finite-difference"}}
    options = {"networks": networks, "shape": SHAPE, "estimators": estimators, **settings}
    with tempfile.TemporaryDirectory() as folder:
        return penchant.measure("nad", architecture="lenet", out=Path(folder) / "run", **options)


def drawn(architecture, threads):
    """64 networks, eight at a time: all of them would be 3 GB."""
    # As in a job of so many threads: torch itself uses no more.
    torch.set_num_threads(threads)
    with drawing(threads):
        for first in range(0, 64, 8):
            draw(architecture, range(first, first + 8))


def draws():
    architecture = testing.architecture("resnet18", shape=(3, 32, 32))
    draw(architecture, range(1))  # how it is drawn is found out once
    one, two = alternating(
        lambda: drawn(architecture, 1), lambda: drawn(architecture, 2), repeats=5
    )
    print(
        f"64 ResNet18:        drawn {one / two:.2f} times as fast by two threads {at_least(one / two, 1.7)}"
    )


def steps():
    """A step as it is, and as it was: torch's global seed set twice a step, the loss read."""
    inputs = torch.randn(640, 16, device="cpu")
    samples = Samples(inputs, torch.arange(640, device="cpu") % 2)
    recipe = penchant.Training(steps=500, batch=32, learning_rate=0.01)

    def trained(after_step=None):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
        Trainer(network, samples, recipe, seed=0).run(after_step=after_step)

    def as_before(step):
        torch.manual_seed(step)
        torch.manual_seed(step)

    before, now = alternating(lambda: trained(as_before), trained)
    print(
        f"training step:      a small MLP's {before / now:.2f} times as fast {at_least(before / now, 2)}"
    )


def compiled_steps():
    """A step of the same MLP compiled on the CPU; compiling itself is not counted."""
    inputs = torch.randn(640, 16, device="cpu")
    samples = Samples(inputs, torch.arange(640, device="cpu") % 2)
    recipe = penchant.Training(steps=10**6, batch=32, learning_rate=0.01)

    def trainer():
        network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
        return Trainer(network, samples, recipe, seed=0)

    plain = trainer()
    with compiling("cpu"):
        fast = trainer()
    started = time.process_time()
    fast.run(until=3)
    compiling_took = time.process_time() - started
    before, now = alternating(
        lambda: plain.run(until=plain.step + 300), lambda: fast.run(until=fast.step + 300)
    )
    print(
        f"compiled step:      {before / now:.2f} times as fast as it is on this CPU, after "
        f"{compiling_took:.1f} s of compiling (no target: CPUs do not compile)"
    )


def main():
    torch.set_num_threads(1)
    steps()
    compiled_steps()
    draws()
    architecture, point = lenet(), torch.randn(SHAPE)
    plain, ours = alternating(
        lambda: plain_differences(architecture, point, 4),
        lambda: our_differences(architecture, point, 4),
    )
    print(
        f"finite differences: {plain / ours:.2f} times as fast as two recorded batches of 1024 {at_least(plain / ours, 1.7)}"
    )
    plain, ours = alternating(
        lambda: plain_gradients(architecture, point, 128),
        lambda: our_gradients(architecture, point, 128),
    )
    print(
        f"autograd:           {plain / ours:.2f} times as fast as one network after another {at_least(plain / ours, 3)}"
    )
    one, two = alternating(
        lambda: directions(2048, executor="serial", threads=2),
        lambda: directions(2048, executor="processes", workers=2, threads=1),
        repeats=1,
    )
    print(
        f"64 shards:          two workers {one / two:.2f} times as fast as one process with two threads {at_least(one / two, 1.15)}"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    directions(256, executor="serial")
    middle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    directions(512, executor="serial")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"memory:             {before / 1024:.0f} MiB before, {middle / 1024:.0f} after 256 networks, {after / 1024:.0f} after 512"
    )


if __name__ == "__main__":
    main()
