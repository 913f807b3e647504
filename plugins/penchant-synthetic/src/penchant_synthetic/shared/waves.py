"""A sum of sinusoids y = sum_i A_i sin(2 pi k_i z + phi_i), and where on [0, 1) it is sampled."""

import math
from collections.abc import Sequence

import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import HOST
from torch import Generator, Tensor

GRID = "z = j/N, endpoint excluded; test samples half-way between"
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: multiples of it are far apart


def positions(points: int) -> Tensor:
    """2 N positions in [0, 1): even ones are the grid j/N, odd ones lie half-way between."""
    count = 2 * points
    return torch.arange(count, **HOST) / count


def splits(inputs: Tensor, labels: Tensor) -> tuple[Samples, Samples]:
    """Training samples at the grid, and test samples half-way between."""
    inputs = inputs.float()
    # Even positions are the grid.
    train = Samples(inputs[::2], labels[::2])
    test = Samples(inputs[1::2], labels[1::2])
    return train, test


def phase_stream(draw: int, generator: Generator) -> Generator:
    """A stream of phases for each draw, so that any draw is reached without those before it."""
    base = int(torch.randint(2**62, (), generator=generator, device="cpu"))
    seed = (base + GOLDEN * draw) % 2**63
    stream = torch.Generator(device="cpu")
    return stream.manual_seed(seed)


class Wave:
    """The sum of sinusoids; its first phases do not depend on how many there are."""

    def __init__(
        self, frequencies: Sequence[int], amplitudes: Sequence[float] | None, stream: Generator
    ) -> None:
        # One draw a phase: a single draw of more numbers would begin otherwise.
        turns = []
        for _ in frequencies:
            turn = torch.rand((), generator=stream, **HOST)
            turns.append(float(turn))
        self.phases = 2 * math.pi * torch.tensor(turns, **HOST)
        self.frequencies = torch.tensor(frequencies, **HOST)
        # By default every sinusoid has the amplitude 1.
        self.amplitudes = torch.ones_like(self.frequencies)
        if amplitudes:
            self.amplitudes = torch.tensor(amplitudes, **HOST)

    def __call__(self, positions: Tensor) -> Tensor:
        """Values (points,) at positions (points,)."""
        # Angles and waves are (points, frequencies).
        angles = 2 * math.pi * self.frequencies * positions[:, None]
        waves = torch.sin(angles + self.phases)
        return waves @ self.amplitudes
