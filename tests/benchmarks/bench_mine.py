"""Mutual information: stacked trainings against a plain loop; neighbours by trees and by blocks.

Ratios are measured side by side in one run, and the fastest of several rounds counts, because
machines are shared.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import penchant_testing as testing
import torch
from penchant_mine.shared.information import kraskov as neighbours_of
from penchant_mine.shared.information.bounds import DonskerVaradhan
from penchant_mine.shared.information.stacked_training import Pairing, Recipe, split, train
from penchant_mine.shared.information.statistics_stack import StatisticsStack
from penchant_numerics.training import ensembles
from targets import at_least, at_most
from torch import Tensor, nn

TRAININGS, BATCH, WIDTH = 4, 256, 128


def pairs(samples: int, dimension: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator(device="cpu").manual_seed(0)
    x, noise = torch.randn(2, samples, dimension, generator=generator, device="cpu")
    return x, 0.5 * x + math.sqrt(0.75) * noise


def plain(x: Tensor, z: Tensor, steps: int) -> None:
    """What one would write by hand for a single network: no null, no early stopping, no averaged weights."""
    torch.manual_seed(0)
    size = x.shape[1] + z.shape[1]
    network = nn.Sequential(
        nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    average = None
    for _ in range(steps):
        rows = torch.randint(len(x), (BATCH,))
        joint = network(torch.cat([x[rows], z[rows]], 1))
        marginal = network(torch.cat([x[rows], z[rows][torch.randperm(BATCH)]], 1))
        mean = marginal.exp().mean()
        average = mean.detach() if average is None else 0.99 * average + 0.01 * mean.detach()
        loss = -(joint.mean() - mean / average)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stacked(x: Tensor, z: Tensor, steps: int, networks: int) -> None:
    """The estimator's own loop, with its checks on the stopping block and its report on held-out samples."""
    recipe = Recipe(
        steps=steps, batch=BATCH, learning_rate=1e-3, shifts=1, check_every=50, patience=10**9, average=0.99, held_out=0.2, stopping=0.1,
        marginals=16,
    )  # fmt: skip
    architecture = testing.architecture(
        "statistics-perceptron:widths=[128,128]", shape=(x.shape[1] + z.shape[1],)
    )
    generator = torch.Generator(device="cpu").manual_seed(0)
    order = torch.randperm(len(x), generator=generator, device="cpu")
    stack = StatisticsStack(ensembles.draw(architecture, range(networks)))
    partners = torch.arange(len(x), device="cpu").expand(networks, -1).contiguous()
    train(
        stack,
        DonskerVaradhan(0.01),
        recipe,
        Pairing(x, z, partners),
        split(len(x), networks, recipe, order),
        generator,
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(rounds: int, steps: int, dimension: int) -> None:
    x, z = pairs(10000, dimension)
    found: dict[str, list[float]] = {"plain": [], "stacked": [], "with null": []}
    for _ in range(rounds):
        found["plain"].append(seconds(lambda: [plain(x, z, steps) for _ in range(TRAININGS)]))
        found["stacked"].append(seconds(lambda: stacked(x, z, steps, TRAININGS)))
        found["with null"].append(seconds(lambda: stacked(x, z, steps, TRAININGS + 2)))
    best = {name: min(values) for name, values in found.items()}
    print(
        f"mine, d = {dimension}, 10000 samples, {steps} steps of {BATCH}, 128-128, one thread, CPU seconds (fastest of {rounds})"
    )
    print(f"  4 runs of a plain loop, one after another        {best['plain']:7.2f}   1.00")
    print(
        f"  4 repeats stacked, with stopping and report      {best['stacked']:7.2f}   {best['plain'] / best['stacked']:.2f} times as fast {at_least(best['plain'] / best['stacked'], 1.4)}"
    )
    print(
        f"  the same and 2 on shuffled pairs for the null    {best['with null']:7.2f}   {best['plain'] / best['with null']:.2f} times as fast"
    )


def neighbours() -> None:
    print("ksg, 3 neighbours, one thread, CPU seconds")
    for samples, dimension in ((10000, 1), (10000, 3), (3000, 4), (3000, 20)):
        x, z = (each.double() for each in pairs(samples, dimension))
        trees = seconds(lambda: neighbours_of.counts_by_trees(x, z, 3))  # noqa: B023
        blocks = seconds(lambda: neighbours_of.counts_by_blocks(x, z, 3))  # noqa: B023
        print(
            f"  {samples:6} samples, {dimension:2} + {dimension:2} dimensions   trees {trees:6.2f}   blocks {blocks:6.2f}"
        )
    x, z = pairs(10000, 20)
    chosen = seconds(lambda: neighbours_of.kraskov(x, z, 3))
    print(f"   10000 samples, 20 + 20 dimensions   as chosen {chosen:6.2f}   {at_most(chosen, 30)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for dimension in (1, 5, 20):
            compare(arguments.rounds, arguments.steps, dimension)
        neighbours()
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
