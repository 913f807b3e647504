"""Small networks whose mixed derivative is known, or hard to take."""

import math

import torch
from torch import nn
from torch.nn import functional


def smooth_mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 10), nn.GELU(), nn.Linear(10, 1))


def linear(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))


class Pooling(nn.Module):
    """f = theta . A (m * phi * x) with 12 inputs folded on 4."""

    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(2.0 * torch.randn(1, 4))
        self.phi = nn.Parameter(0.5 * torch.randn(12))
        self.register_buffer("m", torch.linspace(0.2, 1.3, 12))

    def forward(self, x):
        return (self.m * self.phi * x).unflatten(1, (3, 4)).sum(1) @ self.theta.T / math.sqrt(3)


class FusedAttention(nn.Module):
    """Tokens (3, 8) that attend with two heads, by the fused kernel."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(1))


class Normalised(nn.Module):
    """Tokens, a norm, attention and a perceptron; the same weights however often it is made."""

    def __init__(self, norm):
        super().__init__()
        self.patches = nn.Conv2d(1, 4, 2, stride=2)
        self.norm = norm
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 1))
        self.register_buffer("shift", torch.empty(1, 4, 4))
        generator = torch.Generator("cpu").manual_seed(0)
        with torch.no_grad():
            for tensor in (*self.parameters(), self.shift):
                tensor.normal_(generator=generator)

    def forward(self, x):
        tokens = self.norm(self.patches(x + self.shift)).flatten(2).mT
        attended, _ = self.attention(tokens, tokens, tokens)
        return self.head((tokens + attended).mean(1))


def layer_norm():
    return Normalised(nn.LayerNorm([4, 2, 2]))


def group_norm():
    return Normalised(nn.GroupNorm(2, 4))


def batch_norm():
    return Normalised(nn.BatchNorm2d(4))
