"""Traces, leading eigenvalues and densities of diagonal blocks: one for each module.

A block of a matrix is a part of it. Of a matrix that is applied, products with vectors that are
zero outside of a module give it; all modules together take as many products as the whole did.
Traces take none: of random signs v the products v_m (A v)_m estimate the trace of block m, and add
up to v^T A v.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import penchant
import torch
from penchant_numerics.linear_algebra import (
    Dense,
    Density,
    Operator,
    Quadrature,
    Restricted,
    exact_quadrature,
    quadrature,
)
from penchant_numerics.linear_algebra.spectral_density import spectral_density
from torch import Tensor

from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum

FEWEST_STEPS = 8  # of Lanczos, for each module

Generators = Callable[..., torch.Generator]


class Trace(NamedTuple):
    """A trace and its standard error; None where it is exact."""

    value: float
    stderr: float | None


class Block(NamedTuple):
    """What is known of one diagonal block."""

    trace: Trace
    measure: Quadrature
    values: Tensor  # leading eigenvalues, descending
    residuals: Tensor


Blocks = dict[str, dict[str, Block]]  # by matrix and module


class Watched(Operator):
    """An operator that notes what each module contributes to v^T A v."""

    def __init__(self, inner: Operator, coordinates: Mapping[str, Tensor]) -> None:
        super().__init__(inner.size, device=inner.device, dtype=inner.dtype)
        self.inner = inner
        self.coordinates = coordinates
        self._contributions: list[Tensor] = []  # (vectors, modules)

    def _rows(self, rows: Tensor) -> Tensor:
        images = self.inner.multiply_rows(rows)
        products = rows.double() * images.double()
        of_modules = [products[:, own].sum(1) for own in self.coordinates.values()]
        self._contributions.append(torch.stack(of_modules, dim=1))
        return images

    def traces(self) -> dict[str, Trace]:
        """Traces of blocks, from all vectors that were multiplied."""
        values = torch.cat(self._contributions).cpu()
        means, errors = values.mean(0), values.std(0) / math.sqrt(len(values))
        pairs = zip(means.tolist(), errors.tolist())
        return {name: Trace(*pair) for name, pair in zip(self.coordinates, pairs)}


def check_steps(options: HessianSpectrum) -> None:
    """Refuse more modules than Lanczos steps allow."""
    count = len(options.parameters)
    most = options.lanczos_steps // FEWEST_STEPS
    if count > most:
        raise penchant.Error(
            f"parameters names {count} modules, which share the products of lanczos_steps = "
            f"{options.lanczos_steps}: expected at most {most}, or lanczos_steps of at least "
            f"{count * FEWEST_STEPS}"
        )


def diagonal_traces(matrix: Tensor, coordinates: Mapping[str, Tensor]) -> dict[str, Trace]:
    """Traces of the blocks of a matrix."""
    diagonal = matrix.diagonal().double()
    return {name: Trace(float(diagonal[own].sum()), None) for name, own in coordinates.items()}


def blocks_of(
    A: Operator,
    traces: Mapping[str, Trace],
    coordinates: Mapping[str, Tensor],
    *,
    products: int,
    count: int,
    options: HessianSpectrum,
    generators: Generators,
) -> dict[str, Block]:
    """The blocks of one operator.

    Args:
        A: The whole.
        traces: Those of blocks, by module.
        coordinates: Where each module lies.
        products: What the whole took, and all modules may take together.
        count: Leading eigenvalues of each.
        options: The probe's.
        generators: For start vectors, by module.
    """
    blocks = {}
    for name, own in coordinates.items():
        if isinstance(A, Dense):
            measure = _exact(A.matrix[own][:, own], count, options)
        else:
            steps = max(FEWEST_STEPS, products // (len(coordinates) * options.starts))
            measure = quadrature(
                Restricted(A, own), generator=generators(name), steps=steps, starts=options.starts
            )
        values, residuals = _leading(measure, count)
        blocks[name] = Block(traces[name], measure, values, residuals)
    return blocks


def _exact(matrix: Tensor, count: int, options: HessianSpectrum) -> Quadrature:
    """All eigenvalues of a block."""
    values = torch.linalg.eigvalsh((matrix + matrix.T).double() / 2).flip(0).cpu()
    known = min(count, len(values)) if options.deflate else 0
    return exact_quadrature(values, steps=options.lanczos_steps, known=known)


def _leading(measure: Quadrature, count: int) -> tuple[Tensor, Tensor]:
    """The largest nodes, of the start vector whose sum is largest, and their residuals."""
    best = None
    for nodes, residuals in zip(measure.nodes, measure.residuals):
        order = nodes.argsort(descending=True)[:count]
        pairs = nodes[order], residuals[order]
        if best is None or float(pairs[0].sum()) > float(best[0].sum()):
            best = pairs
    assert best is not None  # there is at least one start vector
    return best


def tables(by_split: Mapping[str, Blocks], options: HessianSpectrum) -> dict[str, penchant.Table]:
    """Everything about all blocks along the axes split, matrix and module."""
    first = next(iter(by_split.values()))
    axes: dict[str, Sequence[Any]] = {
        "split": list(by_split),
        "matrix": list(first),
        "module": list(next(iter(first.values()))),
    }
    blocks = [
        block
        for matrices in by_split.values()
        for modules in matrices.values()
        for block in modules.values()
    ]
    shape = tuple(len(each) for each in axes.values())
    return {
        "trace-by-module": _traces(blocks, axes, shape),
        "top-eigenvalues-by-module": _largest(blocks, axes, shape),
        "density-by-module": _densities(blocks, axes, shape, options),
    }


def _traces(blocks: list[Block], axes: Any, shape: tuple[int, ...]) -> penchant.Table:
    values = [block.trace.value for block in blocks]
    traces = torch.tensor(values, device="cpu", dtype=torch.float64)
    errors = [0.0 if block.trace.stderr is None else block.trace.stderr for block in blocks]
    stderr = torch.tensor(errors, device="cpu", dtype=torch.float64)
    return penchant.Table(
        traces.reshape(shape),
        axes,
        stderr=stderr.reshape(shape),
        over="samples for G, random vectors for the others; 0 where it is exact",
    )


def _largest(blocks: list[Block], axes: Any, shape: tuple[int, ...]) -> penchant.Table:
    # of Lanczos without reorthogonalisation only the largest is known
    count = min(1 if block.measure.variant == "none" else len(block.values) for block in blocks)
    values = torch.stack([block.values[:count] for block in blocks])
    residuals = torch.stack([block.residuals[:count] for block in blocks])
    ranks = range(1, count + 1)
    return penchant.Table(
        values.reshape(*shape, count),
        {**axes, "rank": ranks},
        stderr=residuals.reshape(*shape, count),
        over="Lanczos (its residual)",
    )


def _densities(
    blocks: list[Block], axes: Any, shape: tuple[int, ...], options: HessianSpectrum
) -> penchant.Table:
    """Densities of all blocks on one grid."""
    own = []
    for block in blocks:
        density = spectral_density(block.measure, points=options.grid_points, kappa=options.kappa)
        own.append(density.grid)
    low = min(float(grid[0]) for grid in own)
    high = max(float(grid[-1]) for grid in own)
    points = options.grid_points
    grid = torch.linspace(low, high, points, device="cpu", dtype=torch.float64)
    densities = [
        spectral_density(block.measure, kappa=options.kappa, grid=grid) for block in blocks
    ]
    values = torch.stack([each.density for each in densities]).reshape(*shape, points)
    return penchant.Table(
        values,
        {**axes, "eigenvalue": grid.tolist()},
        stderr=density_errors(densities, values),
        over="start vectors; 0 where all eigenvalues are known",
        count=options.starts,
    )


def density_errors(densities: Sequence[Density], values: Tensor) -> Tensor | None:
    """Errors over start vectors, like values; 0 where exact, None with a single start vector."""
    if all(each.variant == "exact" for each in densities):
        return torch.zeros_like(values)
    errors = [each.stderr for each in densities if each.stderr is not None]
    if len(errors) < len(densities):
        return None
    return torch.stack(errors).reshape(values.shape)
