"""Three small networks with what a slip may change of them, and their data: for `card_power.py`."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from penchant_numerics.data import Data, Samples
from torch import Tensor, nn

TOKENS = 12
LENGTH = 8
COLOURS = (1.0, 0.6, 0.25)  # of the digits: channels differ, as those of photographs do


@attrs.frozen
class Form:
    """What a slip may change of a network."""

    activation: Any = nn.ReLU
    norm: bool = True
    residual: bool = True
    maximum: bool = False
    padding: str = "zeros"
    stride: int = 1
    bias: bool = True
    gain: float = 1.0
    shift: float = 0.0
    transposed: bool = False
    reversed_channels: bool = False
    tied: bool = True

    def prepared(self, images: Tensor) -> Tensor:
        """Images as a pipeline hands them to the network."""
        images = images - self.shift
        return images.flip(1) if self.reversed_channels else images


class Convolutional(nn.Module):
    """Two convolutions with a residual connection, pooling, and a linear head."""

    def __init__(self, form: Form, outputs: int) -> None:
        super().__init__()
        self.form = form
        more: dict[str, Any] = {"padding": 1, "padding_mode": form.padding, "bias": form.bias}
        self.first = nn.Conv2d(3, 8, 3, stride=form.stride, **more)
        self.second = nn.Conv2d(8, 8, 3, **more)
        self.norm = nn.GroupNorm(2, 8) if form.norm else nn.Identity()
        self.act = form.activation()
        self.pool = nn.MaxPool2d(2) if form.maximum else nn.AvgPool2d(2)
        self.head = nn.Linear(8 * (4 // form.stride) ** 2, outputs, bias=form.bias)
        scale(self, form.gain)

    def forward(self, images: Tensor) -> Tensor:
        form = self.form
        first = self.act(self.norm(self.first(form.prepared(images))))
        second = self.act(self.second(first))
        pooled = self.pool(first + second if form.residual else second)
        if form.transposed:
            pooled = pooled.transpose(-1, -2)
        logits: Tensor = self.head(pooled.flatten(1))
        return logits


class Block(nn.Module):
    """Attention and a perceptron with pre-normalisation."""

    def __init__(self, form: Form, width: int) -> None:
        super().__init__()
        self.form = form
        norm = nn.LayerNorm if form.norm else nn.Identity
        self.before, self.between = norm(width), norm(width)
        self.queries = nn.Linear(width, 3 * width, bias=form.bias)
        self.mixed = nn.Linear(width, width, bias=form.bias)
        self.up = nn.Linear(width, 2 * width, bias=form.bias)
        self.down = nn.Linear(2 * width, width, bias=form.bias)
        self.act = form.activation()

    def forward(self, tokens: Tensor, *, causal: bool) -> Tensor:
        tokens = self._attention(self.before(tokens), causal) + self._kept(tokens)
        updated: Tensor = self.down(self.act(self.up(self.between(tokens))))
        return updated + self._kept(tokens)

    def _kept(self, tokens: Tensor) -> Tensor | float:
        return tokens if self.form.residual else 0.0

    def _attention(self, tokens: Tensor, causal: bool) -> Tensor:
        queries, keys, values = self.queries(tokens).chunk(3, dim=-1)
        scores = queries @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5
        if causal:
            later = torch.ones(scores.shape[-2:], device=scores.device).triu(1).bool()
            scores = scores.masked_fill(later, -1e9)
        mixed: Tensor = self.mixed(scores.softmax(-1) @ values)
        return mixed


class Patches(nn.Module):
    """A vision transformer of one block: patches, positions, the mean of all tokens, a head."""

    def __init__(self, form: Form, outputs: int) -> None:
        super().__init__()
        self.form = form
        more: dict[str, Any] = {"padding": 1, "padding_mode": form.padding, "bias": form.bias}
        self.embed = nn.Conv2d(3, 16, 4, stride=2 * form.stride, **more)
        self.positions = nn.Parameter(0.1 * torch.randn((4 // form.stride) ** 2, 16))
        self.block = Block(form, 16)
        self.head = nn.Linear(16, outputs, bias=form.bias)
        scale(self, form.gain)

    def forward(self, images: Tensor) -> Tensor:
        embedded = self.embed(self.form.prepared(images))
        if self.form.transposed:
            embedded = embedded.transpose(-1, -2)
        tokens = self.block(embedded.flatten(2).transpose(1, 2) + self.positions, causal=False)
        logits: Tensor = self.head(tokens.amax(1) if self.form.maximum else tokens.mean(1))
        return logits


class Language(nn.Module):
    """A language model of one block, whose head is its embedding."""

    def __init__(self, form: Form, outputs: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(outputs, 16)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, 16))
        self.block = Block(form, 16)
        self.head = nn.Linear(16, outputs, bias=False)
        if form.tied:
            self.head.weight = self.embed.weight
        with torch.no_grad():
            self.embed.weight.mul_(0.25)
        scale(self, form.gain)

    def forward(self, tokens: Tensor) -> Tensor:
        places = self.embed(tokens) + self.positions[: tokens.shape[1]]
        logits: Tensor = self.head(self.block(places, causal=True))
        return logits


def scale(network: nn.Module, gain: float) -> None:
    """Multiply every matrix of a network."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.mul_(gain)


NETWORKS: dict[str, type[nn.Module]] = {
    "convolutional": Convolutional,
    "patches": Patches,
    "language": Language,
}
IMAGES = ("convolutional", "patches")

# A slip, what it changes, and the networks that can have it.
SLIPS: dict[str, tuple[Form, tuple[str, ...]]] = {
    "circular padding": (Form(padding="circular"), IMAGES),
    "norm missing": (Form(norm=False), (*IMAGES, "language")),
    "gain 1.4 for 1": (Form(gain=1.4), (*IMAGES, "language")),
    "transposed patches": (Form(transposed=True), IMAGES),
    "residual dropped": (Form(residual=False), (*IMAGES, "language")),
    "max pooling for average": (Form(maximum=True), IMAGES),
    "GELU for ReLU": (Form(activation=nn.GELU), (*IMAGES, "language")),
    "stride twice as long": (Form(stride=2), IMAGES),
    "no bias": (Form(bias=False), (*IMAGES, "language")),
    "input mean 0.5": (Form(shift=0.5), IMAGES),
    "channels reversed": (Form(reversed_channels=True), IMAGES),
    "head not tied": (Form(tied=False), ("language",)),
}


def coloured_digits(count: int, generator: torch.Generator) -> Samples:
    """Digits of 8 x 8 pixels in three channels of different strength."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    chosen = torch.randperm(len(bunch.target), generator=generator)[:count]
    images = torch.as_tensor(bunch.images, dtype=torch.float32)[chosen, None] / 8 - 1
    labels = torch.as_tensor(bunch.target, dtype=torch.int64)[chosen]
    return Samples(images * torch.tensor(COLOURS).view(3, 1, 1), labels)


def sentences(count: int, generator: torch.Generator) -> Samples:
    """Sequences of a Markov chain in which every token has three likely followers."""
    table = torch.Generator().manual_seed(1)
    chances = torch.rand(TOKENS, TOKENS, generator=table) ** 6 + 0.01
    tokens = torch.zeros(count, LENGTH + 1, dtype=torch.int64)
    tokens[:, 0] = torch.randint(TOKENS, (count,), generator=generator)
    for place in range(LENGTH):
        drawn = torch.multinomial(chances[tokens[:, place]], 1, generator=generator)
        tokens[:, place + 1] = drawn[:, 0]
    return Samples(tokens[:, :-1], tokens[:, 1:])


def data_of(network: str, seed: int) -> Data:
    """Data of a network: 400 training samples and 100 test samples."""
    generator = torch.Generator().manual_seed(seed)
    drawn = coloured_digits if network in IMAGES else sentences
    samples = drawn(500, generator)
    classes = 10 if network in IMAGES else TOKENS
    return Data(samples.select(slice(0, 400)), samples.select(slice(400, 500)), classes)
