"""Log spectra of G and of its knockouts, on one grid."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from penchant_numerics.linear_algebra import (
    DENSE_UP_TO,
    Dense,
    Density,
    Operator,
    Quadrature,
    exact_quadrature,
    log_densities,
    log_density,
    quadrature,
)
from torch import Tensor

from penchant_class_structure.shared.decomposition import Decomposition, knockout

KNOCKOUTS = ("mean", "class", "cross", "diagonal")

Generators = Callable[..., torch.Generator]


@dataclass(frozen=True)
class Smoothing:
    """How spectra are found and smoothed."""

    steps: int  # of Lanczos
    starts: int
    points: int
    kappa: float
    epsilon: float  # added to eigenvalues before the logarithm

    def density(self, measure: Quadrature) -> Density:
        """The log density of one spectrum, on a grid of its own."""
        return log_density(measure, epsilon=self.epsilon, points=self.points, kappa=self.kappa)


def measure_of(
    K: Operator, size: int, smoothing: Smoothing, generator: torch.Generator
) -> Quadrature:
    """The spectral measure on R^size of an operator in sample space.

    Args:
        K: The operator.
        size: Parameters; the zeros that G has more than K are added by count.
        smoothing: Steps and start vectors of Lanczos.
        generator: For start vectors.

    Returns:
        The measure: exact for small matrices, else by Lanczos.
    """
    zeros = max(0, size - K.size)

    # a small matrix is decomposed: nothing is smoother than the truth
    if K.size <= DENSE_UP_TO and _is_matrix(K):
        values = torch.linalg.eigvalsh(K.dense(block=K.size).double()).flip(0)
        positive = values[:size].clamp(min=0)
        return exact_quadrature(positive, zeros=zeros, steps=smoothing.steps)
    measure = quadrature(
        K,
        generator=generator,
        steps=smoothing.steps,
        starts=smoothing.starts,
        zeros=zeros,
        variant="full",
    )
    return measure if size >= K.size else _fewer_zeros(measure, size)


def _is_matrix(K: Operator) -> bool:
    return isinstance(getattr(K, "gram", K), Dense)


def _fewer_zeros(spectrum: Quadrature, size: int) -> Quadrature:
    """V^T V has more rows than V V^T: the zeros that it has more are taken away by count."""
    extra = (spectrum.size - size) / spectrum.size
    weights = []
    for nodes, each in zip(spectrum.nodes, spectrum.weights):
        # the node of zeros holds those that are too many
        smallest = nodes.abs().argmin()
        fewer = each.clone()
        fewer[smallest] = (fewer[smallest] - extra).clamp(min=0)
        weights.append(fewer / fewer.sum())
    return replace(spectrum, weights=tuple(weights), size=size)


def log_spectra(
    decomposition: Decomposition,
    *,
    spectrum: Tensor | None,
    pair_values: Tensor,
    how: str,
    smoothing: Smoothing,
    generators: Generators,
) -> dict[str, Density]:
    """Log densities of G (`total`) and of G without each of its components, on one grid.

    Args:
        decomposition: Of G.
        spectrum: All eigenvalues of G that are not zero, where they are known.
        pair_values: Eigenvalues of the sum of all means, which is G without G_within.
        how: The knockout: `subtraction` or `projection`.
        smoothing: How spectra are found and smoothed.
        generators: Makes a generator from keys.

    Returns:
        Densities by name: `total`, `without-mean`, `without-class`, ...
    """
    size = decomposition.space.size
    steps = smoothing.steps

    # G itself: exact where all its eigenvalues are known
    if spectrum is None:
        gram = decomposition.space.gram
        total = measure_of(gram, size, smoothing, generators("density", "total"))
    else:
        total = exact_quadrature(spectrum, zeros=size - len(spectrum), steps=steps)
    measures = {"total": total}
    for component in KNOCKOUTS:
        # what is left without each component
        left = knockout(decomposition, component, how)
        generator = generators("density", component)
        measures[f"without-{component}"] = measure_of(left, size, smoothing, generator)

    # without what is within classes G has the eigenvalues of its means, which are known
    means = pair_values.clamp(min=0)[:size]
    zeros = max(0, size - len(means))
    measures["without-within"] = exact_quadrature(means, zeros=zeros, steps=steps)
    return log_densities(
        measures, epsilon=smoothing.epsilon, points=smoothing.points, kappa=smoothing.kappa
    )
