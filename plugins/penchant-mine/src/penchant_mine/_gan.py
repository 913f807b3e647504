"""A generative adversarial network, with the information between samples and code as an optional second aim.

Discriminator, statistics network and generator have an optimiser each; the statistics network learns from its own loss only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from penchant_mine._adaptive_clip import adaptively_clipped
from penchant_mine._bounds import DonskerVaradhan


@dataclass(frozen=True)
class GanRecipe:
    """How a GAN is trained; `beta` is the weight of the information (0: an ordinary GAN)."""

    steps: int
    batch: int
    learning_rate: float
    beta: float
    noise: int
    code: int
    prior: str
    ema: float


@dataclass
class Players:
    """The three networks; `statistics` scores (sample, code)."""

    generator: nn.Module
    discriminator: nn.Module
    statistics: nn.Module | None


def draw_prior(
    count: int, size: int, prior: str, generator: Generator, device: torch.device
) -> Tensor:
    """Standard normal, or uniform on [-1, 1]."""
    if prior == "normal":
        return torch.randn(count, size, generator=generator, device="cpu").to(device)
    return (2 * torch.rand(count, size, generator=generator, device="cpu") - 1).to(device)


def real_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of "this is real"."""
    return functional.softplus(-logits).mean()


def fake_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of "this is not real"."""
    return functional.softplus(logits).mean()


def scores_of(statistics: nn.Module, samples: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
    """Joint (1, samples) and marginal scores (1, 1, samples): the batch was drawn at random, so one shift is a derangement."""
    return statistics(samples, code).reshape(1, -1), statistics(samples, code.roll(1, 0)).reshape(
        1, 1, -1
    )


def train_gan(players: Players, data: Tensor, recipe: GanRecipe, generator: Generator) -> float:
    """Train in place; returns the mean information over the last tenth of the steps, in nats on training batches (0 without)."""
    made = {
        name: torch.optim.Adam(network.parameters(), lr=recipe.learning_rate, betas=(0.5, 0.999))
        for name, network in vars(players).items()
        if network is not None
    }
    bound, seen = DonskerVaradhan(recipe.ema), []
    for step in range(recipe.steps):
        rows = torch.randint(len(data), (recipe.batch,), generator=generator, device="cpu").to(
            data.device
        )
        latent = draw_prior(
            recipe.batch, recipe.noise + recipe.code, recipe.prior, generator, data.device
        )
        fake, code = players.generator(latent), latent[:, recipe.noise :]
        loss = real_loss(players.discriminator(data[rows])) + fake_loss(
            players.discriminator(fake.detach())
        )
        _update(made["discriminator"], loss)
        if players.statistics is not None:
            joint, marginal = scores_of(players.statistics, fake.detach(), code)
            _update(made["statistics"], bound.loss(joint, marginal).sum())
            if step >= 0.9 * recipe.steps:
                seen.append(bound.value(joint.detach(), marginal.detach()))
        _update_generator(made["generator"], players, fake, code, recipe.beta)
    return float(torch.cat(seen).mean()) if seen else 0.0


def _update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def _update_generator(
    optimizer: torch.optim.Optimizer, players: Players, fake: Tensor, code: Tensor, beta: float
) -> None:
    """Both gradients of the whole generator first, then the clip, then one step."""
    parameters = list(players.generator.parameters())
    aims = real_loss(players.discriminator(fake))
    adversarial = torch.autograd.grad(aims, parameters, retain_graph=players.statistics is not None)
    total = list(adversarial)
    if players.statistics is not None:
        information = DonskerVaradhan(1.0).value(*scores_of(players.statistics, fake, code)).sum()
        informative = torch.autograd.grad(-information, parameters)
        total = [
            g + beta * extra
            for g, extra in zip(total, adaptively_clipped(adversarial, informative))
        ]
    for parameter, gradient in zip(parameters, total):
        parameter.grad = gradient
    optimizer.step()


@torch.no_grad()
def generate(
    network: nn.Module, count: int, recipe: GanRecipe, generator: Generator, device: torch.device
) -> Tensor:
    """Samples in evaluation mode (running batch-norm statistics)."""
    network.eval()
    latent = draw_prior(count, recipe.noise + recipe.code, recipe.prior, generator, device)
    samples = torch.cat([network(part) for part in latent.split(1000)])
    network.train()
    return samples
