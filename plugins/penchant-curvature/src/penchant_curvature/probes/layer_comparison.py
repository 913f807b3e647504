"""One layer: the exact curvature beside every proxy of it.

Proxies are anybody's: what is asked of them is `penchant_numerics.answers.LayerCurvature`. An
operator that knows products only takes part, too, where it is small enough for its matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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

    # Gram matrices have a row for every sample and class
    rows = len(samples.inputs) * max(context.data.outputs, 2)
    if rows > LARGEST:
        raise penchant.Error(
            f"samples x classes must be at most {LARGEST} for exact spectra, found {rows}; use a "
            "smaller per_class"
        )
    return samples


def measure_layer(context: penchant.Context, layer: str) -> dict[str, Any]:
    """Everything about one layer."""
    compared = _compared(context, layer)
    exact = compared["exact"]
    found: dict[str, Any] = {"size": exact.operator.size}

    # each curvature by itself, and each proxy beside the exact one
    for each in compared.values():
        found |= _alone(context, each)
        if each is not exact:
            found |= _beside(context, exact, each)

    # all of them on one grid
    found |= _densities(context, compared)
    found |= _means(context, exact)
    return found


class Compared(NamedTuple):
    """One estimator's curvature of a layer."""

    layer: str
    name: str  # `exact`, or the estimator's label
    estimator: Any
    network: nn.Module
    data: Samples
    operator: Any
    pairs: Eigenpairs  # leading ones

    def generator(self, context: penchant.Context, what: str) -> torch.Generator:
        """Random numbers for one use of one operator."""
        return context.generator(what, self.layer, _of(self.name))


def _of(name: str) -> str:
    """The estimator's label, by which random numbers are told apart."""
    return EXACT if name == "exact" else name


def _compared(context: penchant.Context, layer: str) -> dict[str, Compared]:
    """The curvatures of a layer by all estimators, by name."""
    options: CurvatureProxies = context.options
    network, data = measured_network(context), chosen_samples(context)
    count = options.leading or 2 * context.data.classes + 1
    found = {}
    for estimator in context.estimators("curvature"):
        name = "exact" if estimator.name == EXACT else estimator.label
        operator = estimator(network, data)[layer]

        # pairs are found once: eigenvalues, gaps and overlaps need them
        generator = context.generator("leading", layer, _of(name))
        pairs = _leading(operator, count, generator)
        found[name] = Compared(layer, name, estimator, network, data, operator, pairs)
    return found


def _leading(A: Any, count: int, generator: torch.Generator) -> Eigenpairs:
    """Leading pairs; an operator may know products only."""
    if isinstance(A, LayerCurvature):
        return A.eigenpairs(count, generator=generator)

    # only products are known: small ones are decomposed, large ones go by Lanczos
    fewer = min(count, A.size)
    return leading_pairs(A, fewer, generator=generator)


def _alone(context: penchant.Context, each: Compared) -> dict[str, Any]:
    """What a curvature is by itself: trace, leading eigenvalues, where their largest gap is."""
    options: CurvatureProxies = context.options
    classes = context.data.classes
    trace = each.operator.trace(generator=each.generator(context, "trace"))
    values = each.pairs.values

    # what an operator of few samples does not have is zero
    count = options.leading or 2 * classes + 1
    missing = values.new_zeros(max(0, count - len(values)))

    # fewer than three eigenvalues have no gap to speak of
    position, ratio = len(values), 1.0
    if len(values) > 2:
        floor = torch.finfo(values.dtype).tiny
        gap = largest_gap(values, first=2, last=2 * classes, floor=floor)
        position, ratio = gap.position, gap.ratio
    return {
        f"trace-{each.name}": trace.value,
        f"leading-{each.name}": torch.cat([values, missing]),
        f"converged-{each.name}": bool(each.pairs.converged.all()),
        f"outliers-{each.name}": position,
        f"gap-{each.name}": ratio,
    }


def _beside(context: penchant.Context, exact: Compared, proxy: Compared) -> dict[str, Any]:
    """How far a proxy is from the exact curvature."""
    classes = context.data.classes
    first = exact.pairs.vectors[:, :classes]
    second = proxy.pairs.vectors[:, :classes]

    # leading eigenspaces are compared whole: their order may differ
    distance = exact.operator.frobenius_distance(proxy.operator, relative=True)
    return {
        f"error-{proxy.name}": distance,
        f"alignment-{proxy.name}": exact.operator.alignment(proxy.operator),
        f"overlap-{proxy.name}": subspace_overlap(first, second),
        f"error-{proxy.name}-nulls": _nulls(context, exact, proxy),
    }


def _nulls(context: penchant.Context, exact: Compared, proxy: Compared) -> Tensor:
    """Relative errors (permutations,) with labels permuted; none where labels are not used."""
    by_class = getattr(proxy.operator, "by_class", False)
    permutations = context.options.permutations if by_class else 0
    inputs, labels = proxy.data
    errors = []
    for number in range(permutations):
        generator = context.generator("permutation", number)
        order = torch.randperm(len(labels), generator=generator, device="cpu")
        permuted = Samples(inputs, labels[order.to(labels.device)])

        # the same estimator, told other classes
        operators = proxy.estimator(proxy.network, permuted)
        other = operators[proxy.layer]
        error = exact.operator.frobenius_distance(other, relative=True)
        errors.append(error)
    return torch.tensor(errors, device="cpu", dtype=torch.float64)


def _densities(context: penchant.Context, compared: dict[str, Compared]) -> dict[str, Any]:
    """Log densities of all operators on one grid, which the exact one sets."""
    options: CurvatureProxies = context.options
    # the first spectrum sets the floor of the grid
    ordered = sorted(compared.values(), key=lambda each: each.name != "exact")
    spectra = {each.name: _spectrum(context, each) for each in ordered}
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


def _spectrum(context: penchant.Context, each: Compared) -> Quadrature:
    """The spectrum of an operator: exact where it is affordable, else by Lanczos."""
    options: CurvatureProxies = context.options
    A = each.operator

    # few samples or few parameters: all eigenvalues are affordable
    values = A.exact_spectrum() if isinstance(A, LayerCurvature) else None
    if values is not None:
        return exact_quadrature(values, zeros=A.size - len(values))
    return quadrature(
        A,
        generator=each.generator(context, "spectrum"),
        steps=options.lanczos_steps,
        starts=options.starts,
    )


def _means(context: penchant.Context, exact: Compared) -> dict[str, Any]:
    """Inner products of class means; none for the squared error, which has no classes."""
    options: GaussNewton = exact.estimator.options
    classes = context.data.classes
    loss = loss_of(options, context)
    every = len(exact.data.labels.unique()) == classes
    if exact.layer == ALL or loss != "cross-entropy" or not every:
        return {}

    # inner products only, so that layers can be added up
    found = mean_products(
        exact.network,
        exact.data,
        exact.layer,
        classes=classes,
        bias=options.bias,
        batch=options.batch,
    )
    return {f"means-{name}": getattr(found, name) for name in MEANS}
