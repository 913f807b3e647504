"""Learning coefficient: a chain step against a gradient, and stacked chains against single ones.

Ratios of processor time are measured side by side in one run, and the fastest of several rounds
counts, because machines are shared.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import torch
from penchant_landscape.learning_coefficient.langevin import Density, langevin
from penchant_landscape.shared.network_energy import NetworkEnergy
from penchant_numerics.data import Samples
from targets import at_least, at_most
from torch import nn
from torch.nn import functional

CHAINS = 8
CASES = (
    (64, 16, 256),
    (64, 32, 256),
    (64, 32, 1000),
    (784, 32, 256),
    (784, 100, 256),
    (784, 100, 1000),
)


def parts(inputs: int, hidden: int, count: int) -> tuple[nn.Module, Samples]:
    generator = torch.Generator("cpu").manual_seed(0)
    x = torch.randn(count, inputs, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    network = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    return network.eval(), Samples(x, labels)


def gradients(network: nn.Module, samples: Samples, steps: int) -> None:
    """The plain loop: loss and gradient of all samples."""
    parameters = list(network.parameters())
    for _ in range(steps):
        loss = functional.cross_entropy(network(samples.inputs), samples.labels)
        torch.autograd.grad(loss, parameters)


def chains(network: nn.Module, samples: Samples, count: int, steps: int) -> None:
    energy = NetworkEnergy(network, samples, loss="cross-entropy")
    langevin(
        Density(energy, energy.centre, 100.0, 100.0),
        chains=count,
        steps=steps - steps // 2,
        warmup=steps // 2,
        generator=torch.Generator("cpu").manual_seed(0),
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(case: tuple[int, int, int], rounds: int, steps: int) -> None:
    """A step costs what a run of four times as many steps costs more; the set-up is apart."""
    inputs, hidden, count = case
    network, samples = parts(*case)
    size = sum(each.numel() for each in network.parameters())
    gradient = []
    short: dict[int, list[float]] = {1: [], CHAINS: []}
    long: dict[int, list[float]] = {1: [], CHAINS: []}
    for _ in range(rounds):
        gradient.append(seconds(lambda: gradients(network, samples, steps)) / steps)
        for number in (1, CHAINS):
            run = functools.partial(chains, network, samples, number)
            short[number].append(seconds(functools.partial(run, steps)))
            long[number].append(seconds(functools.partial(run, 4 * steps)))
    one = min(gradient)
    alone, together = ((min(long[each]) - min(short[each])) / (3 * steps) for each in (1, CHAINS))
    setup = min(short[CHAINS]) - steps * together
    step, speed = together / CHAINS / one, CHAINS * alone / together
    print(
        f"  {inputs:3}-{hidden}-10, {size:6,} parameters, {count:4} samples: step of one chain "
        f"{alone / one:.2f} gradients, of a chain in a stack {step:.2f} {at_most(step, 1.3)}; "
        f"{CHAINS} chains stacked {speed:.2f} times as fast {at_least(speed, 2)}; "
        f"set-up, once: {setup / one:.0f} gradients"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    print("Langevin chains, one thread, processor time")
    try:
        for case in CASES:
            compare(case, arguments.rounds, arguments.steps)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
