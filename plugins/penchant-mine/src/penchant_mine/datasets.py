"""Targets of the datasets that are drawn: pairs with known information, and shapes in the plane."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor

from penchant_mine._families import Setting, correlated, noisy_map

TEST_SHARE = 4  # training samples for each test sample


def _parts(
    samples: int, generator: Generator, draw: Callable[[int, Generator], tuple[Tensor, Tensor]]
) -> tuple[Samples, Samples]:
    """Train and test samples, each from a stream of its own."""
    seeds = torch.randint(2**63 - 1, (2,), generator=generator, device="cpu").tolist()
    counts = (samples, max(1, samples // TEST_SHARE))
    train, test = (
        Samples(*draw(count, torch.Generator(device="cpu").manual_seed(seed)))
        for count, seed in zip(counts, seeds)
    )
    return train, test


def load_correlated_gaussians(options: Any, generator: Generator) -> Data:
    """Target of the dataset `correlated-gaussians`."""
    setting = Setting(options.dimension, options.dimension)
    train, test = _parts(
        options.samples,
        generator,
        lambda count, stream: correlated(setting, options.rho, count, stream),
    )
    return Data(train, test, classes=0)


def load_nonlinear_pair(options: Any, generator: Generator) -> Data:
    """Target of the dataset `nonlinear-pair`."""
    setting = Setting(options.dimension, options.dimension, map=options.map)
    train, test = _parts(
        options.samples,
        generator,
        lambda count, stream: noisy_map(setting, options.sigma, count, stream),
    )
    return Data(train, test, classes=0)


def load_spiral(options: Any, generator: Generator) -> Data:
    """Target of the dataset `spiral`."""

    def draw(count: int, stream: Generator) -> tuple[Tensor, Tensor]:
        along = torch.rand(
            count, 1, generator=stream, device="cpu"
        ).sqrt()  # uniform along the length of the arm, nearly
        angle = 2 * math.pi * options.turns * along
        arm = 2 * along * torch.cat([angle.cos(), angle.sin()], 1)
        return arm + options.sigma * torch.randn(count, 2, generator=stream, device="cpu"), along

    train, test = _parts(options.samples, generator, draw)
    return Data(train, test, classes=0)


def load_twenty_five_gaussians(options: Any, generator: Generator) -> Data:
    """Target of the dataset `twenty-five-gaussians`."""

    def draw(count: int, stream: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(25, (count,), generator=stream, device="cpu")
        centres = torch.stack([labels // 5 - 2, labels % 5 - 2], 1) * options.spacing
        return centres + options.sigma * torch.randn(
            count, 2, generator=stream, device="cpu"
        ), labels

    train, test = _parts(options.samples, generator, draw)
    return Data(train, test, classes=25)
