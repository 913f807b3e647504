"""Adversarial trainings: a step beside a plain torch loop, and eight side by side beside eight alone.

CPU seconds of one thread, the fastest of several rounds whose parts alternate, because machines are
shared. The plain loop is what one would write by hand: a pass for joint and one for marginal pairs,
and torch's default Adam.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from penchant_mine.bidirectional_reconstruction.bidirectional import AliRecipe, Model, train_models
from penchant_mine.information_bottleneck.bottleneck import (
    ROWS,
    BottleneckRecipe,
    Classifier,
    NoisyStatistics,
    train_rows,
)
from penchant_mine.shared.generative.gan import GanRecipe, Players, train_gans
from penchant_mine.shared.generative.networks import Joined, perceptron
from penchant_numerics.training import constructed
from targets import at_least, at_most
from torch import Generator, Tensor
from torch.nn import functional

WIDTHS = {32: 4.0, 64: 2.5, 128: 1.5}  # how many times as fast eight side by side are at least
TOGETHER = 8
GAN = GanRecipe(
    steps=0,
    batch=100,
    learning_rate=1e-3,
    beta=1.0,
    noise_inputs=2,
    code=2,
    prior="normal",
    ema=0.01,
)
ALI = AliRecipe(
    steps=0,
    batch=100,
    learning_rate=1e-3,
    beta=1.0,
    weight=1.0,
    latent=2,
    noise_inputs=2,
    ema=0.01,
    information_of="encoder",
)


def generator(seed: int) -> Generator:
    return torch.Generator(device="cpu").manual_seed(seed)


def points() -> Tensor:
    return torch.randn(320000, 2, generator=generator(0), device="cpu")


def players(seed: int, width: int) -> Players:
    return Players(
        constructed(lambda: perceptron([4, width, width, 2], activation="relu"), seed),
        constructed(lambda: perceptron([2, width, width, 1], activation="relu"), seed + 1),
        constructed(lambda: Joined([4, width, width, 1], activation="relu"), seed + 2),
    )


def model(seed: int, width: int) -> Model:
    sizes = [4, width, width, width, 1]
    return Model(
        constructed(lambda: Joined([4, width, width, 2]), seed),
        constructed(lambda: perceptron([2, width, width, 2], batch_norm=True), seed + 1),
        constructed(lambda: Joined(sizes), seed + 2),
        constructed(lambda: Joined(sizes), seed + 3),
    )


def plain(own: Players, data: Tensor, steps: int) -> None:
    """GAN and MINE by hand."""
    torch.manual_seed(0)
    optimizers = {
        name: torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.5, 0.999))
        for name, network in vars(own).items()
    }
    assert own.statistics is not None
    judged = functional.binary_cross_entropy_with_logits
    one, zero = torch.ones(100, 1, device="cpu"), torch.zeros(100, 1, device="cpu")
    average: Tensor | None = None
    for _ in range(steps):
        real = data[torch.randint(len(data), (100,))]
        latent = torch.randn(100, 4)
        fake, code = own.generator(latent), latent[:, 2:]

        optimizers["discriminator"].zero_grad()
        loss = judged(own.discriminator(real), one)
        loss = loss + judged(own.discriminator(fake.detach()), zero)
        loss.backward()
        optimizers["discriminator"].step()

        optimizers["statistics"].zero_grad()
        joint = own.statistics(fake.detach(), code).mean()
        mean = own.statistics(fake.detach(), code[torch.randperm(100)]).exp().mean()
        newest = mean.detach()
        average = newest if average is None else 0.99 * average + 0.01 * newest
        (mean / average - joint).backward()
        optimizers["statistics"].step()

        parameters = list(own.generator.parameters())
        loss = judged(own.discriminator(fake), one)
        adversarial = torch.autograd.grad(loss, parameters, retain_graph=True)
        lower = own.statistics(fake, code).mean()
        lower = lower - own.statistics(fake, code[torch.randperm(100)]).exp().mean().log()
        informative = torch.autograd.grad(-lower, parameters)
        lengths = [
            torch.cat([each.flatten() for each in gradients]).norm()
            for gradients in (adversarial, informative)
        ]
        factor = torch.minimum(*lengths) / lengths[1]
        for parameter, first, second in zip(parameters, adversarial, informative):
            parameter.grad = first + factor * second
        optimizers["generator"].step()


def gans(seeds: list[int], width: int, data: Tensor, steps: int) -> None:
    made = [players(seed, width) for seed in seeds]
    train_gans(made, data, replace(GAN, steps=steps), [generator(seed) for seed in seeds])


def models(seeds: list[int], width: int, data: Tensor, steps: int) -> None:
    made = [model(seed, width) for seed in seeds]
    recipe = replace(ALI, steps=steps)
    train_models(made, "mine", data, recipe, [generator(seed) for seed in seeds])


def bottlenecks(seeds: list[int], width: int, data: Tensor, steps: int) -> None:
    """Additive noise and MINE, on as many inputs of 64 numbers as the steps take."""
    x = data.flatten()[: 64 * 100 * steps].reshape(-1, 64)
    labels = (x[:, 0] > 0).long()
    sizes = [width, width]

    def classifier() -> Classifier:
        return Classifier(ROWS["mine-additive"], 64, sizes, 16, 2, propagated=0)

    train_rows(
        [constructed(classifier, seed) for seed in seeds],
        [constructed(lambda: NoisyStatistics(80, width), seed + 1) for seed in seeds],
        x,
        labels,
        BottleneckRecipe(1, 100, 1e-3, 0.97, 0.1, 0.5, 0.2, 0.01),
        [generator(seed) for seed in seeds],
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def fastest(rounds: int, *parts: Callable[[], object]) -> list[float]:
    """CPU seconds of every part, each the fastest of its rounds."""
    found = [[seconds(part) for part in parts] for _ in range(rounds)]
    return [min(times) for times in zip(*found)]


def beside_a_plain_loop(rounds: int, steps: int) -> None:
    data = points()
    own, by_hand = fastest(
        rounds, lambda: gans([0], 128, data, steps), lambda: plain(players(0, 128), data, steps)
    )
    print(
        f"GAN with MINE, 128-128, one training: {1e3 * own / steps:.2f} ms a step, by hand "
        f"{1e3 * by_hand / steps:.2f}: {own / by_hand:.2f} {at_most(own / by_hand, 1.0)}"
    )


def stack_networks(rounds: int, steps: int) -> None:
    data = points()
    seeds = [10 * number for number in range(TOGETHER)]
    kinds = {"GAN": gans, "ALI": models, "bottleneck": bottlenecks}
    for name, train in kinds.items():
        for width, target in WIDTHS.items():
            alone, together = fastest(
                rounds,
                lambda: [train([seed], width, data, steps) for seed in seeds],  # noqa: B023
                lambda: train(seeds, width, data, steps),  # noqa: B023
            )
            print(
                f"{name:10} with MINE, width {width:3}: eight alone "
                f"{1e3 * alone / steps:6.2f} ms a step, side by side "
                f"{1e3 * together / steps:6.2f}: {alone / together:.2f} times as fast "
                f"{at_least(alone / together, target)}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        beside_a_plain_loop(arguments.rounds, arguments.steps)
        stack_networks(arguments.rounds, arguments.steps)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
