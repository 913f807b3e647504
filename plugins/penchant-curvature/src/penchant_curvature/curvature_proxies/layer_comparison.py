"""One layer: the exact curvature beside every proxy of it.

Any plugin may provide proxies; they must have `penchant_numerics.roles.LayerCurvature`. An
operator that knows products only is compared, too, if it is small enough for its matrix. One that
does not fit in memory is left out, even the exact one; the numbers of others stay.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics.curvature import DRAWS
from penchant_numerics.data import Samples, kind_of
from penchant_numerics.device import safe
from penchant_numerics.layers import MOST_OUTPUTS
from penchant_numerics.linear_algebra import (
    Eigenpairs,
    Quadrature,
    common_log_grid,
    exact_quadrature,
    largest_gap,
    leading_pairs,
    quadrature,
    subspace_overlap,
)
from penchant_numerics.roles import LayerCurvature
from torch import Tensor, nn

from penchant_curvature.curvature_proxies.class_means import add, mean_products
from penchant_curvature.declarations import CurvatureProxies, GaussNewton
from penchant_curvature.estimators.measured_curvature import loss_of
from penchant_curvature.shared.column_bytes import TooLargeError
from penchant_curvature.shared.columns import LARGEST
from penchant_curvature.shared.layer_operators import ALL
from penchant_curvature.shared.linear_layers import coverage
from penchant_curvature.shared.moment_sums import UnreachedError

EXACT = "ggn"  # the estimator that the others are compared with; its numbers are called exact
BY_CLASS = "cfac"  # the estimator whose factors are of classes of samples
FEW = 10  # eigenvectors that are compared where a sample is a sequence
GROUPS = 4  # of sequences, each left out once for the error over them
ABSENT = "absent-"  # begins the names of reasons why something is not there
MEANS = ("inner", "gradients", "products")


def measured_network(context: penchant.Context) -> nn.Module:
    """The trained network, safe to differentiate, batch-norm in evaluation mode."""
    *_, (_, network) = context.trained()
    return safe(network)


def chosen_samples(context: penchant.Context) -> Samples:
    """The first samples of each class, in their order; as many sequences altogether."""
    options: CurvatureProxies = context.options
    samples: Samples = getattr(context.data, options.split)
    if samples.kind.by_position:
        return samples.select(slice(0, options.per_class))
    if options.per_class is not None:
        samples = samples.first_of_each_class(options.per_class)
    return samples


def compared_estimators(context: penchant.Context) -> list[Any]:
    """The curvatures that are compared: of sequences, those that need no class per sample."""
    estimators = list(context.estimators("curvature"))
    if not context.data.train.kind.by_position:
        return estimators
    return [each for each in estimators if each.name != BY_CLASS]


def eigenvectors_compared(context: penchant.Context) -> int:
    """Leading eigenvectors that are compared: C; of sequences, a few of the many classes."""
    classes = context.data.classes
    return min(classes, FEW) if context.data.train.kind.by_position else classes


def measure_layer(context: penchant.Context, layer: str) -> dict[str, Any]:
    """Everything about one layer that fits in memory; `absent-...` says why something does not."""
    compared, absent = _compared(context, layer)
    if not compared:
        reasons = "; ".join(dict.fromkeys(absent.values()))
        raise penchant.Error(f"no curvature of layer {layer!r} fits: {reasons}")
    some = next(iter(compared.values()))
    exact = compared.get("exact")
    if exact is not None and exact.operator.squared_norm == 0:
        raise penchant.Error(
            f"the Gauss-Newton matrix of layer {layer!r} is exactly zero, expected outputs that "
            "depend on its parameters: no proxy can be compared with it"
        )
    numbers: dict[str, Any] = {"size": some.operator.size}

    # each curvature by itself, and each proxy beside the exact one
    for each in compared.values():
        numbers |= _single(context, each)
        if each is not exact:
            numbers |= _beside(context, exact, each)

    # all of them on one grid
    numbers |= _densities(context, compared)
    for name in absent:
        numbers |= _missing(context, name)
    try:
        numbers |= _means(context, some)
    except TooLargeError as error:
        absent["class means"] = str(error)

    # and why something is not there
    for name, reason in absent.items():
        numbers[f"{ABSENT}{name}"] = reason
    return numbers


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
        label = _of(self.name)
        return context.generator(what, self.layer, label)


def _of(name: str) -> str:
    """The estimator's label, which keys its random numbers."""
    return EXACT if name == "exact" else name


def _compared(context: penchant.Context, layer: str) -> tuple[dict[str, Compared], dict[str, str]]:
    """The curvatures of a layer by name, and why others are not there."""
    network, data = measured_network(context), chosen_samples(context)
    count = _leading_count(context)
    compared: dict[str, Compared] = {}
    absent: dict[str, str] = {}
    for estimator in compared_estimators(context):
        name = "exact" if estimator.name == EXACT else estimator.label
        try:
            if name == "exact":
                _refuse_many_rows(context, data)
            operator = estimator(network, data)[layer]
        except TooLargeError as error:
            absent[name] = str(error)
            continue
        except UnreachedError as error:
            raise penchant.Error(str(error)) from None

        # pairs are found once: eigenvalues, gaps and overlaps need them
        generator = context.generator("leading", layer, _of(name))
        pairs = _leading(operator, count, generator)
        compared[name] = Compared(layer, name, estimator, network, data, operator, pairs)
    return compared, absent


def _leading_count(context: penchant.Context) -> int:
    """How many leading eigenvalues are compared."""
    options: CurvatureProxies = context.options
    if options.leading:
        return options.leading

    # the largest gap is looked for after up to 2 C of them
    return 2 * eigenvectors_compared(context) + 1


def _refuse_many_rows(context: penchant.Context, data: Samples) -> None:
    """The exact matrix is known by its Gram matrix, with a row for every sample and class."""
    outputs = context.data.outputs
    if data.kind.by_position:
        outputs = DRAWS if _labels_are_sampled(context, data) else outputs * data.labels.shape[1]
    rows = len(data.inputs) * max(outputs, 2)
    if rows > LARGEST:
        raise TooLargeError(
            f"exact spectra have at most {LARGEST} samples x classes, found {rows}; a smaller "
            "per_class has fewer"
        )


def _leading(A: Any, count: int, generator: torch.Generator) -> Eigenpairs:
    """Leading pairs; an operator may know products only."""
    if isinstance(A, LayerCurvature):
        return A.eigenpairs(count, generator=generator)

    # only products are known: small ones are decomposed, large ones go by Lanczos
    fewer = min(count, A.size)
    return leading_pairs(A, fewer, generator=generator)


def _single(context: penchant.Context, each: Compared) -> dict[str, Any]:
    """What a curvature is by itself: trace, leading eigenvalues, where their largest gap is."""
    generator = each.generator(context, "trace")
    trace = each.operator.trace(generator=generator)
    values = each.pairs.values

    # what an operator of few samples does not have is zero
    fewer = max(0, _leading_count(context) - len(values))
    missing = values.new_zeros(fewer)

    # fewer than three eigenvalues have no gap to speak of
    position, ratio = len(values), 1.0
    if len(values) > 2:
        floor = torch.finfo(values.dtype).tiny
        gap = largest_gap(values, first=2, last=2 * eigenvectors_compared(context), floor=floor)
        position, ratio = gap.position, gap.ratio
    return {
        f"trace-{each.name}": trace.value,
        f"leading-{each.name}": torch.cat([values, missing]),
        f"converged-{each.name}": bool(each.pairs.converged.all()),
        f"outliers-{each.name}": position,
        f"gap-{each.name}": ratio,
    }


def _missing(context: penchant.Context, name: str) -> dict[str, Any]:
    """The numbers of a missing curvature: NaN."""
    options: CurvatureProxies = context.options
    numbers: dict[str, Any] = {}
    for kind in ("trace", "outliers", "gap"):
        numbers[f"{kind}-{name}"] = math.nan
    count = _leading_count(context)
    numbers[f"leading-{name}"] = np.full(count, math.nan)
    numbers[f"spectrum-{name}"] = np.full(options.grid_points, math.nan)
    numbers[f"spectrum-{name}-stderr"] = None

    # nothing is left that might be uncertain
    numbers[f"converged-{name}"] = True
    numbers[f"exact-{name}"] = True
    if name == "exact":
        return numbers
    return numbers | _not_compared(name, permutations=0)


def _not_compared(name: str, *, permutations: int) -> dict[str, Any]:
    """The numbers of a proxy without a curvature to compare it with."""
    numbers: dict[str, Any] = {}
    for kind in ("error", "alignment", "overlap"):
        numbers[f"{kind}-{name}"] = math.nan
    unknown = np.full(permutations, math.nan)
    numbers[f"error-{name}-nulls"] = unknown
    return numbers


def _beside(context: penchant.Context, exact: Compared | None, proxy: Compared) -> dict[str, Any]:
    """How far a proxy is from the exact curvature, where that is there."""
    if exact is None:
        permutations = _permutations(context, proxy)
        return _not_compared(proxy.name, permutations=permutations)
    size, represented = exact.operator.size, proxy.operator.size
    if represented != size:
        raise penchant.Error(
            f"{proxy.name} represents {represented} of the {size} parameters of {EXACT}, so that "
            "they cannot be compared; blocks = layers compares layer by layer"
        )
    count = eigenvectors_compared(context)
    first = exact.pairs.vectors[:, :count]
    second = proxy.pairs.vectors[:, :count]

    # leading eigenspaces are compared whole: their order may differ
    again = _sampled_again(context, exact, exact.data)
    distance, alignment = _distance(exact.operator, proxy.operator, again)
    overlap = subspace_overlap(first, second)
    return {
        f"error-{proxy.name}": distance if math.isnan(distance) else max(0.0, distance),
        f"alignment-{proxy.name}": alignment,
        f"overlap-{proxy.name}": overlap,
        f"error-{proxy.name}-nulls": _nulls(context, exact, proxy),
        **_without_groups(context, exact, proxy),
    }


def _labels_are_sampled(context: penchant.Context, data: Samples) -> bool:
    """Whether there are too many positions x classes, so that labels are sampled."""
    return data.kind.by_position and data.labels[0].numel() * context.data.classes > MOST_OUTPUTS


def _sampled_again(context: penchant.Context, exact: Compared, data: Samples) -> Any:
    """The exact curvature by other labels sampled from the network; None where none are sampled."""
    if not _labels_are_sampled(context, data):
        return None
    others = context.scope("drawn again").estimators("curvature")
    (estimator,) = [each for each in others if each.name == EXACT]
    return estimator(exact.network, data)[exact.layer]


def _distance(G: Any, A: Any, again: Any) -> tuple[float, float]:
    """The relative distance of A from G, and their alignment.

    Sampled labels add noise to |G|^2 and to |G - A|^2. It is half the squared distance of two such
    G, and is subtracted.
    """
    if again is None:
        return G.frobenius_distance(A, relative=True), G.alignment(A)
    noise = G.frobenius_distance(again) ** 2 / 2
    square = G.squared_norm - noise
    if square <= 0:
        return math.nan, math.nan
    # negative where A is nearer than the noise: a zero would hide the spread over groups
    away = G.frobenius_distance(A) ** 2 - noise
    error = math.copysign(math.sqrt(abs(away) / square), away)
    return error, G.alignment(A) * math.sqrt(G.squared_norm / square)


def _without_groups(context: penchant.Context, exact: Compared, proxy: Compared) -> dict[str, Any]:
    """Errors and alignments with each group of sequences left out, for errors over sequences."""
    data = proxy.data
    if not data.kind.by_position or len(data.labels) < GROUPS:
        return {}
    group = torch.arange(len(data.labels), device=data.labels.device) % GROUPS
    replicates = []
    for number in range(GROUPS):
        some = data.select(group != number)
        G, A = (each.estimator(each.network, some)[each.layer] for each in (exact, proxy))
        replicates.append(_distance(G, A, _sampled_again(context, exact, some)))
    groups = torch.tensor(replicates, device="cpu", dtype=torch.float64)
    return {
        f"error-{proxy.name}-groups": groups[:, 0],
        f"alignment-{proxy.name}-groups": groups[:, 1],
    }


def _permutations(context: penchant.Context, proxy: Compared) -> int:
    """How often labels are permuted for a proxy: never where it does not use them."""
    by_class = getattr(proxy.operator, "by_class", False)
    if not by_class:
        return 0
    options: CurvatureProxies = context.options
    return options.permutations


def _nulls(context: penchant.Context, exact: Compared, proxy: Compared) -> Tensor:
    """Relative errors (permutations,) with labels permuted; none where labels are not used."""
    inputs, labels = proxy.data
    errors = []
    for number in range(_permutations(context, proxy)):
        generator = context.generator("permutation", number)
        order = torch.randperm(len(labels), generator=generator, device="cpu")
        order = order.to(labels.device)
        permuted = Samples(inputs, labels[order])

        # the same estimator with other classes
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
    densities: dict[str, Any] = {"grid": grid.centres}
    for name, measure in spectra.items():
        density, stderr = grid.density(measure)
        densities[f"spectrum-{name}"] = density
        densities[f"spectrum-{name}-stderr"] = stderr
        densities[f"exact-{name}"] = measure.variant == "exact"
    return densities


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


def exact_options(context: penchant.Context) -> GaussNewton:
    """Options of the exact curvature, whether or not it fits."""
    chosen = context.estimators("curvature")
    (exact,) = [each for each in chosen if each.name == EXACT]
    options: GaussNewton = exact.options
    return options


def _means(context: penchant.Context, some: Compared) -> dict[str, Any]:
    """Inner products of class means; none for the squared error, which has no classes."""
    options = exact_options(context)
    classes = context.data.classes
    labels = some.data.labels
    loss = loss_of(options, context, labels)
    if loss != "cross-entropy" or kind_of(labels).by_position or len(labels.unique()) < classes:
        return {}

    # inner products only, so that layers can be added up; other modules have no features
    linear = coverage(some.network, some.data.inputs).layers
    layers = list(linear) if some.layer == ALL else [some.layer]
    if not set(layers) <= set(linear):
        return {}
    products = []
    for layer in layers:
        product = mean_products(
            some.network, some.data, layer, classes=classes, bias=options.bias, batch=options.batch
        )
        products.append(product)
    means = add(products)
    return {f"means-{name}": getattr(means, name) for name in MEANS}
