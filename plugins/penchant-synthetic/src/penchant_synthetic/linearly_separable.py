"""The linearly separable family: x = e y v + w, w ~ N(0, sigma^2 (I - v v^T))."""

from __future__ import annotations

import math
from collections.abc import Sequence

import penchant
import torch
from penchant_numerics import fourier
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor

from penchant_synthetic import LinearlySeparable
from penchant_synthetic._draws import balanced_labels, normal_rows, streams

HOST = {"device": "cpu", "dtype": torch.float64}


def load(options: LinearlySeparable, generator: Generator) -> Data:
    """Target of the dataset `linearly-separable`."""
    for_basis, *for_parts = streams(generator, 3)
    direction, origin = _direction(options, for_basis)
    distance = options.epsilon if options.margin == "paper" else options.epsilon / 2
    train, test = (
        _draw(count, direction, distance, options.sigma, options.size, stream)
        for count, stream in zip((options.train, options.test), for_parts)
    )
    margin = (
        "paper: classes at +-epsilon"
        if options.margin == "paper"
        else "code: classes at +-epsilon/2"
    )
    return Data(train, test, classes=2, conventions={"margin": margin, "direction": origin})


def _draw(
    count: int,
    direction: Tensor,
    distance: float,
    sigma: float,
    size: Sequence[int],
    generator: Generator,
) -> Samples:
    for_labels, for_noise = streams(generator, 2)
    labels = balanced_labels(count, 2, for_labels)
    noise = normal_rows(
        count,
        len(direction),
        for_noise,
        transform=lambda z: sigma * (z - torch.outer(z @ direction, direction)),
    )
    inputs = noise + torch.outer(distance * (2 * labels - 1).to(torch.float64), direction)
    return Samples(inputs.to(torch.float32).reshape(count, *size), labels)


def _direction(options: LinearlySeparable, generator: Generator) -> tuple[Tensor, str]:
    """The unit vector v over the flattened input, and where it is from."""
    points = math.prod(options.size)
    if options.direction is not None:
        return _given(torch.as_tensor(options.direction, **HOST), options.size)
    if options.basis in ("dft-cosine", "dft-sine"):
        return _wave(options)
    _check_index(options.index, points, options)
    if options.channel:
        raise penchant.Error(
            f"channel is for Fourier bases, found channel {options.channel} with the basis {options.basis}"
        )
    if options.basis == "canonical":
        unit = torch.zeros(points, **HOST)
        unit[options.index] = 1
        return unit, f"canonical, coordinate {options.index}"
    return _random(
        options.index, points, generator
    ), f"random orthonormal basis of the seed, vector {options.index}"


def _given(direction: Tensor, size: Sequence[int]) -> tuple[Tensor, str]:
    if direction.numel() != math.prod(size):
        found = f"{direction.numel()} (shape {list(direction.shape)})"
        raise penchant.Error(
            f"direction must have {math.prod(size)} values, as size is {list(size)}, found {found}"
        )
    length = float(direction.norm())
    if not length:
        raise penchant.Error("direction must not be zero")
    return direction.flatten() / length, "given" if abs(
        length - 1
    ) < 1e-6 else f"given, normalised from length {length:.6g}"


def _wave(options: LinearlySeparable) -> tuple[Tensor, str]:
    grid, channels = options.size[-2:], math.prod(options.size[:-2])
    if options.channel >= channels:
        raise penchant.Error(
            f"channel must be below {channels}, as size is {list(options.size)}, found {options.channel}"
        )
    cosines = options.basis == "dft-cosine"
    frequencies = fourier.cosine_frequencies(grid) if cosines else fourier.sine_frequencies(grid)
    _check_index(options.index, len(frequencies), options)
    frequency = frequencies[options.index]
    wave = (fourier.cosine if cosines else fourier.sine)(frequency, grid, **HOST)
    direction = torch.zeros(channels, len(wave), **HOST)
    direction[options.channel] = wave
    return (
        direction.flatten(),
        f"{options.basis}, vector {options.index}: frequency {list(frequency)} in channel {options.channel}",
    )


def _check_index(index: int, count: int, options: LinearlySeparable) -> None:
    if index >= count:
        raise penchant.Error(
            f"index must be below {count}, the vectors of {options.basis} at size {list(options.size)}, found {index}"
        )


def _random(index: int, points: int, generator: Generator) -> Tensor:
    """Vector `index` of a random orthonormal basis: Gram-Schmidt on normal vectors, so later ones change nothing in earlier."""
    normal = normal_rows(index + 1, points, generator)
    orthonormal, triangle = torch.linalg.qr(normal.T.to(torch.float64))
    return orthonormal[:, index] * triangle[index, index].sign()
