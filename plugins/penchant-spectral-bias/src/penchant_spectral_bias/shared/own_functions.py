"""Networks of the user's own as functions on R^d: where they are evaluated, and their target."""

import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import penchant
import torch
from penchant_numerics.training import outputs
from torch import Tensor, nn

from penchant_spectral_bias.shared.band_spectra import highest_band, transforms

MOST_AXES = 3
_ALIASED = 0.05  # of the energy in the upper quarter of the bands: what more points may move
OWN = ("corners", "wave_inputs", "coordinates", "target_function", "target_values")


class Grid(NamedTuple):
    """Points (slices, N_1, ..., N_m, inputs) of lines, planes or a grid."""

    points: Tensor

    @property
    def counts(self) -> tuple[int, ...]:
        """Points along every axis."""
        return tuple(self.points.shape[1:-1])

    @property
    def axes(self) -> int:
        """How many axes waves are along."""
        return len(self.counts)

    @property
    def slices(self) -> int:
        """How many lines, planes or grids."""
        return len(self.points)


def refuse_own_options(options: Any) -> None:
    """Refuse options of the user's own networks where there are none."""
    given = [name for name in OWN if getattr(options, name) is not None]
    if given:
        raise penchant.Error(
            f"{', '.join(given)} describe a network of your own, found an architecture that is "
            "drawn: give a module or `weights`"
        )


def grid_of(options: Any, context: penchant.Context) -> Grid:
    """The points of the options, on the device."""
    inputs = math.prod(context.architecture.shape)
    if options.coordinates is not None:
        if options.corners is not None or options.wave_inputs is not None:
            raise penchant.Error(
                "coordinates are points already, found corners or wave_inputs beside them"
            )
        points = _given(options, context, inputs)
    else:
        points = _in_box(options, context, inputs)
    grid = Grid(points)
    highest = highest_band(grid.counts)
    if max(options.frequencies) > highest:
        raise penchant.Error(
            f"frequencies must be at most {highest} for {' x '.join(map(str, grid.counts))} points,"
            f" found {max(options.frequencies)}: use more grid_points"
        )
    return grid


def _given(options: Any, context: penchant.Context, inputs: int) -> Tensor:
    points = torch.as_tensor(options.coordinates, device=context.device, dtype=context.dtype)
    if not 2 <= points.ndim <= MOST_AXES + 1 or points.shape[-1] != inputs:
        raise penchant.Error(
            f"coordinates must be points (N_1, ..., {inputs}) along 1 to {MOST_AXES} axes, found "
            f"the shape {tuple(points.shape)}"
        )
    return points[None]


def _in_box(options: Any, context: penchant.Context, inputs: int) -> Tensor:
    """Equidistant points along some inputs; the others are uniform in the box, slice by slice."""
    low, high = _corners(options, inputs)
    along = tuple(range(inputs)) if inputs <= 2 else (0,)
    if options.wave_inputs is not None:
        along = options.wave_inputs
    distinct = len(set(along)) == len(along)
    if not (distinct and 1 <= len(along) <= MOST_AXES and all(0 <= a < inputs for a in along)):
        raise penchant.Error(
            f"wave_inputs must be 1 to {MOST_AXES} different inputs of 0..{inputs - 1}, found "
            f"{list(along)}"
        )
    others = len(along) < inputs
    slices = options.slices if others else 1
    generator = context.generator("slices")
    places = torch.rand(slices, inputs, generator=generator, device="cpu", dtype=torch.float64)
    # the end is left out, so that whole frequencies are exact
    ticks = torch.arange(options.grid_points, device="cpu", dtype=torch.float64)
    meshes = torch.meshgrid(*[ticks / options.grid_points] * len(along), indexing="ij")
    shape = (slices, *meshes[0].shape, inputs)
    unit = places.reshape(slices, *[1] * len(along), inputs).expand(shape).clone()
    for index, mesh in zip(along, meshes):
        unit[..., index] = mesh
    points = low + (high - low) * unit
    return points.to(context.device, context.dtype)


def _corners(options: Any, inputs: int) -> tuple[Tensor, Tensor]:
    if options.corners is None:
        return torch.zeros(inputs, device="cpu").double(), torch.ones(inputs, device="cpu").double()
    corners = torch.as_tensor(options.corners, device="cpu", dtype=torch.float64)
    if tuple(corners.shape) != (2, inputs) or not bool((corners[1] > corners[0]).all()):
        raise penchant.Error(
            f"corners must be the lowest and the highest value of {inputs} inputs, (2, {inputs}), "
            f"found {corners.tolist()}"
        )
    return corners[0], corners[1]


@torch.no_grad()
def values_on(network: nn.Module, grid: Grid, context: penchant.Context) -> Tensor:
    """Outputs (slices, N_1, ..., outputs) of a network."""
    points = grid.points.reshape(-1, *context.architecture.shape)
    values = outputs(network, points).reshape(*grid.points.shape[:-1], -1)
    if not bool(values.isfinite().all()):
        raise penchant.Error("the network gives numbers on the grid that are not finite")
    return values


def target_on(options: Any, grid: Grid, context: penchant.Context) -> Tensor | None:
    """The target's values, as the network gives them; None where there is no target."""
    if options.target_function is not None and options.target_values is not None:
        raise penchant.Error("a target has a function or values, found both")
    if options.target_values is not None:
        if options.coordinates is None:
            raise penchant.Error("target_values belong to points, found no coordinates")
        values = torch.as_tensor(options.target_values, device=context.device)
        values = values[None]
    elif options.target_function is not None:
        points = grid.points.reshape(-1, grid.points.shape[-1])
        made = torch.as_tensor(_function(options.target_function)(points)).detach()
        if len(made) != len(points):
            raise penchant.Error(
                f"the target must give a value for each of {len(points)} points, found the shape "
                f"{tuple(made.shape)}"
            )
        values = made.reshape(*grid.points.shape[:-1], *made.shape[1:])
    else:
        return None
    if values.ndim == grid.points.ndim - 1:
        values = values[..., None]
    expected = tuple(grid.points.shape[1:-1])
    if tuple(values.shape[1:-1]) != expected or not bool(values.isfinite().all()):
        raise penchant.Error(
            f"the target must have finite values on {expected} points, found the shape "
            f"{tuple(values.shape[1:])}"
        )
    return values.to(context.device, context.dtype)


def _function(given: Any) -> Callable[[Tensor], Any]:
    """The function, or the one that a text names."""
    if isinstance(given, str):
        module, _, name = given.partition(":")
        try:
            given = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise penchant.Error(
                f"target_function must be package.module:function, found {given!r}: {error}"
            ) from None
    if not callable(given):
        raise penchant.Error(f"target_function must be a function of points, found {given!r}")
    function: Callable[[Tensor], Any] = given
    return function


def check_outputs(values: Tensor, target: Tensor) -> None:
    """Refuse a target with other outputs than the network."""
    if values.shape[-1] != target.shape[-1]:
        raise penchant.Error(
            f"network and target must have as many outputs, found {values.shape[-1]} and "
            f"{target.shape[-1]}"
        )


def spectrum_of(values: Tensor, grid: Grid, options: Any) -> Tensor:
    """Transforms of functions (..., N_1, ..., outputs)."""
    return transforms(values, grid.axes, options.window)


def warn_where_aliased(energies: Tensor, context: penchant.Context) -> None:
    """Warn where a function is faster than the grid resolves; energies (bands,) from band 1 on."""
    upper = energies[-max(1, len(energies) // 4) :].sum() / energies.sum().clamp(min=1e-300)
    if float(upper) > _ALIASED:
        context.warn(
            f"{float(upper):.0%} of the function's energy are in the upper quarter of the "
            "frequencies that the points resolve: faster waves may stand for slower ones; use more "
            "grid_points"
        )


def window_convention(options: Any) -> str:
    """What is done about functions that are not periodic."""
    if options.window == "none":
        return "none: functions are taken to be periodic"
    return "Hann on every axis: a wave of k cycles is seen at k - 1, k and k + 1"
