"""`frequency-robustness` of a network of the user's own."""

from typing import Any

import attrs
import penchant
import torch
from penchant_numerics.statistics import NO_NULL, null_of
from torch import Generator, Tensor, nn

from penchant_spectral_bias.frequency_robustness.perturbations import perturbed_outputs
from penchant_spectral_bias.shared.band_spectra import band_products
from penchant_spectral_bias.shared.own_functions import (
    Grid,
    check_outputs,
    grid_of,
    spectrum_of,
    target_on,
    values_on,
    window_convention,
)
from penchant_spectral_bias.shared.own_learning import mixed_weights
from penchant_spectral_bias.shared.rank_order import correlations, missing, smallest_step
from penchant_spectral_bias.shared.waves import in_steps

RELATIVE = ("relative-amplitude", "single-amplitude", "noise-floor")
_ROUNDING = 10  # times the rounding of its values: what a function's amplitude is above


def robustness_of_own(options: Any, context: penchant.Context) -> penchant.Result:
    """Move the parameters of the network, slice by slice in directions of its own."""
    grid = grid_of(options, context)
    target = target_on(options, grid, context)
    *_, (_, network) = context.trained()
    network.eval()
    values = values_on(network, grid, context)
    own, relative = [], []
    mixed = []
    for number in range(options.slices):
        # a grid of all inputs is the same in every slice
        line = Grid(grid.points[number % grid.slices][None])
        amplitude, moved = _relative(network, line, number, options, context)
        _check_amplitudes(amplitude, values, options)
        own.append(amplitude)
        relative.append(moved)
        control = mixed_weights(network, context.generator("mixed", number))
        mixed.append(_relative(control, line, number, options, context)[1][0])
    relatives, controls = torch.stack(relative), torch.stack(mixed)
    axes = {"slice": range(options.slices), "delta": options.deltas}
    both = {**axes, "frequency": options.frequencies}
    tables = {
        name: penchant.Table(relatives[:, index].cpu(), both).mean("slice")
        for index, name in enumerate(RELATIVE)
    }
    amplitudes = penchant.Table(
        torch.stack(own).cpu(), {axis: both[axis] for axis in ("slice", "frequency")}
    )
    tables["amplitude"] = amplitudes.mean("slice")
    quantities = _quantities(options, relatives[:, 0].cpu(), controls.cpu())
    conventions = {
        "relative-amplitude": "root of the energy in a band of the mean perturbed function over "
        "that of the unperturbed one",
        "amplitude": "root of the energy in a band, not over a target's",
        "perturbation": "isotropic in all parameters together, of the given length",
        "window": window_convention(options),
        "null of rank-correlation": "the same network with the entries of every weight in random "
        "order, another order in every slice",
    }
    if target is not None:
        check_outputs(values, target)
        losses = (values - target).double().square().flatten(1).mean(1)
        means = target.double().flatten(0, -2).mean(0)
        constant = float((target.double() - means).square().mean())
        several = len(losses) > 1
        quantities["final-loss"] = (
            penchant.Quantity.of(losses.cpu(), over="slices", null=constant)
            if several
            else penchant.Quantity(float(losses[0]), exact=True, null=constant)
        )
    return penchant.Result(
        quantities,
        {
            "frequencies": torch.tensor(options.frequencies, device="cpu"),
            "deltas": torch.tensor(options.deltas, device="cpu", dtype=torch.float64),
        },
        tables=tables,
        conventions=conventions,
        missing=missing(quantities),
    )


def _relative(
    network: nn.Module, line: Grid, number: int, options: Any, context: penchant.Context
) -> tuple[Tensor, Tensor]:
    """Amplitudes (frequencies,), and what moved networks have of them (3, deltas, frequencies)."""

    def directions(index: int) -> Generator:
        return context.generator("perturbation", number, index)

    def amplitudes(values: Tensor) -> Tensor:
        transform = spectrum_of(values, line, options)
        energies = band_products(transform, transform, line.axes, options.frequencies)
        # rounding may make nothing negative
        return energies.clamp(min=0).sqrt()

    points = line.points.reshape(-1, *context.architecture.shape)
    moved = perturbed_outputs(
        network, points, options.deltas, directions, options.perturbations, every=True
    )
    functions = moved.double().reshape(*moved.shape[:2], *line.counts, -1)
    mean = functions.mean(0)
    count = len(functions)
    squares = amplitudes(functions - mean).square().sum(0) / (count * (count - 1))
    unmoved = amplitudes(values_on(network, line, context)[0])
    kinds = torch.stack([amplitudes(mean), amplitudes(functions).mean(0), squares.sqrt()])
    return unmoved, kinds / unmoved


def _check_amplitudes(amplitude: Tensor, values: Tensor, options: Any) -> None:
    """Refuse a function that lacks a frequency, which has then nothing to be compared with."""
    rounding = _ROUNDING * float(values.abs().max()) * torch.finfo(values.dtype).eps
    least = float(amplitude.min())
    if least <= rounding:
        frequency = options.frequencies[int(amplitude.argmin())]
        raise penchant.Error(
            f"the network has an amplitude of {least:.2g} at frequency {frequency}, expected more "
            f"than the rounding of its values ({rounding:.2g}), so that perturbed networks can be "
            "compared with it; choose other frequencies, or use dtype = 'float64'"
        )


def _quantities(options: Any, relative: Tensor, controls: Tensor) -> dict[str, penchant.Quantity]:
    """Of relative amplitudes (slices, deltas, frequencies), and of those of mixed weights."""
    frequencies = torch.tensor(options.frequencies, device="cpu", dtype=torch.float64)
    middle = relative[:, len(options.deltas) // 2]
    gaps = middle[:, int(frequencies.argmin())] - middle[:, int(frequencies.argmax())]
    return {
        "robustness-gap": penchant.Quantity.of(gaps, over="slices", null=0.0),
        "rank-correlation": _order(relative, controls, frequencies),
    }


def _order(relative: Tensor, controls: Tensor, frequencies: Tensor) -> penchant.Quantity:
    """Do higher frequencies suffer more, and more so than with mixed weights?"""
    replicates = correlations(-relative.mean(1), frequencies)
    if replicates is None:
        return penchant.Quantity(float("nan"))
    quantity = in_steps(replicates, smallest_step(len(frequencies)))
    null = NO_NULL
    # a network with mixed weights may be too flat to have ranks
    mixed = controls.mean(1)
    control = correlations(-mixed, frequencies) if bool(mixed.isfinite().all()) else None
    if control is not None:
        # This is one network: what networks with mixed weights differ by is not averaged away.
        null = null_of(control, value=quantity.value, stderr=quantity.stderr, df=quantity.df)
    return attrs.evolve(quantity, over="slices", **null)
