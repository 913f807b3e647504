"""Adversarially learned inference: encoder and decoder with the same joint distribution.

The encoder's pairs are (x, F(x, e)), the decoder's (G(z), z). Variants add to it: `alice-l2` the
squared error of reconstructions, `alice-adversarial` a second discriminator that tells (x, x) from
(x, reconstruction), `mine` the information between x and z, with adaptive clipping. With q the
encoder's joint, reconstruction error <= KL of the joints - I_q(x, z) + H_q(x), and H_q(x) is that
of the data (the thesis writes H_q(z)): so it is the encoder's information that helps; the decoder's
can be chosen, too.

Several models train side by side, as in `gan`: all tensors of a step have an axis of networks
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.inputs import noise
from torch import Generator, Tensor, nn

from penchant_mine.shared.generative.gan import (
    adam,
    adaptively_clipped,
    draw_rows,
    draw_stacked,
    fake_loss,
    real_loss,
    scores_of,
    update,
)
from penchant_mine.shared.generative.network_stacks import stack_networks, write_back
from penchant_mine.shared.information.bounds import DonskerVaradhan

RECONSTRUCTING = ("alice-l2", "alice-adversarial")  # variants that learn from reconstructions


@dataclass(frozen=True)
class AliRecipe:
    """How a model is trained; `beta` weighs the information, `weight` the terms of ALICE."""

    steps: int
    batch: int
    learning_rate: float
    beta: float
    weight: float
    latent: int
    noise_inputs: int
    ema: float
    information_of: str  # whose pairs (x, z): encoder or decoder
    information_with: str = "code"  # independent: z of another x, a control without information


@dataclass
class Model:
    """The networks of one model; the last two only where the variant has them."""

    encoder: nn.Module
    decoder: nn.Module
    discriminator: nn.Module
    statistics: nn.Module | None = None
    pair_discriminator: nn.Module | None = None

    def infer(self, x: Tensor, generator: Generator, noise_inputs: int) -> Tensor:
        """A draw of z for each x."""
        sampled = normal(len(x), noise_inputs, generator, x.device)
        codes: Tensor = self.encoder(x, sampled)
        return codes

    def networks(self) -> list[nn.Module]:
        """Those that are there."""
        every = vars(self).values()
        return [network for network in every if network is not None]


def normal(count: int, size: int, generator: Generator, device: torch.device) -> Tensor:
    """Standard normal rows."""
    return noise.normal((count, size), generator, device)


@dataclass(frozen=True)
class Batch:
    """What a step learns from.

    Data x and prior z; what the encoder infers from x, the decoder makes of z, and, for variants
    that need it, makes again of what was inferred.
    """

    x: Tensor
    z: Tensor
    inferred: Tensor
    made: Tensor
    again: Tensor | None = None

    def detached(self) -> Batch:
        """The same numbers, through which nothing is learnt by those who made them."""
        again = None if self.again is None else self.again.detach()
        return Batch(
            self.x.detach(), self.z.detach(), self.inferred.detach(), self.made.detach(), again
        )

    def informed(self, recipe: AliRecipe) -> tuple[Tensor, Tensor]:
        """The pairs (x, z) of the encoder or the decoder, or those of x with another one's z."""
        x, z = self.made, self.z
        if recipe.information_of == "encoder":
            x, z = self.x, self.inferred
        if recipe.information_with == "independent":
            z = z.roll(1, 1)
        return x, z

    def real_pairs(self) -> Tensor:
        """(x, x)."""
        return torch.cat([self.x, self.x], 2)

    def reconstructed_pairs(self) -> Tensor:
        """(x, reconstruction)."""
        assert self.again is not None
        return torch.cat([self.x, self.again], 2)


def train_models(
    models: Sequence[Model],
    variant: str,
    data: Tensor,
    recipe: AliRecipe,
    generators: Sequence[Generator],
) -> None:
    """Train in place, side by side; each as if alone, up to rounding.

    Args:
        models: The networks of each. Those of several are perceptrons of one architecture.
        variant: `ali`, `alice-l2`, `alice-adversarial` or `mine`.
        data: Real samples, the same for all.
        recipe: How they are trained.
        generators: For batches, noise and prior, one for each.
    """
    # A step must not wait for numbers of the host.
    generators = [noise.own_generator(generator, data.device) for generator in generators]
    model = _stack_of(models)
    both = adam([*model.encoder.parameters(), *model.decoder.parameters()], recipe.learning_rate)
    judges = _Judges(model, recipe)

    def latents(size: int) -> Tensor:
        return draw_stacked(lambda each: normal(recipe.batch, size, each, data.device), generators)

    for _ in range(recipe.steps):
        # Data and prior, and what the networks make of each.
        x = draw_rows(data, recipe.batch, generators)
        z = latents(recipe.latent)
        inferred = model.encoder(x, latents(recipe.noise_inputs))
        # Only variants that learn from reconstructions pay for them.
        again = model.decoder(inferred) if variant in RECONSTRUCTING else None
        made = model.decoder(z)
        # Judges learn first; their inputs are detached from the other networks.
        batch = Batch(x, z, inferred, made, again)
        judges.learn(batch.detached())
        _train_both(model, both, recipe, batch)
    for stack in model.networks():
        write_back(stack)


def _stack_of(models: Sequence[Model]) -> Model:
    stacks = {}
    for name, network in vars(models[0]).items():
        if network is not None:
            stacks[name] = stack_networks([getattr(model, name) for model in models])
    return Model(**stacks)


class _Judges:
    """Discriminators and statistics network, an optimiser and a loss each."""

    def __init__(self, model: Model, recipe: AliRecipe) -> None:
        self._model = model
        self._recipe = recipe
        self._bound = DonskerVaradhan(recipe.ema)
        self._optimizers = {}
        # Variants lack some of the judges.
        for name in ("discriminator", "statistics", "pair_discriminator"):
            network = getattr(model, name)
            if network is not None:
                self._optimizers[name] = adam(network.parameters(), recipe.learning_rate)

    def learn(self, batch: Batch) -> None:
        """One step of each."""
        model = self._model
        loss = real_loss(model.discriminator(batch.x, batch.inferred))
        loss = loss + fake_loss(model.discriminator(batch.made, batch.z))
        update(self._optimizers["discriminator"], loss)
        if model.statistics is not None:
            informed = batch.informed(self._recipe)
            joint, marginal = scores_of(model.statistics, *informed)
            update(self._optimizers["statistics"], self._bound.loss(joint, marginal))
        if model.pair_discriminator is not None:
            of_real = model.pair_discriminator(batch.real_pairs())
            of_fake = model.pair_discriminator(batch.reconstructed_pairs())
            loss = real_loss(of_real) + fake_loss(of_fake)
            update(self._optimizers["pair_discriminator"], loss)


def _train_both(
    model: Model, optimizer: torch.optim.Optimizer, recipe: AliRecipe, batch: Batch
) -> None:
    """Encoder and decoder: swap the discriminator's answers, plus the term of the variant."""
    # Encoder and decoder want the opposite of what the discriminator says.
    loss = fake_loss(model.discriminator(batch.x, batch.inferred))
    loss = loss + real_loss(model.discriminator(batch.made, batch.z))
    # At most one of the terms of ALICE.
    if model.pair_discriminator is not None:
        fooled = real_loss(model.pair_discriminator(batch.reconstructed_pairs()))
        loss = loss + recipe.weight * fooled
    elif batch.again is not None:
        squares = (batch.again - batch.x).square().flatten(2).sum(2)
        loss = loss + recipe.weight * squares.mean(1)
    statistics = model.statistics
    optimizer.zero_grad(set_to_none=True)
    loss.sum().backward(retain_graph=statistics is not None)
    if statistics is not None:
        joint, marginal = scores_of(statistics, *batch.informed(recipe))
        information = DonskerVaradhan(1.0).value(joint, marginal).sum()
        _add_information(model, recipe, information, networks=len(batch.x))
    optimizer.step()


def _add_information(
    model: Model, recipe: AliRecipe, information: Tensor, *, networks: int = 1
) -> None:
    """Add the gradient that raises the information, to the one network that it depends on.

    It is clipped to the length of that network's own adversarial gradient. The other network's has
    nothing to do with it, and is often much longer.
    """
    informed = model.encoder if recipe.information_of == "encoder" else model.decoder
    parameters = list(informed.parameters())
    adversarial = [_gradient_of(each) for each in parameters]
    informative = torch.autograd.grad(-information, parameters)
    clipped = adaptively_clipped(adversarial, informative, networks=networks)
    for parameter, before, extra in zip(parameters, adversarial, clipped):
        # The fused Adam reads numbers in the order of memory, whatever the strides are.
        parameter.grad = (before + recipe.beta * extra).contiguous()


def _gradient_of(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None  # after the backward pass
    return parameter.grad
