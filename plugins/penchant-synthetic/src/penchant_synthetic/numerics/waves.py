"""A sum of sinusoids y = sum_i A_i sin(2 pi k_i z + phi_i), and where on [0, 1) it is sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from penchant_numerics.data import Samples
from torch import Generator, Tensor

HOST = {"device": "cpu", "dtype": torch.float64}
GRID = "z = j/N, endpoint excluded; test samples half-way between"
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: multiples of it are far apart


def positions(points: int) -> Tensor:
    """2 N positions in [0, 1): even ones are the grid j/N, odd ones lie half-way between."""
    return torch.arange(2 * points, **HOST) / (2 * points)


def parts(inputs: Tensor, labels: Tensor) -> tuple[Samples, Samples]:
    """Training samples at the grid, and test samples half-way between."""
    inputs = inputs.float()
    return Samples(inputs[::2], labels[::2]), Samples(inputs[1::2], labels[1::2])


def phase_stream(draw: int, generator: Generator) -> Generator:
    """A stream of phases for each draw, so that any draw is reached without those before it."""
    base = int(torch.randint(2**62, (), generator=generator, device="cpu"))
    return torch.Generator(device="cpu").manual_seed((base + GOLDEN * draw) % 2**63)


class Wave:
    """The sum of sinusoids; its first phases do not depend on how many there are."""

    def __init__(
        self, frequencies: Sequence[int], amplitudes: Sequence[float], stream: Generator
    ) -> None:
        turns = [float(torch.rand((), generator=stream, **HOST)) for _ in frequencies]
        self.phases = 2 * math.pi * torch.tensor(turns, **HOST)
        self.frequencies = torch.tensor(frequencies, **HOST)
        self.amplitudes = torch.tensor(amplitudes or [1.0] * len(frequencies), **HOST)

    def __call__(self, positions: Tensor) -> Tensor:
        """Values (points,) at positions (points,)."""
        angles = 2 * math.pi * self.frequencies * positions[:, None] + self.phases
        waves = torch.sin(angles)  # (points, frequencies)
        return waves @ self.amplitudes
