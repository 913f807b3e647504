"""Vision transformer."""

import math

import penchant
import torch
from penchant_numerics.data import written
from torch import nn

from penchant_architectures.architectures.images import image
from penchant_architectures.architectures.initialization import glorot_uniform, initialise
from penchant_architectures.architectures.layers import Layers
from penchant_architectures.declarations.transformers import VisionTransformer

TOKEN_STD = 0.02


class Attention(nn.Module):
    """Self-attention of several heads, written out: fused kernels have no second derivative."""

    def __init__(self, width: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Every token as a mixture of all, weighed by how well its query fits their keys."""
        batch, count, width = tokens.shape
        of_a_head = width // self.heads
        projected = self.queries_keys_values(tokens)
        projected = projected.reshape(batch, count, 3, self.heads, of_a_head)
        # Each is (batch, heads, tokens, width of a head).
        by_head = projected.permute(2, 0, 3, 1, 4)
        queries, keys, values = by_head.unbind(0)
        columns = keys.transpose(-2, -1)
        scores = queries @ columns / math.sqrt(of_a_head)
        mixed = scores.softmax(dim=-1) @ values

        # The heads stand side by side again.
        by_token = mixed.transpose(1, 2)
        tokens = by_token.reshape(batch, count, width)
        outputs: torch.Tensor = self.output(tokens)
        return outputs


class Residual(nn.Module):
    """x + branch(x)."""

    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, and what the branch makes of it."""
        made: torch.Tensor = self.branch(x)
        return x + made


class Tokens(nn.Module):
    """One token per patch behind a class token, each with its learned position added."""

    def __init__(self, channels: int, patch: int, count: int, width: int, *, bias: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, stride=patch, bias=bias)
        device = self.patches.weight.device
        self.class_token = nn.Parameter(torch.empty(1, 1, width, device=device))
        self.positions = nn.Parameter(torch.empty(1, count + 1, width, device=device))
        nn.init.normal_(self.class_token, 0.0, TOKEN_STD)
        nn.init.normal_(self.positions, 0.0, TOKEN_STD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, patches + 1, width) of images."""
        maps = self.patches(x)
        patches = maps.flatten(2).transpose(1, 2)  # (batch, patches, width)
        # The class token is the same for every image.
        first = self.class_token.expand(len(x), -1, -1)
        tokens = torch.cat([first, patches], dim=1)
        return tokens + self.positions


class ClassToken(nn.Module):
    """The first token."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, width)."""
        return tokens[:, 0]


def build(options: VisionTransformer, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `vit`."""
    channels, height, width = image(shape, "vit")
    patch = options.patch
    if height % patch or width % patch:
        raise penchant.Error(
            f"vit needs images whose sides are multiples of its patch {patch}, "
            f"found {written(shape)}"
        )
    # The image as a row of tokens.
    patches = (height // patch) * (width // patch)
    tokens = Tokens(channels, patch, patches, options.width, bias=options.bias)
    modules: list[nn.Module] = [tokens]
    for _ in range(options.layers):
        modules += _layer(options)
    # Only the class token is read out.
    modules.append(ClassToken())
    modules += _norm(options)
    modules.append(nn.Linear(options.width, outputs, bias=options.bias))
    return initialise(nn.Sequential(*modules), options, glorot_uniform)


def _layer(options: VisionTransformer) -> list[nn.Module]:
    attention = Attention(options.width, options.heads, bias=options.bias)
    perceptron = Layers(options).perceptron(options.width, (options.hidden,), options.width)
    return [Residual(*_norm(options), attention), Residual(*_norm(options), *perceptron)]


def _norm(options: VisionTransformer) -> list[nn.Module]:
    if options.normalization == "none":
        return []
    return [nn.LayerNorm(options.width)]
