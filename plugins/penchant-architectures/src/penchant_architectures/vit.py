"""Vision transformer."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from torch import nn

from penchant_architectures.initialization import glorot_uniform, initialise
from penchant_architectures.layers import Layers
from penchant_architectures.shapes import image, written

_TOKEN_STD = 0.02


class Attention(nn.Module):
    """Self-attention of several heads, written out: fused kernels cannot be differentiated twice."""

    def __init__(self, width: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        batch, count, width = tokens.shape
        parts = self.queries_keys_values(tokens).reshape(
            batch, count, 3, self.heads, width // self.heads
        )
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind(
            0
        )  # (batch, heads, tokens, width of a head) each
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(width // self.heads)
        mixed = scores.softmax(dim=-1) @ values
        return self.output(mixed.transpose(1, 2).reshape(batch, count, width))


class Residual(nn.Module):
    """x + branch(x)."""

    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x)


class Tokens(nn.Module):
    """One token per patch behind a class token, each with its learned position added."""

    def __init__(self, channels: int, patch: int, count: int, width: int, *, bias: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, stride=patch, bias=bias)
        device = self.patches.weight.device
        self.class_token = nn.Parameter(torch.empty(1, 1, width, device=device))
        self.positions = nn.Parameter(torch.empty(1, count + 1, width, device=device))
        nn.init.normal_(self.class_token, 0.0, _TOKEN_STD)
        nn.init.normal_(self.positions, 0.0, _TOKEN_STD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)  # (batch, patches, width)
        first = self.class_token.expand(len(x), -1, -1)
        return torch.cat([first, patches], dim=1) + self.positions


class ClassToken(nn.Module):
    """The first token."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens[:, 0]


def build(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `vit`."""
    channels, height, width = image(shape, "vit")
    if height % options.patch or width % options.patch:
        raise penchant.Error(
            f"vit needs images whose sides are multiples of its patch {options.patch}, found {written(shape)}"
        )
    if options.width % options.heads:
        raise penchant.Error(
            f"vit needs a width that its heads divide, found width {options.width} with {options.heads} heads"
        )
    count = (height // options.patch) * (width // options.patch)
    modules: list[nn.Module] = [
        Tokens(channels, options.patch, count, options.width, bias=options.bias)
    ]
    for _ in range(options.layers):
        modules += _layer(options)
    modules += [ClassToken(), *_norm(options), nn.Linear(options.width, outputs, bias=options.bias)]
    return initialise(nn.Sequential(*modules), options, glorot_uniform)


def _layer(options: Any) -> list[nn.Module]:
    attention = Attention(options.width, options.heads, bias=options.bias)
    perceptron = Layers(options).perceptron(options.width, (options.hidden,), options.width)
    return [Residual(*_norm(options), attention), Residual(*_norm(options), *perceptron)]


def _norm(options: Any) -> list[nn.Module]:
    return [nn.LayerNorm(options.width)] if options.normalization == "layer" else []
