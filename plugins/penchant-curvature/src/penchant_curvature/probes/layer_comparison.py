"""One layer: the exact curvature beside every proxy of it.

Proxies are anybody's: what is asked of them is `penchant_numerics.answers.LayerCurvature`. An
operator that knows products only takes part, too, where it is small enough for its matrix.
"""

from __future__ import annotations

from typing import Any

import penchant
import torch
from penchant_numerics.answers import LayerCurvature
from penchant_numerics.data import Samples
from penchant_numerics.eigenpairs import Eigenpairs, leading_pairs
from penchant_numerics.safety import safe
from penchant_numerics.spectra import common_log_grid, largest_gap, subspace_overlap
from penchant_numerics.spectral_density import Quadrature, exact_quadrature, quadrature
from torch import Tensor, nn

from penchant_curvature.declarations import CurvatureProxies, GaussNewton
from penchant_curvature.estimators.measured_curvature import loss_of
from penchant_curvature.numerics.class_means import mean_products
from penchant_curvature.numerics.columns import LARGEST
from penchant_curvature.numerics.layer_operators import ALL

EXACT = "ggn"  # the estimator that the others are compared with; its numbers are called exact
MEANS = ("inner", "gradients", "errors", "features")

Operators = dict[str, Any]


def measured_network(context: penchant.Context) -> nn.Module:
    """The trained network, safe to differentiate, batch-norm in evaluation mode."""
    *_, (_, network) = context.trained()
    return safe(network)


def chosen_samples(context: penchant.Context) -> Samples:
    """The first samples of each class, in their order."""
    options: CurvatureProxies = context.options
    samples = getattr(context.data, options.part)
    if options.per_class is not None:
        samples = samples.first_of_each_class(options.per_class)
    rows = len(samples.inputs) * max(context.data.outputs, 2)
    if rows > LARGEST:
        raise penchant.Error(
            f"samples x classes must be at most {LARGEST} for exact spectra, found {rows}; use a "
            "smaller per_class"
        )
    return samples


def measure_layer(context: penchant.Context, layer: str) -> dict[str, Any]:
    """Everything about one layer."""
    options: CurvatureProxies = context.options
    network, data = measured_network(context), chosen_samples(context)
    classes = context.data.classes
    estimators = {_name(each): each for each in context.estimators("curvature")}
    operators = {name: each(network, data)[layer] for name, each in estimators.items()}
    found: dict[str, Any] = {"size": operators["exact"].size}
    pairs: dict[str, Eigenpairs] = {}
    count = options.leading or 2 * classes + 1
    for name, A in operators.items():
        asked = EXACT if name == "exact" else name
        pairs[name] = _leading(A, count, context.generator("leading", layer, asked))
        trace = A.trace(generator=context.generator("trace", layer, asked))
        found[f"trace-{name}"] = trace.value
        found |= _outliers(name, pairs[name], count, classes)
    for name, A in operators.items():
        if name == "exact":
            continue
        found |= _differences(name, operators["exact"], A)
        first, second = pairs["exact"].vectors, pairs[name].vectors
        overlap = subspace_overlap(first[:, :classes], second[:, :classes])
        found[f"overlap-{name}"] = overlap
        found[f"error-{name}-nulls"] = torch.zeros(0, device="cpu", dtype=torch.float64)
        if getattr(A, "by_class", False):
            nulls = _nulls(context, network, data, layer, estimators[name], operators["exact"])
            found[f"error-{name}-nulls"] = nulls
    found |= _densities(context, layer, operators)
    found |= _means(context, network, data, layer, estimators["exact"].options)
    return found


def _name(estimator: Any) -> str:
    return "exact" if estimator.name == EXACT else estimator.label


def _leading(A: Any, count: int, generator: torch.Generator) -> Eigenpairs:
    """Leading pairs; an operator may know products only."""
    if isinstance(A, LayerCurvature):
        return A.eigenpairs(count, generator=generator)
    return leading_pairs(A, min(count, A.size), generator=generator)


def _outliers(name: str, pairs: Eigenpairs, count: int, classes: int) -> dict[str, Any]:
    """Leading eigenvalues, filled up with zeros, and where their largest gap is."""
    values = pairs.values
    missing = values.new_zeros(max(0, count - len(values)))
    position, ratio = len(values), 1.0
    if len(values) > 2:
        floor = torch.finfo(values.dtype).tiny
        gap = largest_gap(values, first=2, last=2 * classes, floor=floor)
        position, ratio = gap.position, gap.ratio
    return {
        f"leading-{name}": torch.cat([values, missing]),
        f"converged-{name}": bool(pairs.converged.all()),
        f"outliers-{name}": position,
        f"gap-{name}": ratio,
    }


def _differences(name: str, exact: Any, A: Any) -> dict[str, float]:
    return {
        f"error-{name}": exact.frobenius_distance(A, relative=True),
        f"alignment-{name}": exact.alignment(A),
    }


def _nulls(
    context: penchant.Context,
    network: nn.Module,
    data: Samples,
    layer: str,
    estimator: Any,
    exact: Any,
) -> Tensor:
    """Relative errors (permutations,) of a proxy that uses labels, with labels permuted."""
    errors = []
    for number in range(context.options.permutations):
        generator = context.generator("permutation", number)
        order = torch.randperm(len(data.labels), generator=generator, device="cpu")
        permuted = Samples(data.inputs, data.labels[order.to(data.labels.device)])
        proxy = estimator(network, permuted)[layer]
        errors.append(exact.frobenius_distance(proxy, relative=True))
    return torch.tensor(errors, device="cpu", dtype=torch.float64)


def _densities(context: penchant.Context, layer: str, operators: Operators) -> dict[str, Any]:
    """Log densities of all operators on one grid, which the exact one sets."""
    options: CurvatureProxies = context.options
    spectra = {"exact": _spectrum(context, layer, "exact", operators["exact"])}
    for name, A in operators.items():
        if name != "exact":
            spectra[name] = _spectrum(context, layer, name, A)
    grid = common_log_grid(
        list(spectra.values()),
        floor=options.floor,
        points=options.grid_points,
        steps=options.lanczos_steps,
    )
    found: dict[str, Any] = {"grid": grid.centres}
    for name, measure in spectra.items():
        density, stderr = grid.density(measure)
        found[f"spectrum-{name}"] = density
        found[f"spectrum-{name}-stderr"] = stderr
        found[f"exact-{name}"] = measure.variant == "exact"
    return found


def _spectrum(context: penchant.Context, layer: str, name: str, A: Any) -> Quadrature:
    """The spectrum of an operator: exact where it is affordable, else by Lanczos."""
    options: CurvatureProxies = context.options
    values = A.exact_spectrum() if isinstance(A, LayerCurvature) else None
    if values is not None:
        return exact_quadrature(values, zeros=A.size - len(values))
    asked = EXACT if name == "exact" else name
    return quadrature(
        A,
        generator=context.generator("spectrum", layer, asked),
        steps=options.lanczos_steps,
        starts=options.starts,
    )


def _means(
    context: penchant.Context,
    network: nn.Module,
    data: Samples,
    layer: str,
    exact: GaussNewton,
) -> dict[str, Any]:
    """Inner products of class means; none for the squared error, which has no classes."""
    classes = context.data.classes
    every = len(data.labels.unique()) == classes
    if layer == ALL or loss_of(exact, context) != "cross-entropy" or not every:
        return {}
    found = mean_products(network, data, layer, classes=classes, bias=exact.bias, batch=exact.batch)
    return {f"means-{name}": getattr(found, name) for name in MEANS}
