"""A sum of sinusoids on a line: y = sum_i A_i sin(2 pi k_i z + phi_i)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import penchant
import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor

from penchant_synthetic import Sinusoids
from penchant_synthetic._draws import streams
from penchant_synthetic._embedding import embed

HOST = {"device": "cpu", "dtype": torch.float64}


def load(options: Sinusoids, generator: Generator) -> Data:
    """Target of the dataset `sinusoids`."""
    for_phases, for_embedding = streams(generator, 2)
    wave = Wave(
        options.frequencies, options.amplitudes, options.points, phases(options.draw, for_phases)
    )
    places = positions(options.points)
    inputs, placed = embed(places[:, None], options.size, options.embedding, for_embedding)
    labels = wave(places)
    train, test = (
        Samples(inputs[part].float(), labels[part].float())
        for part in (slice(None, None, 2), slice(1, None, 2))
    )
    return Data(
        train,
        test,
        classes=0,
        conventions={"phases": f"draw {options.draw}", "grid": GRID, "embedding": placed},
    )


GRID = "z = j/N, endpoint excluded; test samples half-way between"


def positions(points: int) -> Tensor:
    """2 N positions in [0, 1): even ones are the grid j/N, odd ones lie half-way between."""
    return torch.arange(2 * points, **HOST) / (2 * points)


def phases(draw: int, generator: Generator) -> Generator:
    """A stream of phases for each draw, so that any draw is reached without the ones before it."""
    base = int(torch.randint(2**62, (), generator=generator, device="cpu"))
    return torch.Generator(device="cpu").manual_seed((base + 0x9E3779B97F4A7C15 * draw) % 2**63)


class Wave:
    """The sum of sinusoids with phases from a stream; the first phases do not depend on how many there are."""

    def __init__(
        self,
        frequencies: Sequence[int],
        amplitudes: Sequence[float],
        points: int,
        stream: Generator,
    ) -> None:
        if not frequencies:
            raise penchant.Error("frequencies must name at least one frequency, found none")
        if 2 * max(frequencies) >= points:
            raise penchant.Error(
                f"frequencies must be below half the points, {points / 2:g}, found {max(frequencies)}"
            )
        if amplitudes and len(amplitudes) != len(frequencies):
            raise penchant.Error(
                f"amplitudes must be as many as frequencies, {len(frequencies)}, found {len(amplitudes)}"
            )
        self.frequencies = torch.tensor(frequencies, **HOST)
        self.amplitudes = torch.tensor(amplitudes or [1.0] * len(frequencies), **HOST)
        turns = [float(torch.rand((), generator=stream, **HOST)) for _ in frequencies]
        self.phases = 2 * math.pi * torch.tensor(turns, **HOST)

    def __call__(self, positions: Tensor) -> Tensor:
        """Values (points,) at positions (points,)."""
        waves = torch.sin(
            2 * math.pi * self.frequencies * positions[:, None] + self.phases
        )  # (points, frequencies)
        return waves @ self.amplitudes
