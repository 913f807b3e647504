"""The linearly separable family: x = e y v + w, w ~ N(0, sigma^2 (I - v v^T))."""

import math

import penchant
import torch
from penchant_numerics.data import Data, Samples, streams
from penchant_numerics.device import HOST
from penchant_numerics.inputs import fourier
from torch import Generator, Tensor

from penchant_synthetic.declarations import LinearlySeparable
from penchant_synthetic.shared.extendable_draws import balanced_labels, normal_rows

MARGINS = {"paper": "classes at +-epsilon", "code": "classes at +-epsilon/2"}
UNIT = 1e-6  # how far from 1 the length of a unit vector may be


def load(options: LinearlySeparable, generator: Generator) -> Data:
    """Target of the dataset `linearly-separable`."""
    for_basis, for_train, for_test = streams(generator, 3)
    direction, origin = _direction(options, for_basis)
    conventions = {"margin": f"{options.margin}: {MARGINS[options.margin]}", "direction": origin}
    return Data(
        train=_draw(options.train, direction, options, for_train),
        test=_draw(options.test, direction, options, for_test),
        classes=2,
        conventions=conventions,
    )


def _draw(
    count: int, direction: Tensor, options: LinearlySeparable, generator: Generator
) -> Samples:
    for_labels, for_noise = streams(generator, 2)
    labels = balanced_labels(count, 2, for_labels)

    def across(white: Tensor) -> Tensor:
        lengths = white @ direction
        along = torch.outer(lengths, direction)
        return options.sigma * (white - along)

    noise = normal_rows(count, len(direction), for_noise, transform=across)
    # Along the direction lies the class, and nothing else.
    distance = options.epsilon
    if options.margin == "code":
        distance /= 2
    signs = (2 * labels - 1).to(torch.float64)
    inputs = noise + torch.outer(distance * signs, direction)
    inputs = inputs.to(torch.float32).reshape(count, *options.input_shape)
    return Samples(inputs, labels)


def _direction(options: LinearlySeparable, generator: Generator) -> tuple[Tensor, str]:
    """The unit vector v over the flattened input, and where it is from."""
    if options.direction is not None:
        return _given(options)
    if options.basis in ("dft-cosine", "dft-sine"):
        return _wave(options)
    # Any other basis has a vector an input value, and knows no channels.
    values = math.prod(options.input_shape)
    _check_index(options, values)
    if options.channel:
        raise penchant.Error(
            f"channel is for Fourier bases, found channel {options.channel} "
            f"with the basis {options.basis}"
        )
    if options.basis == "canonical":
        unit = torch.zeros(values, **HOST)
        unit[options.index] = 1
        return unit, f"canonical, coordinate {options.index}"
    vector = _of_a_random_basis(options.index, values, generator)
    return vector, f"random orthonormal basis of the seed, vector {options.index}"


def _given(options: LinearlySeparable) -> tuple[Tensor, str]:
    direction = torch.as_tensor(options.direction, **HOST)
    values = math.prod(options.input_shape)
    if direction.numel() != values:
        raise penchant.Error(
            f"direction must have {values} values, as input_shape is {list(options.input_shape)}, "
            f"found {direction.numel()} (shape {list(direction.shape)})"
        )
    length = float(direction.norm())
    if not length:
        raise penchant.Error("direction must not be zero")
    origin = "given"
    if abs(length - 1) >= UNIT:
        origin += f", normalised from length {length:.6g}"
    return direction.flatten() / length, origin


def _wave(options: LinearlySeparable) -> tuple[Tensor, str]:
    """A real Fourier wave in one channel; inputs of one or two dimensions have one."""
    grid = options.input_shape[-2:]
    channels = math.prod(options.input_shape[:-2])
    if options.channel >= channels:
        raise penchant.Error(
            f"channel must be below {channels}, as input_shape is {list(options.input_shape)}, "
            f"found {options.channel}"
        )
    if options.basis == "dft-cosine":
        frequencies, make = fourier.cosine_frequencies(grid), fourier.cosine
    else:
        frequencies, make = fourier.sine_frequencies(grid), fourier.sine
    _check_index(options, len(frequencies))
    # The wave in its channel, zeros in the others.
    frequency = frequencies[options.index]
    wave = make(frequency, grid, **HOST)
    direction = torch.zeros(channels, len(wave), **HOST)
    direction[options.channel] = wave
    origin = (
        f"{options.basis}, vector {options.index}: frequency {list(frequency)} "
        f"in channel {options.channel}"
    )
    return direction.flatten(), origin


def _check_index(options: LinearlySeparable, count: int) -> None:
    if options.index >= count:
        raise penchant.Error(
            f"index must be below {count}, the vectors of {options.basis} "
            f"at input_shape {list(options.input_shape)}, found {options.index}"
        )


def _of_a_random_basis(index: int, values: int, generator: Generator) -> Tensor:
    """Gram-Schmidt on normal vectors, so that later ones change nothing in earlier ones."""
    normal = normal_rows(index + 1, values, generator)
    columns = normal.T.to(torch.float64)
    orthonormal, triangle = torch.linalg.qr(columns)
    # Gram-Schmidt has a positive diagonal; this factorisation may not.
    vector: Tensor = orthonormal[:, index] * triangle[index, index].sign()
    return vector
