"""The diagonal blocks of G, one for each module, and their components.

K is the sum of the K of modules that hold every parameter once, so that traces of G and of all its
components add up exactly.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.linear_algebra import (
    DENSE_UP_TO,
    Eigenpairs,
    Quadrature,
    leading_pairs,
    log_densities,
)
from torch import nn

from penchant_class_structure.cross_class.component_quantities import (
    COMPONENTS,
    Components,
    contributions_of,
    permuted_components,
)
from penchant_class_structure.cross_class.log_spectra import Smoothing, measure_of
from penchant_class_structure.declarations.cross_class import CrossClass
from penchant_class_structure.shared import influence
from penchant_class_structure.shared.decomposition import Decomposition
from penchant_class_structure.shared.measured_network import saying, stderr_of
from penchant_class_structure.shared.multi_device import neighbours
from penchant_class_structure.shared.sample_space import SampleSpace, sample_space
from penchant_class_structure.shared.spectra_by_module import density_errors

ROWS = ("total", *COMPONENTS)


class Block(NamedTuple):
    """What is known of one module."""

    components: Components
    leading: Eigenpairs
    permuted: list[Components]


def tables_by_module(
    network: nn.Module,
    samples: Samples,
    names: Mapping[str, tuple[str, ...]],
    smoothing: Smoothing,
    options: CrossClass,
    context: penchant.Context,
) -> dict[str, penchant.Table]:
    """Tables along the axis `module`.

    Args:
        network: The network that is measured.
        samples: On these samples.
        names: Names of each module's parameters.
        smoothing: Of densities.
        options: The probe's.
        context: For random numbers and warnings.
    """
    blocks = {}
    measures = {}
    for module, parameters in names.items():
        with saying(context):
            space = sample_space(
                network,
                samples.inputs,
                parameters=parameters,
                exact_limit=options.exact_limit,
                devices=neighbours(context.device, options.devices),
            )
        blocks[module] = _block(module, space, samples, options, context)
        generator = context.generator("module density", module)
        measures[module] = measure_of(space.gram, space.size, smoothing, generator)
    return {
        "trace-by-module": _traces(blocks),
        "top-eigenvalues-by-module": _eigenvalues(blocks),
        "density-by-module": _densities(measures, smoothing),
    }


def _block(
    module: str,
    space: SampleSpace,
    samples: Samples,
    options: CrossClass,
    context: penchant.Context,
) -> Block:
    """The components of one module's G, and its leading eigenvalues."""
    decomposition = Decomposition.of(space, samples.labels)
    if space.exact:
        components = Components.of(decomposition)
    else:
        components = Components(decomposition, decomposition.pair_products())
    leading = leading_pairs(
        space.gram,
        decomposition.classes,
        generator=context.generator("module", module),
        products=options.products,
        dense_up_to=DENSE_UP_TO if space.exact else 0,
    )
    if not bool(leading.converged.all()):
        context.warn(
            f"leading eigenvalues of module {module!r} did not converge in {options.products} "
            f"products: residuals to {float(leading.residuals.max()):.2g}"
        )
    return Block(components, leading, permuted_components(components, options, context))


def _traces(blocks: Mapping[str, Block]) -> penchant.Table:
    """Traces (components, modules), of these samples, beside those of permuted classes."""
    axes = {"component": ROWS, "module": tuple(blocks)}
    values = [[_trace(block.components, row) for block in blocks.values()] for row in ROWS]
    first = next(iter(blocks.values())).components
    labels = first.decomposition.labels
    if first.images is None:
        return penchant.Table(values, axes)
    contributions = [contributions_of(block.components) for block in blocks.values()]
    errors = [[stderr_of(each[row], labels) for each in contributions] for row in ROWS]
    draws = np.array(
        [
            [[_trace(each, row) for each in block.permuted] for block in blocks.values()]
            for row in ROWS
        ]
    )
    nulls = {}
    if draws.shape[2] > 1:
        spread = draws.std(axis=2, ddof=1)
        nulls = {
            "null": draws.mean(axis=2),
            "null_spread": spread,
            "null_stderr": spread / np.sqrt(draws.shape[2]),
        }
    # one sample has no spread
    known = None if errors[0][0] is None else np.array(errors, float)
    return penchant.Table(values, axes, stderr=known, over="samples", count=len(labels), **nulls)


def _trace(components: Components, row: str) -> float:
    if row == "total":
        return float(components.totals.sum())
    return components.trace(row)


def _eigenvalues(blocks: Mapping[str, Block]) -> penchant.Table:
    """Leading eigenvalues (modules, ranks), with errors over samples."""
    values, errors = [], []
    for block in blocks.values():
        decomposition, leading = block.components.decomposition, block.leading
        of_samples = influence.of_eigenvalues(
            leading.values, leading.vectors, decomposition.classes
        )
        labels = decomposition.labels
        values.append(leading.values.tolist())
        errors.append([stderr_of(each, labels) for each in of_samples])
    known = None if errors[0][0] is None else np.array(errors, float)
    ranks = range(1, len(values[0]) + 1)
    axes = {"module": tuple(blocks), "rank": ranks}
    return penchant.Table(values, axes, stderr=known, over="samples", count=len(labels))


def _densities(measures: Mapping[str, Quadrature], smoothing: Smoothing) -> penchant.Table:
    """Log densities (modules, points) on one grid."""
    densities = log_densities(
        measures, epsilon=smoothing.epsilon, points=smoothing.points, kappa=smoothing.kappa
    )
    grid = next(iter(densities.values())).grid
    axes = {"module": tuple(densities), "log-eigenvalue": grid.tolist()}
    values = torch.stack([each.density for each in densities.values()])
    return penchant.Table(
        values,
        axes,
        stderr=density_errors(list(densities.values()), values),
        over="start vectors; 0 where all eigenvalues are known",
        count=smoothing.starts,
    )
