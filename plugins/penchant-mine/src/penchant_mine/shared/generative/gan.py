"""A generative adversarial network, with the information between samples and code as second aim.

Discriminator, statistics network and generator have an optimiser each; the statistics network
learns from its own loss only.

Adaptive clipping: the gradient of the information is never longer than the adversarial one.

g_a = min(|g_u|, |g_m|) g_m / |g_m|, with norms over all parameters of the generator together
(thesis, C.1.1).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.inputs import noise
from penchant_numerics.training import outputs
from torch import Generator, Tensor, nn
from torch.nn import functional

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


def draw_rows(data: Tensor, count: int, generator: Generator) -> Tensor:
    """Rows of the data, sampled with replacement."""
    rows = noise.integers(len(data), (count,), generator, data.device)
    return data[rows]


def real_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of "this is real"."""
    return functional.softplus(-logits).mean()


def fake_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of "this is not real"."""
    return functional.softplus(logits).mean()


def scores_of(statistics: nn.Module, samples: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
    """Joint (1, samples) and marginal scores (1, 1, samples).

    The batch was sampled at random, so one shift is a derangement. Both go through the network in
    one pass, which is right for networks whose scores do not depend on the rest of the batch.
    """
    moved = code.roll(1, 0)
    twice = torch.cat([samples, samples])
    scores = statistics(twice, torch.cat([code, moved])).flatten()
    joint, marginal = scores.split(len(samples))
    return joint[None], marginal[None, None]


def adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Adam:
    """The optimiser of every player, whose step is one call where the device has it."""
    listed = list(parameters)
    fused = {each.device.type for each in listed} <= {"cpu", "cuda"}
    return torch.optim.Adam(listed, lr=learning_rate, betas=BETAS, fused=fused)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down a loss."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def train_gan(
    players: Players,
    data: Tensor,
    recipe: GanRecipe,
    generator: Generator,
    *,
    observe: Callable[[int], None] | None = None,
) -> float:
    """Train in place.

    Args:
        players: The networks.
        data: Real samples.
        recipe: How they are trained.
        generator: For batches and latent vectors.
        observe: Called with the number of every step after it.

    Returns:
        The mean information over the last tenth of the steps, in nats on training batches; 0
        without a statistics network.
    """
    # A step must not wait for numbers of the host.
    generator = noise.own_generator(generator, data.device)
    of_generator = adam(players.generator.parameters(), recipe.learning_rate)
    of_discriminator = adam(players.discriminator.parameters(), recipe.learning_rate)
    informant = None
    if players.statistics is not None:
        informant = _Informant(players.statistics, recipe)
    latent_size = recipe.noise_inputs + recipe.code
    # Of fewer than ten steps, the last one.
    first_seen = min(LAST * recipe.steps, recipe.steps - 1)
    for step in range(recipe.steps):
        # One batch of data and one of latent vectors serve all players.
        real = draw_rows(data, recipe.batch, generator)
        latent = draw_prior(recipe.batch, latent_size, recipe.prior, generator, data.device)
        fake = players.generator(latent)
        code = latent[:, recipe.noise_inputs :]
        if informant is not None and recipe.information_with == "independent":
            code = draw_prior(recipe.batch, recipe.code, recipe.prior, generator, data.device)
        # The discriminator learns from samples it does not change.
        loss = real_loss(players.discriminator(real))
        loss = loss + fake_loss(players.discriminator(fake.detach()))
        update(of_discriminator, loss)
        # Then the statistics network, from the same samples.
        if informant is not None:
            informant.learn(fake.detach(), code, seen=step >= first_seen)
        # The generator last, against players that have just learnt.
        _update_generator(of_generator, players, fake, code, recipe.beta)
        if observe is not None:
            observe(step + 1)
    return informant.mean() if informant is not None else 0.0


class _Informant:
    """The statistics network with its own optimiser, and what it saw at the end."""

    def __init__(self, network: nn.Module, recipe: GanRecipe) -> None:
        self._network = network
        self._optimizer = adam(network.parameters(), recipe.learning_rate)
        self._bound = DonskerVaradhan(recipe.ema)
        self._seen: list[Tensor] = []

    def learn(self, samples: Tensor, code: Tensor, *, seen: bool) -> None:
        joint, marginal = scores_of(self._network, samples, code)
        loss = self._bound.loss(joint, marginal)
        update(self._optimizer, loss.sum())
        if seen:
            value = self._bound.value(joint.detach(), marginal.detach())
            self._seen.append(value)

    def mean(self) -> float:
        if not self._seen:
            return 0.0
        values = torch.cat(self._seen)
        return float(values.mean())


def _update_generator(
    optimizer: torch.optim.Optimizer, players: Players, fake: Tensor, code: Tensor, beta: float
) -> None:
    """Both gradients of the whole generator first, then the clip, then one step."""
    parameters = list(players.generator.parameters())
    statistics = players.statistics
    loss = real_loss(players.discriminator(fake))
    gradients = list(torch.autograd.grad(loss, parameters, retain_graph=statistics is not None))
    if statistics is not None:
        joint, marginal = scores_of(statistics, fake, code)
        information = DonskerVaradhan(1.0).value(joint, marginal).sum()
        # Raising information is lowering its negative.
        informative = torch.autograd.grad(-information, parameters)
        clipped = adaptively_clipped(gradients, informative)
        gradients = [g + beta * extra for g, extra in zip(gradients, clipped)]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
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


def norm(gradients: Sequence[Tensor]) -> Tensor:
    """Euclidean norm of all of them together."""
    total = torch.zeros_like(gradients[0].sum())
    for gradient in gradients:
        total = total + gradient.square().sum()
    return torch.sqrt(total)


def adaptively_clipped(
    adversarial: Sequence[Tensor], informative: Sequence[Tensor]
) -> list[Tensor]:
    """The informative gradients, scaled down where they are longer than the adversarial ones.

    Zero or non-finite ones become 0.
    """
    limit = norm(adversarial)
    length = norm(informative)
    # A gradient of length 0, or none at all, cannot be scaled.
    usable = torch.isfinite(length) & (length > 0)
    ratio = torch.minimum(limit, length) / torch.where(usable, length, 1.0)
    factor = torch.where(usable, ratio, 0.0)
    # One factor for all parameters keeps the direction.
    clipped = []
    for gradient in informative:
        finite = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
        clipped.append(finite * factor)
    return clipped
