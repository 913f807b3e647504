"""Real Fourier bases of sampled signals and images, and spectra of sampled functions.

On a grid of shape (N_1, ..., N_d) with D points, a frequency k is d whole numbers of cycles and its
waves are

    c_k[n] = a cos(2 pi sum_i k_i n_i / N_i),    s_k[n] = a sin(2 pi sum_i k_i n_i / N_i),

with a = sqrt(2 / D), but a = sqrt(1 / D) for a frequency that is its own mirror image
(2 k_i = 0 mod N_i on every axis: DC and Nyquist), which has no sine. k and -k have the same cosine
and opposite sines, so one of the two stands for both; cosines and sines together are an orthonormal
basis of R^D. Frequencies are signed, -N_i/2 < k_i <= N_i/2.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from penchant_numerics.refusal import Refusal
from torch import Tensor


class Waves(NamedTuple):
    """Waves on a grid."""

    frequencies: Tensor  # (waves, axes)
    vectors: Tensor  # (waves, points), unit vectors; the grid flattened row by row


# ---- frequencies


def cosine_frequencies(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """One frequency of every pair k, -k, slowest first: by cycles per sample, then by k.

    Args:
        shape: The grid.

    >>> cosine_frequencies((5,))
    [(0,), (1,), (2,)]
    >>> cosine_frequencies((2, 3))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    common = math.lcm(*shape)
    # signed frequencies of every axis
    ranges = []
    for count in shape:
        lowest = -((count - 1) // 2)
        highest = count // 2
        ranges.append(range(lowest, highest + 1))

    def speed(k: tuple[int, ...]) -> int:
        """The square of cycles per sample, in whole numbers."""
        square = 0
        for each, count in zip(k, shape):
            steps = each * common // count
            square += steps**2
        return square

    # one of each pair
    chosen = []
    for k in itertools.product(*ranges):
        mirror = _mirror(k, shape)
        if k[::-1] >= mirror[::-1]:
            chosen.append(k)

    # slowest first
    return sorted(chosen, key=lambda k: (speed(k), k))


def sine_frequencies(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """The frequencies of `cosine_frequencies` that have a sine.

    All but those that are their own mirror image.

    Args:
        shape: The grid.

    >>> sine_frequencies((4,))
    [(1,)]
    """
    frequencies = []
    for k in cosine_frequencies(shape):
        if not _is_own_mirror(k, shape):
            frequencies.append(k)
    return frequencies


def _mirror(frequency: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """-k in the same signed range; Nyquist is its own."""
    mirrored = []
    for each, count in zip(frequency, shape):
        nyquist = 2 * each == count
        mirrored.append(each if nyquist else -each)
    return tuple(mirrored)


def _is_own_mirror(frequency: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether k and -k are the same frequency: on every axis DC or Nyquist."""
    pairs = zip(frequency, shape)
    left = [2 * each % count for each, count in pairs]
    return not any(left)


# ---- waves


def cosine(
    frequency: Sequence[int],
    shape: Sequence[int],
    *,
    device: torch.device | str,
    dtype: torch.dtype,
) -> Tensor:
    """The unit vector c_k of one frequency.

    Args:
        frequency: Whole numbers of cycles, one an axis.
        shape: The grid.
        device: Where it is made.
        dtype: Its precision.

    Returns:
        The vector (points,).

    >>> cosine((2,), (4,), device="cpu", dtype=torch.float64).tolist()
    [0.5, -0.5, 0.5, -0.5]
    """
    waves = _waves(torch.cos, [frequency], shape, device=device, dtype=dtype)
    return waves.vectors[0]


def sine(
    frequency: Sequence[int],
    shape: Sequence[int],
    *,
    device: torch.device | str,
    dtype: torch.dtype,
) -> Tensor:
    """The unit vector s_k of one frequency; DC and Nyquist have none.

    Args:
        frequency: Whole numbers of cycles, one an axis.
        shape: The grid.
        device: Where it is made.
        dtype: Its precision.

    Returns:
        The vector (points,).

    Raises:
        Refusal: Where the frequency has no sine.

    >>> sine((1,), (4,), device="cpu", dtype=torch.float64).round(decimals=3).tolist()
    [0.0, 0.707, 0.0, -0.707]
    """
    if _is_own_mirror(frequency, shape):
        raise Refusal(
            f"frequency {tuple(frequency)} of a grid {tuple(shape)} is its own mirror image "
            "and has no sine"
        )
    waves = _waves(torch.sin, [frequency], shape, device=device, dtype=dtype)
    return waves.vectors[0]


def cosine_family(shape: Sequence[int], *, device: torch.device | str, dtype: torch.dtype) -> Waves:
    """All cosines of a grid, slowest first.

    Args:
        shape: The grid.
        device: Where they are made.
        dtype: Their precision.

    Returns:
        Frequencies and unit vectors.

    >>> cosine_family((32, 32), device="cpu", dtype=torch.float32).vectors.shape
    torch.Size([514, 1024])
    """
    frequencies = cosine_frequencies(shape)
    return _waves(torch.cos, frequencies, shape, device=device, dtype=dtype)


def sine_family(shape: Sequence[int], *, device: torch.device | str, dtype: torch.dtype) -> Waves:
    """All sines of a grid, slowest first.

    Args:
        shape: The grid.
        device: Where they are made.
        dtype: Their precision.

    Returns:
        Frequencies and unit vectors.

    >>> sine_family((32, 32), device="cpu", dtype=torch.float32).vectors.shape
    torch.Size([510, 1024])
    """
    frequencies = sine_frequencies(shape)
    return _waves(torch.sin, frequencies, shape, device=device, dtype=dtype)


def _waves(
    wave: Callable[[Tensor], Tensor],
    frequencies: Sequence[Sequence[int]],
    shape: Sequence[int],
    *,
    device: torch.device | str,
    dtype: torch.dtype,
) -> Waves:
    """Waves of some frequencies: `wave` is the cosine or the sine."""
    axes = len(shape)
    for each in frequencies:
        if len(each) != axes:
            grid = tuple(shape)
            raise Refusal(
                f"expected frequencies with {axes} components for a grid {grid}, found {each}"
            )

    # phases first, in whole numbers
    rows = [list(each) for each in frequencies]
    k = torch.tensor(rows, device=device, dtype=torch.int64)
    k = k.reshape(-1, axes)
    unit = 2 * math.pi / math.lcm(*shape)
    turns = _phases(k, shape).to(dtype) * unit

    # what makes them unit vectors
    points = math.prod(shape)
    lengths = []
    for each in frequencies:
        power = 1 if _is_own_mirror(each, shape) else 2
        lengths.append(math.sqrt(power / points))
    scale = torch.tensor(lengths, device=device, dtype=dtype)
    vectors = scale[:, None] * wave(turns)
    return Waves(k, vectors)


def _phases(k: Tensor, shape: Sequence[int]) -> Tensor:
    """Phases (waves, points) in whole multiples of 1 / lcm(shape) of a turn.

    Whole numbers are exact, so large frequencies lose no accuracy.
    """
    common = math.lcm(*shape)
    phases = 0 * k[:, :1]
    for axis, count in enumerate(shape):
        # the phase along this axis, (waves, count)
        positions = torch.arange(count, device=k.device)
        turns = k[:, axis, None] * positions % count
        along = turns * (common // count)
        # every position so far with every position on it
        both = phases[:, :, None] + along[:, None, :]
        phases = both.flatten(1)
    return phases % common


# ---- spectra


def amplitudes(values: Tensor, frequencies: Tensor) -> Tensor:
    """Amplitudes of the waves in functions sampled on a grid.

    2 |DFT_k| / D, and |DFT_k| / D for DC and Nyquist. So A cos(2 pi k z + phi) on z = j/N has
    amplitude A at k, whatever its phase.

    Args:
        values: Samples (..., N_1, ..., N_d); the endpoint is excluded, so that whole frequencies
            are exact bins.
        frequencies: Whole numbers (frequencies, d), signed or not.

    Returns:
        Amplitudes (..., frequencies).

    >>> z = torch.arange(8, device="cpu", dtype=torch.float64) / 8
    >>> values = 3 + 5 * torch.sin(2 * math.pi * 2 * z + 0.3)
    >>> amplitudes(values, torch.tensor([[0], [1], [2]], device="cpu")).round(decimals=6).tolist()
    [3.0, 0.0, 5.0]
    """
    axes = frequencies.shape[-1]
    shape = values.shape[-axes:]
    counts = torch.tensor(shape, device=values.device)

    # the bins of the discrete transform, (frequencies, d)
    bins = frequencies.to(values.device) % counts
    last_axes = tuple(range(-axes, 0))
    transform = torch.fft.fftn(values, dim=last_axes)
    chosen = transform[(..., *bins.unbind(-1))]
    sizes = chosen.abs()

    # a frequency and its mirror image share an amplitude
    doubled = 2 * bins % counts
    own_mirror = (doubled == 0).all(-1)
    shared = 2 - own_mirror.to(values.dtype)
    points = math.prod(shape)
    spectrum: Tensor = sizes * shared / points
    return spectrum


def layout(values: Tensor, frequencies: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Values by frequency on a map with DC in the centre, the mirrored half filled in.

    Frequency k is at index k + N // 2 of its axis, wrapped around, so that Nyquist is at index 0.

    Args:
        values: One floating-point value a frequency, (frequencies,).
        frequencies: Distinct whole numbers (frequencies, d).
        shape: The grid, and the shape of the map.

    Returns:
        The map, NaN where there is no value (the sines of DC and Nyquist), and the mask of the
        cells that were filled in from their mirror image.

    >>> waves = sine_family((4,), device="cpu", dtype=torch.float64)
    >>> layout(torch.tensor([7.0], device="cpu"), waves.frequencies, (4,))
    (tensor([nan, 7., nan, 7.]), tensor([False,  True, False, False]))
    """
    shape = tuple(shape)
    expected = (*values.shape, len(shape))
    if values.ndim != 1 or tuple(frequencies.shape) != expected:
        raise Refusal(
            f"expected (n,) values and (n, {len(shape)}) frequencies for a grid {shape}, "
            f"found {tuple(values.shape)} and {tuple(frequencies.shape)}"
        )
    # nothing is known at first
    device = values.device
    filled = torch.full(shape, math.nan, device=device, dtype=values.dtype)
    mirrored = torch.zeros(shape, device=device, dtype=torch.bool)
    counts = torch.tensor(shape, device=device)
    k = frequencies.to(device)

    # what was given goes last: it wins over what is only mirrored
    for sign, from_mirror in ((-1, True), (1, False)):
        positions = (sign * k + counts // 2) % counts
        cells = positions.unbind(-1)
        filled[cells] = values
        mirrored[cells] = from_mirror
    return filled, mirrored
