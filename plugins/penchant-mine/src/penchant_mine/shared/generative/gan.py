"""A generative adversarial network, with the information between samples and code as second aim.

Discriminator, statistics network and generator have an optimiser each; the statistics network
learns from its own loss only.

Adaptive clipping: the gradient of the information is never longer than the adversarial one.

g_a = min(|g_u|, |g_m|) g_m / |g_m|, with norms over all parameters of the generator together
(thesis, C.1.1).

Several GANs train side by side. All tensors of a step have an axis of networks first, of which
each GAN draws, scores, clips and learns for itself.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.inputs import noise
from penchant_numerics.training import outputs
from torch import Generator, Tensor, nn
from torch.nn import functional

from penchant_mine.shared.generative.network_stacks import stack_networks, write_back
from penchant_mine.shared.information.bounds import DonskerVaradhan

BETAS = (0.5, 0.999)  # of Adam, as published
LAST = 0.9  # the information is that of the steps after this share of all
CHUNK = 1000  # samples made at once


@dataclass(frozen=True)
class GanRecipe:
    """How a GAN is trained.

    `beta` is the weight of the information (0: an ordinary GAN). It is that between samples and
    their `code`, or, as a control, an `independent` draw of a code.
    """

    steps: int
    batch: int
    learning_rate: float
    beta: float
    noise_inputs: int
    code: int
    prior: str
    ema: float
    information_with: str = "code"


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
        return noise.normal((count, size), generator, device)
    return 2 * noise.uniform((count, size), generator, device) - 1


def draw_stacked(draw: Callable[[Generator], Tensor], generators: Sequence[Generator]) -> Tensor:
    """What each network draws from its own generator, (networks, ...)."""
    return torch.stack([draw(generator) for generator in generators])


def draw_rows(data: Tensor, count: int, generators: Sequence[Generator]) -> Tensor:
    """Rows (networks, count, ...) of the data for each network, sampled with replacement."""

    def rows(generator: Generator) -> Tensor:
        return noise.integers(len(data), (count,), generator, data.device)

    return data[draw_stacked(rows, generators)]


def real_loss(logits: Tensor) -> Tensor:
    """Cross-entropies (networks,) of "this is real"."""
    return functional.softplus(-logits).flatten(1).mean(1)


def fake_loss(logits: Tensor) -> Tensor:
    """Cross-entropies (networks,) of "this is not real"."""
    return functional.softplus(logits).flatten(1).mean(1)


def scores_of(statistics: nn.Module, samples: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
    """Joint (networks, samples) and marginal scores (networks, 1, samples).

    The batch was sampled at random, so one shift is a derangement. Both go through the network in
    one pass, which is right for networks whose scores do not depend on the rest of the batch.
    """
    moved = code.roll(1, 1)
    twice = torch.cat([samples, samples], 1)
    scores = statistics(twice, torch.cat([code, moved], 1)).flatten(1)
    joint, marginal = scores.split(samples.shape[1], 1)
    return joint, marginal[:, None]


def adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Adam:
    """The optimiser of a player, whose step is one call where the device has it.

    Adam treats every number by itself, so networks of a stack stay independent.
    """
    listed = list(parameters)
    fused = {each.device.type for each in listed} <= {"cpu", "cuda"}
    return torch.optim.Adam(listed, lr=learning_rate, betas=BETAS, fused=fused)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down losses (networks,), or one; none depends on the weights of another's."""
    optimizer.zero_grad(set_to_none=True)
    loss.sum().backward()
    optimizer.step()


def train_gans(
    players: Sequence[Players],
    data: Tensor,
    recipe: GanRecipe,
    generators: Sequence[Generator],
    *,
    observe: Callable[[int], None] | None = None,
    observed_steps: Collection[int] = (),
) -> list[float]:
    """Train in place, side by side; each as if alone, up to rounding.

    Args:
        players: The networks of each GAN. Several are perceptrons of one architecture.
        data: Real samples, the same for all.
        recipe: How they are trained.
        generators: For batches and latent vectors, one for each.
        observe: Called with the number of a step after it, when the networks are up to date.
        observed_steps: After which steps.

    Returns:
        For each the mean information over the last tenth of the steps, in nats on training batches;
        0 without a statistics network.
    """
    # A step must not wait for numbers of the host.
    generators = [noise.own_generator(generator, data.device) for generator in generators]
    together = _stack_of(players)
    of_generator = adam(together.generator.parameters(), recipe.learning_rate)
    of_discriminator = adam(together.discriminator.parameters(), recipe.learning_rate)
    informant = None
    if together.statistics is not None:
        informant = _Informant(together.statistics, recipe)

    def latents(size: int) -> Tensor:
        """Latent vectors (networks, samples, size)."""
        return draw_stacked(
            lambda each: draw_prior(recipe.batch, size, recipe.prior, each, data.device), generators
        )

    # Of fewer than ten steps, the last one.
    first_seen = min(LAST * recipe.steps, recipe.steps - 1)
    for step in range(recipe.steps):
        # One batch of data and one of latent vectors serve all players of a GAN.
        real = draw_rows(data, recipe.batch, generators)
        latent = latents(recipe.noise_inputs + recipe.code)
        fake = together.generator(latent)
        code = latent[:, :, recipe.noise_inputs :]
        if informant is not None and recipe.information_with == "independent":
            code = latents(recipe.code)
        # The discriminator learns from samples it does not change.
        loss = real_loss(together.discriminator(real))
        loss = loss + fake_loss(together.discriminator(fake.detach()))
        update(of_discriminator, loss)
        # Then the statistics network, from the same samples.
        if informant is not None:
            informant.learn(fake.detach(), code, seen=step >= first_seen)
        # The generator last, against players that have just learnt.
        _update_generator(of_generator, together, fake, code, recipe.beta)
        if observe is not None and step + 1 in observed_steps:
            _write_back(together)
            observe(step + 1)
    _write_back(together)
    return informant.means() if informant is not None else [0.0] * len(players)


def _stack_of(players: Sequence[Players]) -> Players:
    statistics = [each.statistics for each in players if each.statistics is not None]
    return Players(
        stack_networks([each.generator for each in players]),
        stack_networks([each.discriminator for each in players]),
        stack_networks(statistics) if statistics else None,
    )


def _write_back(together: Players) -> None:
    for stack in vars(together).values():
        if stack is not None:
            write_back(stack)


class _Informant:
    """The statistics networks with their own optimiser, and what they saw at the end."""

    def __init__(self, network: nn.Module, recipe: GanRecipe) -> None:
        self._network = network
        self._optimizer = adam(network.parameters(), recipe.learning_rate)
        self._bound = DonskerVaradhan(recipe.ema)
        self._seen: list[Tensor] = []

    def learn(self, samples: Tensor, code: Tensor, *, seen: bool) -> None:
        joint, marginal = scores_of(self._network, samples, code)
        update(self._optimizer, self._bound.loss(joint, marginal))
        if seen:
            value = self._bound.value(joint.detach(), marginal.detach())
            self._seen.append(value)

    def means(self) -> list[float]:
        return [float(values.mean()) for values in torch.stack(self._seen, 1)]


def _update_generator(
    optimizer: torch.optim.Optimizer, players: Players, fake: Tensor, code: Tensor, beta: float
) -> None:
    """Both gradients of the whole generator first, then the clip, then one step."""
    parameters = list(players.generator.parameters())
    statistics = players.statistics
    loss = real_loss(players.discriminator(fake)).sum()
    gradients = list(torch.autograd.grad(loss, parameters, retain_graph=statistics is not None))
    if statistics is not None:
        joint, marginal = scores_of(statistics, fake, code)
        information = DonskerVaradhan(1.0).value(joint, marginal).sum()
        # Raising information is lowering its negative.
        informative = torch.autograd.grad(-information, parameters)
        clipped = adaptively_clipped(gradients, informative, networks=len(fake))
        gradients = [g + beta * extra for g, extra in zip(gradients, clipped)]
    for parameter, gradient in zip(parameters, gradients):
        # The fused Adam reads numbers in the order of memory, whatever the strides are.
        parameter.grad = gradient.contiguous()
    optimizer.step()


@torch.no_grad()
def generate(
    network: nn.Module, count: int, recipe: GanRecipe, generator: Generator, device: torch.device
) -> Tensor:
    """Samples in evaluation mode (running batch-norm statistics)."""
    latent_size = recipe.noise_inputs + recipe.code
    latent = draw_prior(count, latent_size, recipe.prior, generator, device)
    # Running statistics: a sample does not depend on its neighbours.
    network.eval()
    samples = outputs(network, latent, chunk=CHUNK)
    network.train()
    return samples


def norms(gradients: Sequence[Tensor], *, networks: int = 1) -> Tensor:
    """Euclidean norms (networks,) of all of them together, each stacked over networks."""
    total = torch.zeros_like(gradients[0].reshape(networks, -1).sum(1))
    for gradient in gradients:
        total = total + gradient.reshape(networks, -1).square().sum(1)
    return torch.sqrt(total)


def adaptively_clipped(
    adversarial: Sequence[Tensor], informative: Sequence[Tensor], *, networks: int = 1
) -> list[Tensor]:
    """The informative gradients, scaled down where they are longer than the adversarial ones.

    Zero or non-finite ones become 0. Of several networks, whose gradients are stacked, each has a
    length of its own.
    """
    limit = norms(adversarial, networks=networks)
    length = norms(informative, networks=networks)
    # A gradient of length 0, or none at all, cannot be scaled.
    usable = torch.isfinite(length) & (length > 0)
    ratio = torch.minimum(limit, length) / torch.where(usable, length, 1.0)
    factor = torch.where(usable, ratio, 0.0)
    # One factor for all parameters of a network keeps the direction.
    clipped = []
    for gradient in informative:
        finite = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
        scaled = finite.reshape(networks, -1) * factor[:, None]
        clipped.append(scaled.reshape(gradient.shape))
    return clipped
