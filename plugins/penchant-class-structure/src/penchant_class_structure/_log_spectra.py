"""Log spectra of G and of its knockouts, on one grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from penchant_numerics.operators import Dense, Operator
from penchant_numerics.spectral_density import (
    Density,
    Quadrature,
    exact_quadrature,
    log_density,
    quadrature,
)
from torch import Tensor

from penchant_class_structure._decomposition import Decomposition, WithoutPart, WithoutSpan
from penchant_class_structure._outliers import DENSE

Generators = Callable[..., torch.Generator]


def knockout(decomposition: Decomposition, part: str, how: str) -> Operator:
    """K without a part: `mean` always by projection (it is a direction), the others by subtraction or projection."""
    gram = decomposition.space.gram
    if part == "mean":
        return WithoutSpan(gram, decomposition.mean_row())
    if how == "subtraction":
        return WithoutPart(decomposition, part)
    if part == "class":
        return WithoutSpan(gram, decomposition.class_rows())
    return WithoutSpan(gram, cross_rows(decomposition))


def cross_rows(decomposition: Decomposition) -> Tensor:
    """Rows that V takes to all g_{c,c'} - g_c with c' != c, each times the root of its weight."""
    classes = decomposition.classes
    pairs = [(c, other) for c in range(classes) for other in range(classes) if c != other]
    gram = decomposition.space.gram
    units = torch.zeros(len(pairs), classes, classes, device=gram.device, dtype=gram.dtype)
    for number, (c, other) in enumerate(pairs):
        units[number, c, other] = 1
    return decomposition.project(decomposition.spread(units), "cross")


def measure_of(K: Operator, size: int, options: Any, generator: torch.Generator) -> Quadrature:
    """The spectral measure on R^size of an operator in sample space: exact for small matrices, else by Lanczos."""
    if K.size <= DENSE and _is_matrix(K):
        values = torch.linalg.eigvalsh(K.dense(block=K.size).double()).flip(0)
        return exact_quadrature(
            values[:size].clamp(min=0), zeros=max(0, size - K.size), steps=options.steps
        )
    found = quadrature(
        K,
        generator=generator,
        steps=options.steps,
        starts=options.starts,
        zeros=max(0, size - K.size),
        variant="full",
    )
    return found if size >= K.size else _fewer_zeros(found, size)


def _is_matrix(K: Operator) -> bool:
    return isinstance(getattr(K, "gram", K), Dense)


def _fewer_zeros(found: Quadrature, size: int) -> Quadrature:
    """V^T V has more rows than V V^T: the zeros that it has more are taken away by count."""
    extra = (found.size - size) / found.size
    weights = []
    for nodes, each in zip(found.nodes, found.weights):
        smallest = nodes.abs().argmin()
        each = each.clone()
        each[smallest] = (each[smallest] - extra).clamp(min=0)
        weights.append(each / each.sum())
    return replace(found, weights=tuple(weights), size=size)


def log_spectra(
    decomposition: Decomposition,
    spectrum: Tensor | None,
    pair_values: Tensor,
    options: Any,
    generators: Generators,
) -> dict[str, Density]:
    """Log densities of G (`total`) and of G without the global mean, class, cross and within parts, on one grid.

    `spectrum` are all eigenvalues of G that are not zero, where they are known, `pair_values` those of the sum of all means.
    """
    size, gram = decomposition.space.size, decomposition.space.gram
    if spectrum is None:
        measures = {"total": measure_of(gram, size, options, generators("density", "total"))}
    else:
        measures = {
            "total": exact_quadrature(spectrum, zeros=size - len(spectrum), steps=options.steps)
        }
    for part in ("mean", "class", "cross"):
        left = knockout(decomposition, part, options.knockout)
        measures[f"without-{part}"] = measure_of(left, size, options, generators("density", part))
    means = pair_values.clamp(min=0)[:size]
    measures["without-within"] = exact_quadrature(
        means, zeros=max(0, size - len(means)), steps=options.steps
    )
    grids = [smoothed(each, options).grid for each in measures.values()]
    low, high = min(float(grid[0]) for grid in grids), max(float(grid[-1]) for grid in grids)
    grid = torch.linspace(low, high, options.points, device="cpu", dtype=torch.float64)
    return {name: smoothed(each, options, grid) for name, each in measures.items()}


def smoothed(measure: Quadrature, options: Any, grid: Tensor | None = None) -> Density:
    """The log density that the options ask for."""
    return log_density(
        measure, epsilon=options.epsilon, points=options.points, kappa=options.kappa, grid=grid
    )
