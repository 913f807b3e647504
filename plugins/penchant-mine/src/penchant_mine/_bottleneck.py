"""Classifiers with a noisy representation, and what is added to their loss to keep the representation small.

Encoders: `plain` z = enc(x); `gaussian` z = mu(x) + sigma(x) e; `additive` z = enc(x + s e); `propagated` z = enc([x, e]).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from penchant_mine._bounds import DonskerVaradhan

NARROW = 5.0  # sigma = softplus(output - 5): a young encoder is nearly without noise (Alemi et al.)


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
    "mine-gaussian": Row("gaussian", "mine"),
    "mine-propagated": Row("propagated", "mine"),
    "mine-additive": Row("additive", "mine", input_noise=True),
}


@dataclass(frozen=True)
class BottleneckRecipe:
    """How a row is trained; betas by regulariser."""

    epochs: int
    batch: int
    learning_rate: float
    decay: float
    beta_mine: float
    beta_variational: float
    beta_confidence: float
    smoothing: float
    dropout: float
    noise: float
    ema: float


def noise_like(values: Tensor, generator: Generator) -> Tensor:
    """Standard normal numbers in the shape of these, from a CPU generator."""
    return torch.randn(values.shape, generator=generator, device="cpu").to(values)


class Classifier(nn.Module):
    """Encoder and linear decoder."""

    def __init__(
        self, row: Row, size: int, widths: Sequence[int], code: int, classes: int, *, extra: int
    ) -> None:
        super().__init__()
        self.row, self.code, self.extra = row, code, extra if row.encoder == "propagated" else 0
        sizes = [size + self.extra, *widths, code * (2 if row.encoder == "gaussian" else 1)]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.decoder = nn.Linear(code, classes)

    def encode(
        self, x: Tensor, recipe: BottleneckRecipe, generator: Generator, *, training: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A draw of z, and the mean and standard deviation of a Gaussian encoder (else z itself and zeros)."""
        if self.row.input_noise:
            x = x + recipe.noise * noise_like(x, generator)
        if self.extra:
            x = torch.cat(
                [x, torch.randn(len(x), self.extra, generator=generator, device="cpu").to(x)], 1
            )
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number < len(self.layers) - 1:
                x = functional.relu(x)
                if training and self.row.regulariser == "dropout":
                    keep = (
                        torch.rand(x.shape, generator=generator, device="cpu").to(x)
                        >= recipe.dropout
                    )
                    x = x * keep / (1 - recipe.dropout)
        if self.row.encoder != "gaussian":
            return x, x, torch.zeros_like(x)
        mean, sigma = x[:, : self.code], functional.softplus(x[:, self.code :] - NARROW) + 1e-6
        return mean + sigma * noise_like(mean, generator), mean, sigma


class NoisyStatistics(nn.Module):
    """Statistics network with noise before every layer (table C.12)."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(size, width), nn.Linear(width, width), nn.Linear(width, 1)]
        )
        self.deviations = (0.3, 0.5, 0.5)

    def forward(self, x: Tensor, z: Tensor, generator: Generator) -> Tensor:
        """Scores (1, samples)."""
        hidden = torch.cat([x, z], 1)
        for number, (layer, deviation) in enumerate(zip(self.layers, self.deviations)):
            hidden = layer(hidden + deviation * noise_like(hidden, generator))
            hidden = functional.elu(hidden) if number < 2 else hidden
        return hidden.reshape(1, -1)


def train_row(
    classifier: Classifier,
    statistics: NoisyStatistics | None,
    x: Tensor,
    labels: Tensor,
    recipe: BottleneckRecipe,
    generator: Generator,
) -> None:
    """Train in place. The statistics network has its own optimiser and its own loss."""
    optimizer = torch.optim.Adam(
        classifier.parameters(), lr=recipe.learning_rate, betas=(0.5, 0.999)
    )
    judge = (
        None
        if statistics is None
        else torch.optim.Adam(statistics.parameters(), lr=recipe.learning_rate, betas=(0.5, 0.999))
    )
    bound = DonskerVaradhan(recipe.ema)
    for epoch in range(recipe.epochs):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * recipe.decay ** (epoch // 2)
        order = torch.randperm(len(x), generator=generator, device="cpu").to(x.device)
        for rows in order.split(recipe.batch):
            z, mean, sigma = classifier.encode(x[rows], recipe, generator, training=True)
            if statistics is not None and judge is not None and len(rows) > 1:
                joint, marginal = _scores(statistics, x[rows], z.detach(), generator)
                _update(judge, bound.loss(joint, marginal).sum())
            loss = _supervised(classifier.decoder(z), labels[rows], classifier.row, recipe)
            if classifier.row.regulariser == "variational":
                loss = loss + recipe.beta_variational * _kl_to_standard(mean, sigma)
            if statistics is not None and len(rows) > 1:
                loss = (
                    loss
                    + recipe.beta_mine
                    * DonskerVaradhan(1.0).value(*_scores(statistics, x[rows], z, generator)).sum()
                )
            _update(optimizer, loss)


def _update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def _scores(
    statistics: NoisyStatistics, x: Tensor, z: Tensor, generator: Generator
) -> tuple[Tensor, Tensor]:
    return statistics(x, z, generator), statistics(x, z.roll(1, 0), generator)[:, None]


def _supervised(logits: Tensor, labels: Tensor, row: Row, recipe: BottleneckRecipe) -> Tensor:
    smoothing = recipe.smoothing if row.regulariser == "smoothing" else 0.0
    loss = functional.cross_entropy(logits, labels, label_smoothing=smoothing)
    if row.regulariser == "confidence":
        log_p = logits.log_softmax(1)
        loss = loss + recipe.beta_confidence * (log_p.exp() * log_p).sum(1).mean()
    return loss


def _kl_to_standard(mean: Tensor, sigma: Tensor) -> Tensor:
    """KL of N(mean, sigma^2) to N(0, 1), summed over components."""
    return 0.5 * (mean.square() + sigma.square() - 1 - 2 * sigma.log()).sum(1).mean()


@torch.no_grad()
def error_rate(
    classifier: Classifier,
    x: Tensor,
    labels: Tensor,
    recipe: BottleneckRecipe,
    draws: int,
    generator: Generator,
) -> float:
    """Misclassified share; class probabilities are averaged over draws of the representation."""
    probabilities = sum(
        classifier.decoder(classifier.encode(x, recipe, generator)[0]).softmax(1)
        for _ in range(draws)
    )
    return float((probabilities.argmax(1) != labels).double().mean())


@torch.no_grad()
def information_from_density(z: Tensor, mean: Tensor, sigma: Tensor) -> tuple[float, float]:
    """I(X; Z) of a Gaussian encoder over these very inputs, from its density: mean of log p(z|x) - log mean_j p(z|x_j).

    Between 0 and log(samples); exact for X uniform on the inputs, up to the draw of z. Returns the value and its standard error.
    """
    z, mean, sigma = (each.to(torch.float64) for each in (z, mean, sigma))
    inverse = 1 / sigma.square()
    constant = -(sigma.log().sum(1)) - 0.5 * (mean.square() * inverse).sum(1)
    log_p = (
        constant + z @ (mean * inverse).T - 0.5 * z.square() @ inverse.T
    )  # (draws, inputs), without what cancels
    pointwise = log_p.diagonal() - torch.logsumexp(log_p, 1) + math.log(len(z))
    return float(pointwise.mean()), float(pointwise.std()) / math.sqrt(len(z))
