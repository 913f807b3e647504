"""`frequency-learning` of a network, or of a training, of the user's own."""

import copy
from typing import Any, NamedTuple

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.statistics import NO_NULL, jackknife, null_of
from torch import Generator, Tensor, nn

from penchant_spectral_bias.shared.band_spectra import (
    band_products,
    first_fit,
    highest_band,
    mean_band,
    mean_over_training,
)
from penchant_spectral_bias.shared.own_functions import (
    Grid,
    check_outputs,
    grid_of,
    spectrum_of,
    target_on,
    values_on,
    warn_where_aliased,
    window_convention,
)
from penchant_spectral_bias.shared.rank_order import missing, order

_WEAK = 1e-6  # of the target's strongest band: what has nothing to be learnt


class _States(NamedTuple):
    """States of a training, and their functions (steps, slices, N_1, ..., outputs)."""

    steps: list[int]
    functions: Tensor
    last: nn.Module


class _Compared(NamedTuple):
    """Bands that the target has, and products in them by slice."""

    bands: list[int]
    with_target: Tensor  # (slices, steps, bands)
    of_function: Tensor  # (slices, steps, bands)
    of_target: Tensor  # (slices, bands)

    def share(self, slices: Tensor | slice = slice(None)) -> Tensor:
        """The learnt share of some slices together, (steps, bands)."""
        return self.with_target[slices].sum(0) / self.of_target[slices].sum(0)

    def amplitude(self, slices: Tensor | slice = slice(None)) -> Tensor:
        """The amplitude over the target's of some slices together, (steps, bands)."""
        square = self.of_function[slices].sum(0) / self.of_target[slices].sum(0)
        return square.sqrt()


def learnt_by_own(options: Any, context: penchant.Context) -> penchant.Result:
    """How much of each frequency of its target a network has, state by state, and its spectrum."""
    grid = grid_of(options, context)
    target = target_on(options, grid, context)
    states = _states(grid, context)
    against = "the target that was given"
    if target is None and len(states.steps) > 1:
        target, against = states.functions[-1], "the last state of the training"
    spectra = _spectra(states, grid, options, context)
    arrays: dict[str, Any] = {"bands": spectra.spectrum.coordinates("band").astype(float)}
    tables = {"spectrum": spectra.spectrum}
    quantities = {"mean-frequency": spectra.mean_frequency}
    conventions = {
        "points": f"{grid.slices} x {' x '.join(map(str, grid.counts))}",
        "frequencies": "cycles along the grid's axes; of several axes the length, rounded",
        "window": window_convention(options),
        "outputs": "energies summed over outputs, around the mean over the grid",
        "null of mean-frequency": "the same network with the entries of every weight in random "
        "order",
    }
    if target is not None:
        check_outputs(states.functions, target)
        compared = _compared(states, target, grid, options, context)
        learnt = _learnt(states, target, compared, options, context)
        arrays |= learnt.arrays
        tables |= learnt.tables
        quantities |= learnt.quantities
        conventions["target"] = against
        conventions["learnt-share"] = "sum of Re(F conj T) over sum of |T|^2 in a band"
        conventions["late"] = "minus the mean of the learnt share over recorded steps"
    undefined = ("first-fit",) if "first-fit" in tables else ()
    return penchant.Result(
        quantities,
        arrays,
        tables=tables,
        conventions=conventions,
        missing=(*undefined, *missing(quantities)),
    )


def _states(grid: Grid, context: penchant.Context) -> _States:
    steps, functions, last = [], [], None
    for step, network in context.trained():
        steps.append(step)
        functions.append(values_on(network.eval(), grid, context))
        last = network
    assert last is not None  # there is one state at least
    return _States(steps, torch.stack(functions), last)


class _Spectra(NamedTuple):
    spectrum: penchant.Table
    mean_frequency: penchant.Quantity


class _Learnt(NamedTuple):
    arrays: dict[str, Any]
    tables: dict[str, penchant.Table]
    quantities: dict[str, penchant.Quantity]


def _spectra(states: _States, grid: Grid, options: Any, context: penchant.Context) -> _Spectra:
    """The spectrum of the last state in all bands, and that of networks with mixed weights."""
    bands = list(range(1, highest_band(grid.counts) + 1))
    numbers = torch.tensor(bands, device=context.device, dtype=torch.float64)

    def energies(values: Tensor) -> Tensor:
        transform = spectrum_of(values, grid, options)
        return band_products(transform, transform, grid.axes, bands)

    own = energies(states.functions[-1])  # (slices, bands)
    if not bool((own.sum() > 0).all()):
        raise penchant.Error("the network is constant on the grid, expected one that varies")
    draws = []
    for number in range(options.shuffles):
        mixed = mixed_weights(states.last, context.generator("mixed", number))
        draws.append(energies(values_on(mixed, grid, context)).sum(0))
    varying = [float(mean_band(each, numbers)) for each in draws if float(each.sum()) > 0]
    value = float(mean_band(own.sum(0), numbers))
    stderr = None
    if grid.slices > 1:
        others = own.sum(0) - own  # with each slice left out
        stderr = jackknife(mean_band(others, numbers).tolist())
    warn_where_aliased(own.sum(0), context)
    null_fields = null_of(varying, value=value) if len(varying) > 1 else NO_NULL
    if stderr is None:
        quantity = penchant.Quantity(value, exact=True, **null_fields)
    else:
        count = grid.slices
        quantity = penchant.Quantity(
            value, stderr=stderr, over="slices", count=count, df=count - 1, **null_fields
        )
    shares = [each / each.sum() for each in draws if float(each.sum()) > 0]
    null = torch.stack(shares).mean(0).cpu() if shares else None
    spectrum = penchant.Table((own.sum(0) / own.sum()).cpu(), {"band": bands}, null=null)
    return _Spectra(spectrum, quantity)


def mixed_weights(network: nn.Module, generator: Generator) -> nn.Module:
    """A copy of the network with the entries of every parameter in random order."""
    mixed = copy.deepcopy(network)
    with torch.no_grad():
        for parameter in mixed.parameters():
            places = torch.randperm(parameter.numel(), generator=generator, device="cpu")
            entries = parameter.flatten()[places.to(parameter.device)]
            parameter.copy_(entries.reshape(parameter.shape))
    return mixed


def _compared(
    states: _States, target: Tensor, grid: Grid, options: Any, context: penchant.Context
) -> _Compared:
    """Products with the target in the bands of `frequencies` that it has."""
    T = spectrum_of(target, grid, options)
    bands = list(options.frequencies)
    of_target = band_products(T, T, grid.axes, bands)
    strength = of_target.sum(0)
    strong = strength > _WEAK * strength.max()
    if not bool(strong.any()):
        raise penchant.Error(f"the target has none of the frequencies {bands}")
    if not bool(strong.all()):
        absent = [str(band) for band, is_there in zip(bands, strong.tolist()) if not is_there]
        context.warn(f"left out, because the target lacks them: frequencies {', '.join(absent)}")
        bands = [band for band, is_there in zip(bands, strong.tolist()) if is_there]
    products, energies = [], []
    for functions in states.functions:
        F = spectrum_of(functions, grid, options)
        products.append(band_products(F, T, grid.axes, bands))
        energies.append(band_products(F, F, grid.axes, bands))
    return _Compared(
        bands, torch.stack(products, 1), torch.stack(energies, 1), of_target[:, strong]
    )


def _learnt(
    states: _States, target: Tensor, compared: _Compared, options: Any, context: penchant.Context
) -> _Learnt:
    """Shares by step and band with errors over slices; their order; the loss."""
    frequencies = torch.tensor(compared.bands, device="cpu", dtype=torch.float64)
    steps = torch.tensor(states.steps, device="cpu")
    share = compared.share().cpu()
    arrays: dict[str, Any] = {
        "frequencies": torch.tensor(compared.bands, device="cpu"),
        "steps": steps,
        # of the first slice and output, for figures
        "prediction": states.functions[:, 0, ..., 0].cpu(),
        "target": target[0, ..., 0].cpu(),
    }
    axes = {"step": states.steps, "frequency": compared.bands}
    first_fits = first_fit(share, steps, options.learnt_at)
    losses = (states.functions - target).double().square().flatten(2).mean(2)  # (steps, slices)
    tables = {
        "learnt-share": penchant.Table(share, axes),
        "amplitude": penchant.Table(compared.amplitude().cpu(), axes),
        "first-fit": penchant.Table(first_fits, {"frequency": compared.bands}),
        "loss": penchant.Table(losses.mean(1).cpu(), {"step": states.steps}),
    }
    slices = len(target)
    if slices > 1:
        others = [[n for n in range(slices) if n != left] for left in range(slices)]
        for name, of in (("learnt-share", compared.share), ("amplitude", compared.amplitude)):
            replicates = torch.stack([of(torch.tensor(each)).cpu() for each in others])
            stderr = jackknife(replicates)
            tables[name] = attrs.evolve(tables[name], stderr=stderr, over="slices", count=slices)
    late = -mean_over_training(share)
    quantities = {
        "rank-correlation": order(
            late[None], frequencies, generator=context.generator("permutations", "order")
        ),
        "final-loss": _final_loss(losses[-1], target),
    }
    if len(states.steps) > 1:
        first = first_fits.nan_to_num(nan=np.inf)
        quantities["first-fit-rank-correlation"] = order(
            first[None], frequencies, generator=context.generator("permutations", "fit")
        )
    return _Learnt(arrays, tables, quantities)


def _final_loss(losses: Tensor, target: Tensor) -> penchant.Quantity:
    """The mean over slices; the null is the best constant."""
    means = target.double().flatten(0, -2).mean(0)
    constant = float((target.double() - means).square().mean())
    if len(losses) > 1:
        return penchant.Quantity.of(losses.cpu(), over="slices", null=constant)
    return penchant.Quantity(float(losses[0]), exact=True, null=constant)
