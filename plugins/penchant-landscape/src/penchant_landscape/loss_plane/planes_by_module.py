"""The loss where one module moves and the others stay: lines, paths, and the block's eigenvalue."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics.curvature import Hessian
from penchant_numerics.linear_algebra import Restricted, leading_pairs
from torch import Tensor

from penchant_landscape.declarations.loss_plane import LossPlane
from penchant_landscape.shared.line_losses import Landscape, curvature_along

_SMALL = 0.05  # share of a line at which losses of single samples give their curvature


class Around(NamedTuple):
    """What is known at the last network, and which directions are measured."""

    landscape: Landscape
    losses: Tensor  # (n,)
    H: Hessian
    random: Tensor  # directions (k, parameters)
    first: Tensor | None  # the first checkpoint (parameters,), where there is a path


def tables_by_module(
    around: Around,
    coordinates: Mapping[str, Tensor],
    options: LossPlane,
    context: penchant.Context,
    unit: str,
) -> dict[str, penchant.Table]:
    """Tables along the axis `module`.

    Args:
        around: The last network.
        coordinates: Where each module lies among all parameters.
        options: The probe's.
        context: For random numbers and warnings.
        unit: What errors over samples are over.
    """
    modules = {"module": tuple(coordinates)}
    lines = _random_lines(around, coordinates, context)
    tables = _of_lines(lines, modules, options, around)
    tables |= _sharpness(around, coordinates, context, unit)
    if around.first is not None:
        tables["path-loss-by-module"] = _paths(around, around.first, coordinates, options, unit)
    return tables


def _only(row: Tensor, own: Tensor) -> Tensor:
    """A row that is zero outside of a module."""
    inside = torch.zeros_like(row)
    inside[own] = row[own]
    return inside


def _random_lines(
    around: Around, coordinates: Mapping[str, Tensor], context: penchant.Context[LossPlane]
) -> np.ndarray:
    """Mean losses (modules, directions, positions); missing where a module has no filters."""
    options = context.options
    landscape = around.landscape
    positions = torch.linspace(-1, 1, options.grid_points, device="cpu", dtype=torch.float64)
    shape = (len(coordinates), len(around.random), options.grid_points)
    losses = np.full(shape, math.nan)
    for number, (name, own) in enumerate(coordinates.items()):
        if not around.random[:, own].any():
            context.warn(
                f"no random directions of module {name!r}: its parameters have one axis each, or "
                "are zero, and random directions have the norms of its filters"
            )
            continue
        for line, row in enumerate(around.random):
            direction = _only(row, own)
            points = (landscape.centre + float(share) * direction for share in positions)
            losses[number, line] = landscape.measure(points).losses.mean(1).numpy()
    return losses


def _of_lines(
    losses: np.ndarray, modules: dict[str, tuple[str, ...]], options: LossPlane, around: Around
) -> dict[str, penchant.Table]:
    """Means over random directions."""
    positions = torch.linspace(-1, 1, options.grid_points, device="cpu", dtype=torch.float64)
    distances = options.distance * positions
    here = float(around.losses.mean())
    rises = losses[:, :, [0, -1]].mean(2) - here
    directions = range(losses.shape[1])
    tables = {
        "random-loss-by-module": penchant.Table(
            losses, {**modules, "direction": directions, "distance": distances}
        ),
        "random-rise-by-module": penchant.Table(rises, {**modules, "direction": directions}),
    }
    return {name: table.mean("direction") for name, table in tables.items()}


def _sharpness(
    around: Around,
    coordinates: Mapping[str, Tensor],
    context: penchant.Context[LossPlane],
    unit: str,
) -> dict[str, penchant.Table]:
    """Largest eigenvalues of blocks; null: curvature along random directions of the module."""
    values, errors, nulls, spreads = [], [], [], []
    landscape = around.landscape
    for name, own in coordinates.items():
        block = Restricted(around.H, own)
        pairs = leading_pairs(block, 1, generator=context.generator("module", name))
        if not bool(pairs.converged.all()):
            context.warn(f"the first eigenvector of module {name!r} did not converge")
        value = float(pairs.values[0])
        direction = torch.zeros_like(landscape.centre)
        direction[own] = pairs.vectors[:, 0].to(direction)

        # what samples add to it, at a share of the line
        length = math.sqrt(2 * context.options.rise / max(abs(value), 1e-12))

        def losses(distance: float, direction: Tensor = direction) -> Tensor:
            return landscape.measure([landscape.centre + distance * direction]).losses[0]

        of_samples = curvature_along(losses, around.losses, _SMALL * length).curvatures
        values.append(value)
        errors.append(float(of_samples.std()) / math.sqrt(len(of_samples)))
        draws = _random_curvatures(around, block, own)
        nulls.append(float(draws.mean()))
        spreads.append(float(draws.std()))
    count = len(around.random)
    table = penchant.Table(
        values,
        {"module": tuple(coordinates)},
        stderr=errors,
        null=nulls,
        null_spread=spreads,
        null_stderr=np.array(spreads) / math.sqrt(count),
        over=unit,
        count=len(around.losses),
    )
    return {"sharpness-by-module": table}


def _random_curvatures(around: Around, block: Restricted, own: Tensor) -> Tensor:
    """Curvatures (k,) along random unit directions of a module."""
    rows = around.random[:, own]
    lengths = rows.norm(dim=1, keepdim=True)
    if not bool(lengths.all()):
        return torch.full((len(rows),), torch.nan, device="cpu", dtype=torch.float64)
    return block.quadratic(rows / lengths).cpu()


def _paths(
    around: Around, first: Tensor, coordinates: Mapping[str, Tensor], options: LossPlane, unit: str
) -> penchant.Table:
    """Losses on the path where only one module goes back to the first checkpoint."""
    landscape = around.landscape
    positions = torch.linspace(0, 1, options.grid_points, device="cpu", dtype=torch.float64)
    losses = []
    for own in coordinates.values():
        back = _only(first - landscape.centre, own)
        points = (landscape.centre + (1 - float(share)) * back for share in positions)
        losses.append(landscape.measure(points).losses)
    values = torch.stack(losses)  # (modules, positions, n)
    return penchant.Table(
        values.mean(2),
        {"module": tuple(coordinates), "position": positions.tolist()},
        stderr=values.std(2) / math.sqrt(values.shape[2]),
        over=unit,
        count=values.shape[2],
    )
