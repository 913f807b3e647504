"""Input gradients of one trained network at samples of its dataset, and the waves in them."""

from typing import NamedTuple

import attrs
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.inputs import (
    differentiated,
    directions_of_gradients,
    effective_rank,
    scrambled_phases,
    shuffled_pixels,
)
from penchant_numerics.inputs.sample_input_gradients import sample_input_gradients
from penchant_numerics.roles import Directions
from penchant_numerics.statistics import statistics
from torch import Tensor

from penchant_gih.average_geometry import frequency_shares
from penchant_gih.declarations.geometry import AverageGeometry

GROUPS = 8  # of samples, of which one is left out at a time
FEWEST = 2 * GROUPS  # samples: without a group there is still one for each group of the moment


def gradients_at_samples(options: AverageGeometry, context: penchant.Context) -> Tensor:
    """Gradients (samples, D) of the user's network at random samples of its dataset."""
    if not context.has("dataset"):
        raise penchant.Error(
            "the geometry of one trained network is taken at samples: give it a dataset"
        )
    samples = random_samples(getattr(context.data, options.split), options.samples, context)
    count = len(samples.labels)
    if count < FEWEST:
        raise penchant.Error(
            f"the geometry of one trained network needs at least {FEWEST} samples, "
            f"the {options.split} split has {count}"
        )
    ((_, network),) = context.trained()
    rows = sample_input_gradients(network, samples)
    context.conventions["output"] = differentiated(context.architecture.outputs)
    context.conventions["inputs"] = f"{len(rows)} {options.split} samples of the dataset"
    return rows


def random_samples(samples: Samples, count: int, context: penchant.Context) -> Samples:
    """`count` samples in random order; all of them where there are fewer."""
    order = torch.randperm(
        len(samples.labels), generator=context.generator("samples"), device="cpu"
    )
    return samples.select(order[:count].to(samples.labels.device))


def over_samples(quantities: dict[str, penchant.Quantity]) -> dict[str, penchant.Quantity]:
    """The same numbers, which are over samples instead of networks."""
    return {
        name: attrs.evolve(quantity, over=quantity.over.replace("networks", "samples"))
        for name, quantity in quantities.items()
    }


class Waves(NamedTuple):
    """What is known of the frequencies of gradients: numbers, shares of all and by their length."""

    quantities: dict[str, penchant.Quantity]
    shares: Tensor
    radial: penchant.Table


def waves(
    rows: Tensor, shape: tuple[int, ...], options: AverageGeometry, context: penchant.Context
) -> Waves:
    """Frequencies of gradients (samples, D), beside those with shuffled pixels and phases."""
    stream = context.generator("shuffled")
    shuffled = [
        _energies(shuffled_pixels(rows, shape, stream), shape) for _ in range(options.null_draws)
    ]
    energies = _energies(rows, shape)
    left_out = [_energies(group, shape) for group in _left_out(rows)]

    low = frequency_shares.low_share(energies, shape)
    lows = [frequency_shares.low_share(each, shape) for each in shuffled]
    about: statistics.Repetitions = {"over": "samples", "count": len(rows), "df": GROUPS - 1}
    quantities = {
        "low-frequencies": penchant.Quantity(
            low,
            stderr=statistics.jackknife(
                [frequency_shares.low_share(each, shape) for each in left_out]
            ),
            **about,
            **statistics.null_of(lows, value=low),
        ),
        "rank-over-scrambled": _rank_over_scrambled(rows, shape, options, context),
    }
    null = torch.stack([_radial(each, shape) for each in shuffled])
    radial = penchant.Table(
        _radial(energies, shape),
        {"radius": range(null.shape[1])},
        stderr=statistics.jackknife(torch.stack([_radial(each, shape) for each in left_out])),
        null=null.mean(0),
        null_spread=null.std(0),
        **about,
    )
    return Waves(quantities, energies / energies.sum(), radial)


def _rank_over_scrambled(
    rows: Tensor, shape: tuple[int, ...], options: AverageGeometry, context: penchant.Context
) -> penchant.Quantity:
    """The effective rank over that of gradients with the same amplitudes and random phases."""
    stream = context.generator("scrambled")
    draws = [
        effective_rank(_spectrum(scrambled_phases(rows, shape, stream)))
        for _ in range(options.null_draws)
    ]
    mean = sum(draws) / len(draws)
    value = effective_rank(_spectrum(rows)) / mean
    replicates = [effective_rank(_spectrum(group)) / mean for group in _left_out(rows)]
    return penchant.Quantity(
        value,
        stderr=statistics.jackknife(replicates),
        over="samples",
        count=len(rows),
        df=GROUPS - 1,
        **statistics.null_of([each / mean for each in draws], value=value),
    )


def _spectrum(rows: Tensor) -> Tensor:
    moment: Directions = directions_of_gradients(rows)
    return moment.eigenvalues


def _left_out(rows: Tensor) -> list[Tensor]:
    """The gradients without one group at a time; equal groups, what is beyond them stays."""
    numbers = torch.arange(len(rows), device=rows.device)
    beyond = numbers >= len(rows) // GROUPS * GROUPS
    return [rows[(numbers % GROUPS != group) | beyond] for group in range(GROUPS)]


def _energies(rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Mean squared amplitudes by frequency, of all gradients at once."""
    channels, *grid = shape if len(shape) > 1 else (1, *shape)
    images = rows.double().reshape(len(rows), channels, *grid)
    axes = tuple(range(-len(grid), 0))
    squares = torch.fft.fftn(images, dim=axes, norm="ortho").abs().square()
    energies: Tensor = squares.sum(1).mean(0)
    return energies


def _radial(energies: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Shares of all energies at frequencies of each length, in waves across the longest side."""
    side = max(energies.shape)
    lengths = frequency_shares.frequencies(shape, device=energies.device)
    rings = (lengths * side).round().long().flatten()
    total = torch.zeros(int(rings.max()) + 1, device=energies.device, dtype=energies.dtype)
    shares = energies.flatten() / energies.sum()
    return total.index_add(0, rings, shares).cpu()
