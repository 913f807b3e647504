"""Spectra of a layer's moments, of their class components, and after projection knockouts.

Knockouts: what is left of a matrix A without the range of B, (I - B B^+) A (I - B^+ B).

Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020,
section 3.
"""

import torch
from torch import Tensor

from penchant_class_structure.layer_structure.layer_moments import ClassSums, LayerMoments

_ZERO = 1e-10  # of the largest eigenvalue: smaller ones are rounding


def descending(values: Tensor, count: int) -> Tensor:
    """The `count` largest, rounding below zero cut off, filled up with zeros."""
    ordered = values.sort(descending=True).values
    largest = ordered.clamp(min=0)[:count]

    # a small matrix has fewer
    missing = count - len(largest)
    zeros = largest.new_zeros(missing)
    return torch.cat([largest, zeros])


def component_values(rows: Tensor, count: int) -> Tensor:
    """Eigenvalues of sum_j r_j r_j^T for rows (m, d)."""
    # both products have the same eigenvalues but zeros: the smaller one is decomposed
    few = len(rows) <= rows.shape[1]
    small = rows @ rows.T if few else rows.T @ rows
    values = torch.linalg.eigvalsh(small)
    return descending(values, count)


def without(moment: Tensor, rows: Tensor) -> Tensor:
    """All eigenvalues, ascending, of a moment (d, d) with the span of rows (m, d) projected out."""
    basis = range_basis(rows.T)

    # from the left, from the right, and symmetric again
    left = moment - basis @ (basis.T @ moment)
    left = left - (left @ basis) @ basis.T
    symmetric = (left + left.T) / 2
    eigenvalues: Tensor = torch.linalg.eigvalsh(symmetric)
    return eigenvalues


def feature_rows(sums: ClassSums) -> Tensor:
    """Rows (C, d) of the class component of Ave h h^T: sqrt(n_c / N) h_c."""
    shares = sums.counts / sums.counts.sum()
    roots = shares.sqrt()[:, None]
    return roots * sums.feature_means()


def error_rows(sums: ClassSums) -> tuple[Tensor, Tensor]:
    """Rows of the class (C, o) and cross-class (C (C - 1), o) components of the errors."""
    means, cross = sums.error_means()
    off = ~torch.eye(len(means), device="cpu", dtype=torch.bool)

    # a class weighs what its pairs with other classes weigh
    class_weights = (sums.weights * off).sum(1)
    class_rows = class_weights.sqrt()[:, None] * means

    # cross-class means as they differ from their class's
    roots = sums.weights.sqrt()
    cross_rows = roots[:, :, None] * (cross - means[:, None])
    return class_rows, cross_rows[off]


def separation(component: Tensor, left: Tensor) -> float:
    """The smallest non-zero eigenvalue of a class component over the largest after its knockout.

    NaN if the knockout leaves zeros only.
    """
    # a class component of rank C - 1 has a zero that only rounding fills
    largest = component.max()
    positive = component[component > _ZERO * largest]
    rest = float(left.max())
    if rest <= _ZERO * float(largest):
        return float("nan")
    return float(positive.min()) / rest


def whitening(component: Tensor) -> float:
    """The second largest over the smallest non-zero eigenvalue of a class component.

    NaN with fewer than two.
    """
    positive = component[component > _ZERO * component.max()]
    if len(positive) < 2:
        return float("nan")
    # the largest belongs to the global mean, which says nothing about classes
    return float(positive[1] / positive[-1])


def feature_spectra(layer: LayerMoments, count: int) -> dict[str, Tensor | float]:
    """Spectra of what a layer is given, `count` eigenvalues each."""
    # the class component, and what its span leaves
    rows = feature_rows(layer.sums[0])
    left = without(layer.features, rows)
    component = component_values(rows, len(rows))
    mean = layer.sums[0].feature_means().mean(0, keepdim=True)
    return {
        "features": descending(torch.linalg.eigvalsh(layer.features), count),
        "features-class": component,
        "features-without-class": descending(left, count),
        "features-without-mean": descending(without(layer.features, mean), count),
        "separation-features-by-layer": separation(component, left),
        "whitening-features-by-layer": whitening(component),
    }


def error_spectra(layer: LayerMoments, count: int) -> dict[str, Tensor | float]:
    """Spectra of a layer's backpropagated errors, `count` eigenvalues each."""
    class_rows, cross_rows = error_rows(layer.sums[0])
    C = len(class_rows)
    component = component_values(class_rows, C)
    left = without(layer.errors, class_rows)

    # class means, then cross-class means too
    both = torch.cat([class_rows, cross_rows])
    mean = layer.sums[0].error_means()[0].mean(0, keepdim=True)
    return {
        "errors": descending(torch.linalg.eigvalsh(layer.errors), count),
        "errors-class": component,
        "errors-means": component_values(both, C * (C - 1)),
        "errors-without-class": descending(left, count),
        "errors-without-class-cross": descending(without(layer.errors, both), count),
        "errors-without-mean": descending(without(layer.errors, mean), count),
        "separation-errors-by-layer": separation(component, left),
        "whitening-errors-by-layer": whitening(component),
    }


def weight_spectra(
    layer: LayerMoments, count: int, weight_decay: float
) -> dict[str, Tensor | float]:
    """Singular values of the weights, of their class component, and of what its knockout leaves.

    W = -(1 / eta) Ave delta h^T at a stationary point; its class component is that of the means
    of delta and h.
    """
    sums = layer.sums[0]

    # without weight decay the class component is known up to a factor
    scale = -1 / weight_decay if weight_decay else -1.0
    shares = sums.counts / sums.counts.sum()
    errors = sums.own / sums.counts[:, None]
    # the probabilities of a sample add up to one at each position
    positions = float(sums.weights.sum())
    component = scale * positions * (errors * shares[:, None]).T @ sums.feature_means()  # (o, d)

    # singular vectors of the class component, on both sides
    left = knock_out_matrix(layer.weight, component)
    spectra: dict[str, Tensor | float] = {
        "weights": descending(torch.linalg.svdvals(layer.weight), count),
        "weights-class": descending(torch.linalg.svdvals(component), len(shares)),
        "weights-without-class": descending(torch.linalg.svdvals(left), count),
    }
    if weight_decay:
        # how far the training is from a stationary point
        difference = layer.weight - scale * layer.gradient
        spectra["stationarity-by-layer"] = float(difference.norm() / layer.weight.norm())
    return spectra


def null_draws(layer: LayerMoments) -> dict[str, list[float]]:
    """Separations and whitenings of permuted classes, one for each permutation."""
    draws: dict[str, list[float]] = {}
    moments = {"features": layer.features, "errors": layer.errors}
    for name, moment in moments.items():
        separations = []
        whitenings = []

        # the first labelling is the true one
        for sums in layer.sums[1:]:
            rows = feature_rows(sums) if name == "features" else error_rows(sums)[0]
            component = component_values(rows, len(rows))
            left = without(moment, rows)
            separations.append(separation(component, left))
            whitenings.append(whitening(component))
        draws[f"separation-{name}"] = separations
        draws[f"whitening-{name}"] = whitenings
    return draws


_ROUNDINGS = 8  # relative size of singular values that are zero but for rounding, in roundings


def range_basis(V: Tensor) -> Tensor:
    """Orthonormal columns (size, rank) that span those of V (size, r).

    The rank counts singular values above rounding.

    >>> range_basis(torch.tensor([[1.0, 2.0], [1.0, 2.0]], device="cpu")).shape
    torch.Size([2, 1])
    """
    # the tall side is seen once; what decides the rank is (r, r)
    Q, R = torch.linalg.qr(V)
    U, singular, _ = torch.linalg.svd(R)
    largest = singular.max()
    if not largest > 0:
        empty: Tensor = Q[:, :0]
        return empty

    # a root, because rounding errors add up at random
    rounding = torch.finfo(V.dtype).eps
    tolerance = max(V.shape) ** 0.5 * _ROUNDINGS * rounding
    counted = singular > tolerance * largest
    rank = int(counted.sum())
    basis: Tensor = Q @ U[:, :rank]
    return basis


def knock_out_matrix(A: Tensor, B: Tensor) -> Tensor:
    """(I - B B^+) A (I - B^+ B) for rectangular A and B (m, n).

    B's left and right singular vectors are projected out.
    """
    left = range_basis(B)
    right = range_basis(B.T)
    # one side after the other
    A = A - left @ (left.T @ A)
    return A - (A @ right) @ right.T
