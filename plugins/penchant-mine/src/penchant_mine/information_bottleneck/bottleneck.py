"""Classifiers with a noisy representation, and what keeps the representation small.

Several classifiers train side by side: tensors of a step then have an axis of networks first, and
each network draws from its own generator.

Encoders: `plain` z = enc(x); `gaussian` z = mu(x) + sigma(x) e; `additive` z = enc(x + s e);
`propagated` z = enc([x, e]).
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from penchant_numerics.inputs import noise
from torch import Generator, Tensor, nn
from torch.nn import functional

from penchant_mine.shared.generative.gan import adam, draw_stacked, update
from penchant_mine.shared.generative.network_stacks import stacked, write_back
from penchant_mine.shared.information.bounds import DonskerVaradhan

NARROW = 5.0  # sigma = softplus(output - 5): a young encoder is nearly without noise (Alemi et al.)
SMALLEST = 1e-6  # of sigma
BETA_VARIATIONAL = 1e-3  # weight of the KL of the variational bottleneck
BETA_CONFIDENCE = 0.1  # weight of the confidence penalty
SMOOTHING = 0.1  # of labels
PROPAGATED_INPUTS = 64  # components of the noise input of the propagated encoder


@dataclass(frozen=True)
class Row:
    """One row of the table: the encoder, and what regularises it."""

    encoder: str = "plain"
    regulariser: str = ""
    input_noise: bool = False


ROWS = {
    "baseline": Row(),
    "dropout": Row(regulariser="dropout"),
    "confidence-penalty": Row(regulariser="confidence"),
    "label-smoothing": Row(regulariser="smoothing"),
    "variational": Row("gaussian", "variational"),
    "variational-noise": Row("gaussian", "variational", input_noise=True),
    # Noise alone: what the rows below are with beta = 0.
    "noise-gaussian": Row("gaussian"),
    "noise-propagated": Row("propagated"),
    "noise-additive": Row("additive", input_noise=True),
    "mine-gaussian": Row("gaussian", "mine"),
    "mine-propagated": Row("propagated", "mine"),
    "mine-additive": Row("additive", "mine", input_noise=True),
}


@dataclass(frozen=True)
class BottleneckRecipe:
    """How a row is trained."""

    epochs: int
    batch: int
    learning_rate: float
    decay: float
    beta_mine: float
    dropout: float
    noise_std: float
    ema: float
    polyak: float | None = None


Streams = Generator | Sequence[Generator]  # of one network, or of each of several


def noise_like(values: Tensor, streams: Streams) -> Tensor:
    """Standard normal numbers in the shape of these, where they are."""
    return _sampled_like(noise.normal, values, streams)


def _sampled_like(
    draw: Callable[[Sequence[int], Generator, torch.device], Tensor],
    values: Tensor,
    streams: Streams,
) -> Tensor:
    if isinstance(streams, Generator):
        sampled = draw(values.shape, streams, values.device)
    else:
        own = values.shape[1:]
        sampled = draw_stacked(lambda each: draw(own, each, values.device), streams)
    return sampled.to(values.dtype)


def _linear_layers(sizes: Sequence[int]) -> nn.ModuleList:
    """From each size to the next."""
    layers = nn.ModuleList()
    for before, after in zip(sizes, sizes[1:]):
        layers.append(nn.Linear(before, after))
    return layers


class Classifier(nn.Module):
    """Encoder and linear decoder."""

    def __init__(
        self,
        row: Row,
        size: int,
        widths: Sequence[int],
        code: int,
        classes: int,
        *,
        propagated: int,
    ) -> None:
        super().__init__()
        self.row = row
        self.code = code
        self.propagated = propagated if row.encoder == "propagated" else 0
        # A Gaussian encoder gives a mean and a width for each component.
        numbers = 2 * code if row.encoder == "gaussian" else code
        self.layers = _linear_layers([size + self.propagated, *widths, numbers])
        self.decoder = nn.Linear(code, classes)

    def encode(
        self, x: Tensor, recipe: BottleneckRecipe, streams: Streams, *, training: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A draw of z, and the mean and standard deviation of a Gaussian encoder.

        For other encoders these are z itself and zeros.
        """
        # Noise on the input, where the row has it, comes before everything else.
        x = self._with_noise(x, recipe, streams)
        drops = training and self.row.regulariser == "dropout"
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == last:
                break
            x = functional.relu(x)
            if drops:
                chance = _sampled_like(noise.uniform, x, streams)
                x = x * (chance >= recipe.dropout) / (1 - recipe.dropout)
        if self.row.encoder != "gaussian":
            return x, x, torch.zeros_like(x)
        mean = x[..., : self.code]
        sigma = functional.softplus(x[..., self.code :] - NARROW) + SMALLEST
        return mean + sigma * noise_like(mean, streams), mean, sigma

    def _with_noise(self, x: Tensor, recipe: BottleneckRecipe, streams: Streams) -> Tensor:
        if self.row.input_noise:
            x = x + recipe.noise_std * noise_like(x, streams)
        if self.propagated:
            further = x.new_empty((*x.shape[:-1], self.propagated))
            x = torch.cat([x, noise_like(further, streams)], -1)
        return x


class NoisyStatistics(nn.Module):
    """Statistics network with noise before every layer (table C.12)."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.layers = _linear_layers([size, width, width, 1])
        self.deviations = (0.3, 0.5, 0.5)

    def forward(self, x: Tensor, z: Tensor, streams: Streams) -> Tensor:
        """Scores (networks, samples), of one network (1, samples)."""
        hidden = torch.cat([x, z], -1)
        # Noise keeps the statistics network from learning samples by heart.
        for number, (layer, deviation) in enumerate(zip(self.layers, self.deviations)):
            hidden = layer(hidden + deviation * noise_like(hidden, streams))
            hidden = functional.elu(hidden) if number < 2 else hidden
        return hidden.reshape(-1, hidden.shape[-2])

    def scores(self, x: Tensor, z: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Joint (networks, samples) and marginal scores (networks, 1, samples)."""
        twice = torch.cat([x, x], -2)
        scores = self(twice, torch.cat([z, z.roll(1, -2)], -2), streams)
        joint, marginal = scores.split(x.shape[-2], dim=1)
        return joint, marginal[:, None]


def train_rows(
    classifiers: Sequence[Classifier],
    statistics: Sequence[NoisyStatistics] | None,
    x: Tensor,
    labels: Tensor,
    recipe: BottleneckRecipe,
    generators: Sequence[Generator],
) -> None:
    """Train in place, side by side; each as if alone, up to rounding.

    A statistics network has its own optimiser and its own loss. With `polyak` a classifier ends
    with the average of its weights over all steps, the newest of weight 1 - polyak, as in the code
    of Alemi et al.

    Args:
        classifiers: Encoder and decoder of each, of one row.
        statistics: What the information of each is estimated with; None: it is not.
        x: Inputs (samples, size).
        labels: Classes (samples,).
        recipe: How they are trained.
        generators: For batches and all noise, one for each.
    """
    # A step must not wait for numbers of the host.
    generators = [noise.own_generator(generator, x.device) for generator in generators]
    classifier, networks = _stack_of(classifiers), len(classifiers)
    streams: Streams = generators if networks > 1 else generators[0]
    optimizer = adam(classifier.parameters(), recipe.learning_rate)
    judge = _stack_of(statistics) if statistics is not None else None
    informant = _Informant(judge, recipe, streams) if judge is not None else None
    average = _Average(classifier, recipe.polyak) if recipe.polyak is not None else None
    for epoch in range(recipe.epochs):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * recipe.decay ** (epoch // 2)
        # Every epoch of a network has an order of its own.
        orders = [noise.permutation(len(x), generator, x.device) for generator in generators]
        order = torch.stack(orders) if networks > 1 else orders[0]
        for rows in order.split(recipe.batch, -1):
            inputs = x[rows]
            z, mean, sigma = classifier.encode(inputs, recipe, streams, training=True)
            # A single sample has no other to be paired with.
            informing = informant if rows.shape[-1] > 1 else None
            if informing is not None:
                informing.learn(inputs, z.detach())
            loss = _supervised(classifier.decoder(z), labels[rows], classifier.row, recipe)
            if classifier.row.regulariser == "variational":
                loss = loss + BETA_VARIATIONAL * _kl_to_standard(mean, sigma)
            # A mean over all networks; the information is their sum.
            loss = networks * loss
            if informing is not None:
                loss = loss + recipe.beta_mine * informing.information(inputs, z)
            update(optimizer, loss)
            if average is not None:
                average.add()
    if average is not None:
        average.apply()
    write_back(classifier)
    if judge is not None:
        write_back(judge)


Network = TypeVar("Network", Classifier, NoisyStatistics)


def _stack_of(networks: Sequence[Network]) -> Network:
    """A network whose layers are those of all; one is itself."""
    if len(networks) == 1:
        return networks[0]
    together = copy.deepcopy(networks[0])
    for name, _ in networks[0].named_children():
        setattr(together, name, stacked([getattr(network, name) for network in networks]))
    return together


class _Average:
    """The exponential average of a network's weights, not biased towards those of the start."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._parameters = list(network.parameters())
        self._decay = decay
        self._sums = [torch.zeros_like(each) for each in self._parameters]
        self._weight = 0.0

    @torch.no_grad()
    def add(self) -> None:
        """Take in the weights as they are now."""
        for total, parameter in zip(self._sums, self._parameters):
            total.lerp_(parameter, 1 - self._decay)
        self._weight = self._decay * self._weight + 1 - self._decay

    @torch.no_grad()
    def apply(self) -> None:
        """Set the weights to their average, once there are any."""
        if not self._weight:
            return
        for total, parameter in zip(self._sums, self._parameters):
            parameter.copy_(total / self._weight)


class _Informant:
    """The statistics network, which learns from a loss of its own."""

    def __init__(
        self, network: NoisyStatistics, recipe: BottleneckRecipe, streams: Streams
    ) -> None:
        self._network = network
        self._optimizer = adam(network.parameters(), recipe.learning_rate)
        self._bound = DonskerVaradhan(recipe.ema)
        self._streams = streams

    def learn(self, x: Tensor, z: Tensor) -> None:
        joint, marginal = self._network.scores(x, z, self._streams)
        update(self._optimizer, self._bound.loss(joint, marginal))

    def information(self, x: Tensor, z: Tensor) -> Tensor:
        joint, marginal = self._network.scores(x, z, self._streams)
        # A value needs no moving average.
        bound = DonskerVaradhan(1.0)
        return bound.value(joint, marginal).sum()


def _supervised(logits: Tensor, labels: Tensor, row: Row, recipe: BottleneckRecipe) -> Tensor:
    smoothing = SMOOTHING if row.regulariser == "smoothing" else 0.0
    loss = functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), label_smoothing=smoothing
    )
    if row.regulariser == "confidence":
        log_p = logits.log_softmax(-1)
        negative_entropy = (log_p.exp() * log_p).sum(-1).mean()
        loss = loss + BETA_CONFIDENCE * negative_entropy
    return loss


def _kl_to_standard(mean: Tensor, sigma: Tensor) -> Tensor:
    """KL of N(mean, sigma^2) to N(0, 1), summed over components."""
    squares = mean.square() + sigma.square()
    logs = 2 * sigma.log()
    pointwise = squares - 1 - logs
    of_samples = pointwise.sum(-1)
    return 0.5 * of_samples.mean()


@torch.no_grad()
def misclassified(
    classifier: Classifier,
    x: Tensor,
    labels: Tensor,
    recipe: BottleneckRecipe,
    draws: int,
    generator: Generator,
) -> Tensor:
    """Which samples (samples,) get another class: probabilities are averaged over draws of z."""
    probabilities = x.new_zeros(())
    # A noisy classifier answers with its mean over draws.
    for _ in range(draws):
        z, _, _ = classifier.encode(x, recipe, generator)
        probabilities = probabilities + classifier.decoder(z).softmax(1)
    return probabilities.argmax(1) != labels


@torch.no_grad()
def information_from_density(z: Tensor, mean: Tensor, sigma: Tensor) -> tuple[float, float]:
    """I(X; Z) of a Gaussian encoder over these very inputs, and its standard error.

    The mean of log p(z|x) - log mean_j p(z|x_j): between 0 and log(samples), exact for X uniform on
    the inputs, up to the draw of z. Where every draw tells its input from all others, the error is
    that of one draw in all which two inputs share.
    """
    z, mean, sigma = (each.to(torch.float64) for each in (z, mean, sigma))
    # Densities of all inputs at all draws, from matrix products.
    inverse = 1 / sigma.square()
    weighted = mean * inverse
    squares = mean.square() * inverse
    constant = -(sigma.log().sum(1)) - 0.5 * squares.sum(1)
    # Without what cancels, (draws, inputs).
    halves = 0.5 * z.square()
    log_p = constant + z @ weighted.T - halves @ inverse.T
    of_all = torch.logsumexp(log_p, 1)
    count = len(z)
    pointwise = log_p.diagonal() - of_all + math.log(count)
    stderr = float(pointwise.std()) / math.sqrt(count)
    # The error never falls below that of one shared draw.
    least = math.log(2) / count
    return float(pointwise.mean()), max(stderr, least)


@torch.no_grad()
def information_upper_bound(mean: Tensor, sigma: Tensor) -> tuple[float, float]:
    """Mean KL of a Gaussian encoder's density to one normal: never below I(X; Z).

    I(X; Z) = E KL(p(z|x) | p(z)) <= E KL(p(z|x) | r(z)) for every r. Here r has the mean and the
    variances of all z, which is the best normal with independent components. With noise on the
    input, mean and sigma belong to the noisy input, and I(X; Z) is at most its information.

    Args:
        mean: Means (samples, components) of the encoder.
        sigma: Its standard deviations.

    Returns:
        The bound and its standard error over samples.
    """
    mean, sigma = mean.to(torch.float64), sigma.to(torch.float64)
    # Moments of all z together.
    centre = mean.mean(0)
    squares = (mean - centre).square()
    widths = sigma.square()
    variance = squares.mean(0) + widths.mean(0)
    # KL of every sample's density, component by component.
    ratio = widths / variance
    away = squares / variance
    components = ratio + away - 1 - ratio.log()
    pointwise = 0.5 * components.sum(1)
    stderr = float(pointwise.std()) / math.sqrt(len(mean))
    return float(pointwise.mean()), stderr
