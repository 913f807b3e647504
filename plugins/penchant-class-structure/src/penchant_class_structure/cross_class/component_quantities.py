"""Numbers about the components of G, with errors over samples and nulls of permuted classes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import penchant
import torch
from penchant_numerics.linear_algebra import (
    DENSE_UP_TO,
    Eigenpairs,
    Gap,
    largest_gap,
    leading_pairs,
    share_in_span,
    subspace_iteration,
)
from penchant_numerics.statistics import NO_NULL, Null, jackknife, null_of, p_value
from torch import Tensor

from penchant_class_structure.declarations.cross_class import CrossClass
from penchant_class_structure.shared import influence
from penchant_class_structure.shared.decomposition import Decomposition, knockout
from penchant_class_structure.shared.measured_network import permuted_labels, stderr_of
from penchant_class_structure.shared.sample_space import SampleSpace

COMPONENTS = ("class", "cross", "within", "diagonal")
GROUPS = 10  # of samples, left out one after another
_ITERATIONS = 3  # of the subspace of all samples, once a group is left out
_ROUNDING = 1e-12  # of the trace: less counts as zero
OVER = "samples"


@dataclass(frozen=True)
class Components:
    """A decomposition with the inner products of its means."""

    decomposition: Decomposition
    M: Tensor  # (C^2, C^2)
    images: Tensor | None = None  # K times the means, where K is a matrix

    @classmethod
    def of(cls, decomposition: Decomposition) -> Components:
        """Those of a decomposition whose K is a matrix."""
        images = decomposition.pair_images()
        M = decomposition.pair_products(images)
        return cls(decomposition, M, images)

    @property
    def totals(self) -> Tensor:
        """Traces (C,) of what the samples of each class put into G."""
        traces = self.decomposition.space.traces
        zeros = torch.zeros(self.decomposition.classes, device="cpu", dtype=torch.float64)

        # added up class by class: the contributions of classes are needed, too
        summed = zeros.index_add(0, self.decomposition.labels.cpu(), traces)
        return summed / len(traces)

    @property
    def by_class(self) -> Tensor:
        """Traces (C,) of what the samples of each class put into G_within."""
        C = self.decomposition.classes
        of_means = self.M.diagonal().reshape(C, C)
        return self.totals - of_means.sum(1)

    @property
    def within_average(self) -> Tensor:
        """Tr G_within,c / n_c (C,)."""
        counts = self.decomposition.weights.counts
        return self.by_class / counts.cpu()

    def rank(self, component: str) -> int:
        """Eigenvalues that a component made of means has."""
        C = self.decomposition.classes
        if component == "cross":
            return C * (C - 2)
        return C

    def trace(self, component: str) -> float:
        """The trace of a component."""
        if component == "within":
            return float(self.by_class.sum())
        rank = self.rank(component)
        values = self.decomposition.component_values(self.M, (component,), rank)

        # rounding makes negative ones, which no second moment has
        return float(values.clamp(min=0).sum())

    def ratio(self, component: str) -> float | None:
        """The mean eigenvalue of a component over Tr G_within; None where one of them is zero.

        Both are means over samples, as G is: more of the same samples change nothing.
        """
        within = float(self.by_class.sum())
        total = float(self.decomposition.space.traces.mean())
        empty = within <= _ROUNDING * total
        rank = self.rank(component)
        if empty or not rank:
            return None

        return self.trace(component) / rank / within


def component_quantities(
    components: Components,
    untrained: list[Components],
    options: CrossClass,
    context: penchant.Context,
) -> dict[str, penchant.Quantity]:
    """Traces of G and of its components, and how far they stand out of the bulk.

    Args:
        components: Of the network.
        untrained: Of other networks on the same samples, at initialisation: the null of ratios,
            which have no scale; permuted classes are, where there are none.
        options: The probe's.
        context: For random numbers and warnings.
    """
    space, labels = components.decomposition.space, components.decomposition.labels

    # what samples contribute, and what permuted classes would give
    errors = contributions_of(components)
    nulls = permuted_components(components, options, context)
    total = penchant.Quantity(
        float(components.totals.sum()),
        stderr=stderr_of(space.traces, labels),
        over=OVER,
        count=len(labels),
    )
    quantities = {"trace-total": total}

    # each component, beside the same of permuted classes
    for component in COMPONENTS:
        null = [each.trace(component) for each in nulls]
        quantities[f"trace-{component}"] = _quantity(
            components.trace(component), errors.get(component), null, labels
        )
    for name, component in (("outliers-to-bulk", "class"), ("mini-bulk-to-bulk", "cross")):
        # how far outliers and mini-bulk stand out of the bulk
        ratio = components.ratio(component)
        if ratio is None:
            continue
        error = _ratio_contributions(components, errors, component) if errors else None
        ratios = [each.ratio(component) for each in untrained or nulls]
        known = [value for value in ratios if value is not None]
        quantities[name] = _quantity(ratio, error, known, labels)
    if "outliers-to-bulk" not in quantities:
        context.warn("classes have too few samples to vary within: ratios to the bulk are left out")
    return quantities


def _quantity(
    value: float, contributions: Tensor | None, null: list[float], labels: Tensor
) -> penchant.Quantity:
    """A number of these samples: with its error where contributions are known, else exact."""
    null_fields = _same_samples(value, null) if null else NO_NULL
    # without contributions it is a number of these samples, and exact for them
    stderr = None if contributions is None else stderr_of(contributions, labels)
    if stderr is None:
        return penchant.Quantity(value, exact=True, **null_fields)
    return penchant.Quantity(value, stderr=stderr, over=OVER, count=len(labels), **null_fields)


def _same_samples(value: float, draws: list[float]) -> Null:
    """The null of a positive number by permuted classes, or other networks, on the same samples.

    Without an effect only these vary: the error over samples, which all of them share, does not
    enter. Logarithms make what is skewed nearly normal.
    """
    fields = null_of(draws)
    if len(draws) < 2:
        return fields
    values = np.array([value, *draws])
    if values.max() <= 0:
        return fields
    # what is zero to rounding is all the same
    positive = np.log(np.maximum(values, _ROUNDING * values.max()))
    spread = positive[1:].std(ddof=1) * math.sqrt(1 + 1 / len(draws))
    p = p_value(positive[0] - positive[1:].mean(), spread, len(draws) - 1)
    return {**fields, "p": p}


def contributions_of(components: Components) -> dict[str, Tensor]:
    """What samples contribute to the traces of components, where K is a matrix."""
    if components.images is None:
        return {}
    return influence.of_components(components.decomposition, components.images, components.M)


def _ratio_contributions(
    components: Components, errors: dict[str, Tensor], component: str
) -> Tensor:
    """Contributions to a ratio to the bulk."""
    above = errors[component] / components.rank(component)
    return influence.of_ratio(above, errors["within"])


def permuted_components(
    components: Components, options: CrossClass, context: penchant.Context
) -> list[Components]:
    """Components of permuted classes, where K is a matrix."""
    if components.images is None:
        return []
    space = components.decomposition.space
    components_of_each = []
    for number in range(options.permutations):
        # G stays as it is: only which samples belong together changes
        labels = permuted_labels(components.decomposition.labels, number, context)
        decomposition = Decomposition.of(space, labels)
        components_of_each.append(Components(decomposition, decomposition.pair_products()))
    return components_of_each


def gap_quantities(
    values: Tensor, leading: Eigenpairs, labels: Tensor, classes: int
) -> dict[str, penchant.Quantity]:
    """How many eigenvalues stand out, and how far.

    Args:
        values: Eigenvalues of G, descending, as many as are known.
        leading: Its leading pairs, whose vectors tell what samples contribute.
        labels: Classes (n,) of the samples.
        classes: C.
    """
    C = classes
    gap = largest_gap(values, first=min(2, len(values) - 1), last=2 * C)
    contributions = influence.of_eigenvalues(leading.values, leading.vectors, C)

    # errors of ratios of neighbours, from those of both
    ratio = _gap_contributions(contributions, gap.position)
    margin = None
    second = _second_gap(values, gap, C)
    if ratio is not None and second is not None:
        other = _gap_contributions(contributions, second)
        margin = None if other is None else influence.of_ratio(ratio, other)
    quantities = {
        "outliers": penchant.Quantity(gap.position, exact=True),
        "gap": _quantity(gap.ratio, ratio, [], labels),
        "gap-margin": _quantity(gap.margin, margin, [], labels),
    }
    if second is not None:
        quantities["outliers-runner-up"] = penchant.Quantity(second, exact=True)
    # the second gap is searched where all eigenvalues are known
    if len(values) > max(2 * C + 2, len(leading.values)):
        mini = largest_gap(values, first=2 * C + 1, last=2 * C**2)
        quantities["outliers-cross"] = penchant.Quantity(mini.position, exact=True)
        quantities["outliers-cross-gap"] = penchant.Quantity(mini.ratio, exact=True)
    return quantities


def _gap_contributions(contributions: Tensor, position: int) -> Tensor | None:
    """Contributions (n,) to the ratio of neighbours; None where the pairs are not known."""
    # a gap beyond the pairs that were found has no error
    if position >= len(contributions):
        return None
    return influence.of_ratio(contributions[position - 1], contributions[position])


def _second_gap(values: Tensor, gap: Gap, classes: int) -> int | None:
    """The position of the next largest gap of the window."""
    positive = int((values > 0).sum())
    first = min(2, len(values) - 1)
    last = min(2 * classes, positive - 1)
    best = None
    largest = 0.0
    for position in range(first, last + 1):
        if position == gap.position:
            continue
        above = values[position - 1]
        ratio = float(above / values[position])
        if ratio > largest:
            best, largest = position, ratio
    return best


def largest_eigenvalue(
    leading: Eigenpairs, labels: Tensor, classes: int, null: list[float] | None = None
) -> penchant.Quantity:
    """The largest eigenvalue, with its error over samples.

    Args:
        leading: Leading pairs.
        labels: Classes (n,) of the samples.
        classes: C.
        null: The same without an effect.
    """
    contributions = influence.of_eigenvalues(leading.values, leading.vectors, classes)
    largest = float(leading.values[0])
    return _quantity(largest, contributions[0], null or [], labels)


def attribution(
    components: Components, leading: Eigenpairs, options: CrossClass, context: penchant.Context
) -> dict[str, penchant.Quantity]:
    """Are the outliers made by class means? Beside them, what means of permuted classes do."""
    decomposition = components.decomposition
    space, C = decomposition.space, decomposition.classes

    # the null first: means of permuted classes
    shares, largest = [], []
    for number in range(options.permutations):
        labels = permuted_labels(decomposition.labels, number, context)
        permuted = Decomposition.of(space, labels)
        shares.append(_class_share(permuted, leading))
        largest.append(float(_without_class(permuted, options, context).values[0]))

    # then the classes themselves
    share = _class_share(decomposition, leading)
    null_fields = _same_samples(share, shares) if shares else NO_NULL
    stderr, groups = _share_stderr(decomposition, leading)
    if stderr is None:
        of_share = penchant.Quantity(share, exact=True, **null_fields)
    else:
        over = f"{OVER} (jackknife)"
        of_share = penchant.Quantity(share, stderr=stderr, over=over, count=groups, **null_fields)

    # does the largest outlier go with the class means?
    left = _without_class(decomposition, options, context)
    return {
        "class-share": of_share,
        "largest-without-class": largest_eigenvalue(left, decomposition.labels, C, largest),
    }


def _class_share(decomposition: Decomposition, leading: Eigenpairs) -> float:
    """The share of the C leading eigenvectors of G in the span of the class means."""
    C = decomposition.classes

    # class means and eigenvectors, both seen from sample space
    rows = decomposition.class_rows()
    products = decomposition.space.inner(rows)
    return share_in_span(leading.values[:C], leading.vectors.T[:C], rows, products)


def _without_class(
    decomposition: Decomposition, options: CrossClass, context: penchant.Context
) -> Eigenpairs:
    """The largest eigenvalue that is left without the class means."""
    return leading_pairs(
        knockout(decomposition, "class", options.knockout),
        1,
        generator=context.generator("knockout"),
        products=options.products,
        dense_up_to=DENSE_UP_TO if decomposition.space.exact else 0,
    )


def _share_stderr(decomposition: Decomposition, leading: Eigenpairs) -> tuple[float | None, int]:
    """The jackknife over groups of samples, where K is a matrix; and how many groups."""
    space, labels = decomposition.space, decomposition.labels
    smallest = int(decomposition.weights.counts.min())

    # every class keeps samples when a group is left out
    groups = min(GROUPS, smallest)
    if not space.exact or groups < 2:
        return None, 0
    member = _members(labels, groups)
    replicates = []
    for group in range(groups):
        others = torch.nonzero(member != group)[:, 0]
        replicates.append(_share_of(space, labels, others, leading))
    return jackknife(replicates), groups


def _members(labels: Tensor, groups: int) -> Tensor:
    """The group (n,) of each sample: classes are dealt out evenly."""
    # dealt in turn, so that groups have the same classes
    member = torch.zeros_like(labels)
    for label in labels.unique():
        own = labels == label
        member[own] = torch.arange(int(own.sum()), device=labels.device) % groups
    return member


def _share_of(space: SampleSpace, labels: Tensor, others: Tensor, leading: Eigenpairs) -> float:
    """The share with some samples only; their subspace is not far from that of all."""
    C = space.outputs.shape[1]
    fewer = space.select(others)
    decomposition = Decomposition.of(fewer, labels[others])
    shape = (-1, C, leading.vectors.shape[1])

    # eigenvectors of all samples, without the entries of those left out
    start = leading.vectors.reshape(shape)[others].flatten(0, 1)
    pairs = subspace_iteration(
        fewer.gram,
        min(C, fewer.rows),
        generator=torch.Generator("cpu").manual_seed(0),
        iterations=_ITERATIONS,
        extra=max(2, start.shape[1] - C),
        start=start,
    )
    return _class_share(decomposition, pairs)
