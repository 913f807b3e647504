"""Adversarially learned inference: an encoder and a decoder whose joint distributions a discriminator cannot tell apart.

The encoder's pairs are (x, F(x, e)), the decoder's (G(z), z). Variants add to it: `alice-l2` the squared error of reconstructions,
`alice-adversarial` a second discriminator that tells (x, x) from (x, reconstruction), `mine` the information between x and z, with
adaptive clipping. With q the encoder's joint, reconstruction error <= KL of the joints - I_q(x, z) + H_q(x), and H_q(x) is that of
the data (the thesis writes H_q(z)): so it is the encoder's information that helps; the decoder's can be chosen, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from penchant_mine._adaptive_clip import adaptively_clipped
from penchant_mine._bounds import DonskerVaradhan
from penchant_mine._gan import fake_loss, real_loss, scores_of

VARIANTS = ("ali", "alice-l2", "alice-adversarial", "mine")


@dataclass(frozen=True)
class AliRecipe:
    """How a model is trained; `beta` weighs the information, `weight` the reconstruction terms of ALICE."""

    steps: int
    batch: int
    learning_rate: float
    beta: float
    weight: float
    latent: int
    noise: int
    ema: float
    informed: str  # whose pairs (x, z) the information is of: encoder or decoder


@dataclass
class Model:
    """The networks of one model; the last two only where the variant has them."""

    encoder: nn.Module
    decoder: nn.Module
    discriminator: nn.Module
    statistics: nn.Module | None = None
    pair_discriminator: nn.Module | None = None

    def reconstruct(self, x: Tensor, generator: Generator, noise: int) -> tuple[Tensor, Tensor]:
        """z of the encoder, and the decoder's answer to it."""
        z = self.encoder(x, normal(len(x), noise, generator, x.device))
        return z, self.decoder(z)


def normal(count: int, size: int, generator: Generator, device: torch.device) -> Tensor:
    """Standard normal rows."""
    return torch.randn(count, size, generator=generator, device="cpu").to(device)


@dataclass(frozen=True)
class Batch:
    """Data x and prior z; what the encoder infers from x, the decoder makes of z, and makes again of what was inferred."""

    x: Tensor
    z: Tensor
    inferred: Tensor
    made: Tensor
    again: Tensor

    def detached(self) -> Batch:
        """The same numbers, through which nothing is learnt by those who made them."""
        return Batch(*(each.detach() for each in vars(self).values()))

    def informed(self, side: str) -> tuple[Tensor, Tensor]:
        """The pairs (x, z) of the encoder or the decoder."""
        return (self.x, self.inferred) if side == "encoder" else (self.made, self.z)


def train_model(
    model: Model, variant: str, data: Tensor, recipe: AliRecipe, generator: Generator
) -> None:
    """Train in place."""
    parameters = [*model.encoder.parameters(), *model.decoder.parameters()]
    both = torch.optim.Adam(parameters, lr=recipe.learning_rate, betas=(0.5, 0.999))
    judges = {
        name: torch.optim.Adam(network.parameters(), lr=recipe.learning_rate, betas=(0.5, 0.999))
        for name, network in vars(model).items()
        if network is not None and name not in ("encoder", "decoder")
    }
    bound = DonskerVaradhan(recipe.ema)
    for _ in range(recipe.steps):
        rows = torch.randint(len(data), (recipe.batch,), generator=generator, device="cpu").to(
            data.device
        )
        x, z = data[rows], normal(recipe.batch, recipe.latent, generator, data.device)
        inferred, again = model.reconstruct(x, generator, recipe.noise)
        made = model.decoder(z)
        batch = Batch(x, z, inferred, made, again)
        _train_judges(model, judges, bound, recipe, batch.detached())
        _train_both(model, both, parameters, variant, recipe, batch)


def _train_judges(
    model: Model,
    judges: dict[str, torch.optim.Optimizer],
    bound: DonskerVaradhan,
    recipe: AliRecipe,
    batch: Batch,
) -> None:
    x, z, discriminator = batch.x, batch.z, model.discriminator
    losses = {
        "discriminator": real_loss(discriminator(x, batch.inferred))
        + fake_loss(discriminator(batch.made, z))
    }
    if model.statistics is not None:
        losses["statistics"] = bound.loss(
            *scores_of(model.statistics, *batch.informed(recipe.informed))
        ).sum()
    if model.pair_discriminator is not None:
        pair = model.pair_discriminator
        losses["pair_discriminator"] = real_loss(pair(torch.cat([x, x], 1))) + fake_loss(
            pair(torch.cat([x, batch.again], 1))
        )
    for name, loss in losses.items():
        judges[name].zero_grad(set_to_none=True)
        loss.backward()
        judges[name].step()


def _train_both(
    model: Model,
    optimizer: torch.optim.Optimizer,
    parameters: list[nn.Parameter],
    variant: str,
    recipe: AliRecipe,
    batch: Batch,
) -> None:
    """Encoder and decoder: swap the discriminator's answers, plus the term of the variant."""
    x, again = batch.x, batch.again
    loss = fake_loss(model.discriminator(x, batch.inferred)) + real_loss(
        model.discriminator(batch.made, batch.z)
    )
    if variant == "alice-l2":
        loss = loss + recipe.weight * (again - x).square().flatten(1).sum(1).mean()
    if model.pair_discriminator is not None:
        loss = loss + recipe.weight * real_loss(model.pair_discriminator(torch.cat([x, again], 1)))
    total = list(torch.autograd.grad(loss, parameters, retain_graph=model.statistics is not None))
    if model.statistics is not None:
        information = (
            DonskerVaradhan(1.0)
            .value(*scores_of(model.statistics, *batch.informed(recipe.informed)))
            .sum()
        )
        informative = torch.autograd.grad(-information, parameters, allow_unused=True)
        informative = [
            torch.zeros_like(p) if g is None else g for p, g in zip(parameters, informative)
        ]
        total = [
            g + recipe.beta * extra
            for g, extra in zip(total, adaptively_clipped(total, informative))
        ]
    for parameter, gradient in zip(parameters, total):
        parameter.grad = gradient
    optimizer.step()
