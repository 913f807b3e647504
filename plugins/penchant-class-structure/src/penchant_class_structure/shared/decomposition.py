"""G = G_class + G_cross + G_within + G_{c=c'}, as orthogonal projections of sample space.

With G = V V^T (`sample_space`), the cross-class mean is -sqrt(w_{c,c'}) g_{c,c'} = V a_{c,c'},
where the unit vector a_{c,c'} holds sqrt(pi_{i,c,c'}) at the entries (i, c') of the samples of
class c. These vectors have disjoint supports, so they are orthonormal, and so are the class vectors
sum_{c' != c} sqrt(pi_{c,c'}) a_{c,c'}. Each component is V P V^T for a projection P of sample
space: on the class vectors, on the rest of the span of a_{c,c'} with c' != c, on the a_{c,c}, and
on what is orthogonal to all means. The four add up to one. So components and knockouts have the
spectra of P K P: nothing of the size of the parameters is stored.

Reference: Papyan, JMLR 2020, section 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from penchant_numerics.device import memory
from penchant_numerics.linear_algebra import Operator
from torch import Tensor, nn

from penchant_class_structure.shared.class_means import (
    CrossClassWeights,
    cross_class_weights,
    mean_gradients,
)
from penchant_class_structure.shared.sample_space import SampleSpace, inner_products

COMPONENTS = ("class", "cross", "within", "diagonal")
MEANS_SHARE = 0.5  # of the budget, for means that are held at once


class Decomposition:
    """Projections of sample space, on rows (k, n C), and the inner products of all means."""

    def __init__(self, space: SampleSpace, weights: CrossClassWeights) -> None:
        self.space = space
        self.weights = weights
        self.labels = weights.labels
        self.classes = len(weights.pairs)

        # roots of weights, as rows of sample space have them
        dtype, device = space.gram.dtype, space.gram.device
        self.within = weights.within().sqrt().to(device, dtype)  # (n, C), sqrt(pi_{i,c,c'})
        self.across = weights.across().sqrt().to(device, dtype)  # (C, C), sqrt(pi_{c,c'})

    @classmethod
    def of(cls, space: SampleSpace, labels: Tensor) -> Decomposition:
        """The decomposition for some labels (n,), true or permuted."""
        weights = cross_class_weights(space.outputs, labels)
        return cls(space, weights)

    def coefficients(self, rows: Tensor) -> Tensor:
        """Inner products (k, C, C) of rows with the a_{c,c'}."""
        # sums over the samples of each class
        weighted = rows.reshape(len(rows), -1, self.classes) * self.within
        shape = (len(rows), self.classes, self.classes)
        zeros = torch.zeros(shape, device=rows.device, dtype=rows.dtype)
        return zeros.index_add(1, self.labels, weighted)

    def spread(self, coefficients: Tensor) -> Tensor:
        """Rows (k, n C) of the combinations of a_{c,c'} with coefficients (k, C, C)."""
        by_sample = coefficients[:, self.labels]  # (k, n, C)
        return (by_sample * self.within).flatten(1)

    def class_rows(self) -> Tensor:
        """The class vectors (C, n C): V times row c is -sqrt(w_c) g_c."""
        units = torch.eye(self.classes, device=self.across.device, dtype=self.across.dtype)
        return self.spread(units[:, :, None] * self.across)

    def cross_rows(self) -> Tensor:
        """Rows that V takes to all g_{c,c'} - g_c with c' != c, times the root of its weight."""
        off = ~torch.eye(self.classes, device=self.across.device, dtype=torch.bool)
        return self.project(self.spread(self._units()[off.flatten()]), "cross")

    def diagonal_rows(self) -> Tensor:
        """The a_{c,c} (C, n C)."""
        own = torch.eye(self.classes, device=self.across.device, dtype=torch.bool)
        return self.spread(self._units()[own.flatten()])

    def mean_row(self) -> Tensor:
        """A row (1, n C) that V takes to a multiple of the global mean g_G = Ave_c g_c."""
        # V takes a class vector to sqrt(w_c) g_c: the root is taken back
        tiny = torch.finfo(torch.float64).tiny
        scale = self.weights.classes.clamp(min=tiny).rsqrt()
        row = scale.to(self.across) @ self.class_rows()
        unit: Tensor = (row / row.norm())[None]
        return unit

    def project(self, rows: Tensor, component: str) -> Tensor:
        """The component of rows (k, n C) in a subspace of sample space."""
        coefficients = self.coefficients(rows)
        if component == "within":
            return rows - self.spread(coefficients)
        return self.spread(_component(coefficients, component, self.across))

    def pair_images(self) -> Tensor:
        """K a_{c,c'} as rows (C^2, n C), in the order (c, c')."""
        rows = self.spread(self._units())
        return self.space.gram.multiply_rows(rows)

    def pair_products(self, images: Tensor | None = None) -> Tensor:
        """M (C^2, C^2): inner products of all sqrt(w_{c,c'}) g_{c,c'}, in the order (c, c').

        Args:
            images: What `pair_images` gave, where it is known already.
        """
        size = self.classes**2

        # <a, K b> for all pairs of means
        known = self.pair_images() if images is None else images
        M = self.coefficients(known).reshape(size, size).double().cpu()
        return (M + M.T) / 2

    def component_values(self, M: Tensor, components: tuple[str, ...], count: int) -> Tensor:
        """The `count` largest eigenvalues, descending, of the sum of some components.

        Args:
            M: Inner products of the means, by `pair_products` or `streamed_pair_products`.
            components: Which components.
            count: How many eigenvalues.
        """
        size = self.classes**2
        shape = (size, self.classes, self.classes)
        units = torch.eye(size, device="cpu", dtype=M.dtype).reshape(shape)
        across = self.across.to("cpu", M.dtype)

        # components are projections in the span of the means, too
        total = torch.zeros_like(units)
        for component in components:
            total = total + _component(units, component, across)
        P = total.reshape(size, size)
        eigenvalues: Tensor = torch.linalg.eigvalsh(P @ M @ P.T).flip(0)[:count]
        return eigenvalues

    def _units(self) -> Tensor:
        """Coefficients (C^2, C, C) of one a_{c,c'} each."""
        size = self.classes**2
        gram = self.space.gram
        units = torch.eye(size, device=gram.device, dtype=gram.dtype)
        return units.reshape(size, self.classes, self.classes)


def _component(coefficients: Tensor, component: str, across: Tensor) -> Tensor:
    """The coefficients (k, C, C) of a vector's component in a subspace of the span of all means."""
    own = torch.eye(len(across), device=coefficients.device, dtype=coefficients.dtype)
    if component == "diagonal":
        return coefficients * own

    # what is along the class vector is the class's, the rest is cross-class
    along = (coefficients * across).sum(2, keepdim=True) * across
    return along if component == "class" else coefficients * (1 - own) - along


def streamed_pair_products(
    network: nn.Module, inputs: Tensor, weights: CrossClassWeights, *, held: int | None = None
) -> Tensor:
    """M without K, by gradients class after class.

    Args:
        network: The classifier.
        inputs: Inputs (n, ...).
        weights: Weights of the labels.
        held: Bytes of means that are held at once, a share of the budget by default; those of later
            classes are computed again for each group of classes that fits, and those of a class
            that does not fit as a whole, some parameters at a time.

    Returns:
        The inner products (C^2, C^2), in double precision.
    """
    if held is None:
        held = int(MEANS_SHARE * memory.available(inputs.device))
    classes = len(weights.pairs)
    M = None
    numbers = held // (classes * inputs.element_size())  # of one mean of a class
    for names, size in _together(network, numbers // 2):
        # classes whose means fit in memory together, and one that meets them
        width = max(1, numbers // size - 1)
        chunk = _products_of_means(network, inputs, weights, names, width)
        M = chunk if M is None else M + chunk
    assert M is not None
    return M


def _together(network: nn.Module, room: int) -> Iterator[tuple[list[str], int]]:
    """Parameters in their order, as many at a time as have that many numbers, and how many.

    A single one is never divided.
    """
    names: list[str] = []
    size = 0
    for name, value in network.named_parameters():
        if names and size + value.numel() > room:
            yield names, size
            names, size = [], 0
        names.append(name)
        size += value.numel()
    yield names, size


def _products_of_means(
    network: nn.Module,
    inputs: Tensor,
    weights: CrossClassWeights,
    parameters: Sequence[str],
    width: int,
) -> Tensor:
    """Inner products (C^2, C^2) of the means in some parameters, of `width` classes at a time."""
    classes = len(weights.pairs)
    M = torch.zeros(classes, classes, classes, classes, device="cpu", dtype=torch.float64)
    for start in range(0, classes, width):
        held: dict[int, Tensor] = {}
        for c, rows in _columns(network, inputs, weights, range(start, classes), parameters):
            if c < start + width:
                held[c] = rows

            # later classes meet those that are held
            for other, theirs in held.items():
                M[other, :, c] = inner_products(theirs, rows)
                M[c, :, other] = M[other, :, c].T
    return M.reshape(classes**2, classes**2)


def _columns(
    network: nn.Module,
    inputs: Tensor,
    weights: CrossClassWeights,
    classes: range,
    parameters: Sequence[str],
) -> Iterator[tuple[int, Tensor]]:
    """Rows sqrt(w_{c,c'}) g_{c,c'} (C, parameters), class after class."""
    gradients = mean_gradients(
        network, inputs, weights.labels, weights=weights, classes=classes, parameters=parameters
    )
    for c, means in gradients:
        yield c, means.mul_(weights.pairs[c].sqrt().to(means)[:, None])


class WithoutComponent(Operator):
    """(I - P) K (I - P): the spectrum of G less one of its components (subtraction knockout)."""

    def __init__(self, decomposition: Decomposition, component: str) -> None:
        gram = decomposition.space.gram
        super().__init__(gram.size, device=gram.device, dtype=gram.dtype)
        self.gram = gram
        self._decomposition = decomposition
        self._component_name = component

    def _rows(self, rows: Tensor) -> Tensor:
        images = self.gram.multiply_rows(self._outside(rows))
        return self._outside(images)

    def _outside(self, rows: Tensor) -> Tensor:
        return rows - self._decomposition.project(rows, self._component_name)


class WithoutSpan(Operator):
    """V^T (I - B B^+) V, B = V u: the spectrum of G with the range of B taken out (projection).

    In sample space that is K - K u (u^T K u)^+ u^T K, for rows u (r, n C).
    """

    def __init__(self, gram: Operator, u: Tensor) -> None:
        super().__init__(gram.size, device=gram.device, dtype=gram.dtype)
        self.gram = gram
        images = gram.multiply_rows(u).double()  # (r, n C), u K
        values, vectors = torch.linalg.eigh(u.double() @ images.T)

        # rows may be dependent: directions of no length are none
        rounding = max(u.shape) ** 0.5 * 8 * torch.finfo(gram.dtype).eps
        nonzero = values > rounding * values[-1]
        self.rank = int(nonzero.sum())
        root = (vectors[:, nonzero] * values[nonzero].rsqrt()).T @ images
        self._root = root.to(gram.dtype)  # R^T R is what is taken away

    def _rows(self, rows: Tensor) -> Tensor:
        images = self.gram.multiply_rows(rows)
        taken = (rows @ self._root.T) @ self._root
        left: Tensor = images - taken
        return left


def knockout(decomposition: Decomposition, component: str, how: str) -> Operator:
    """K without a component of G.

    Args:
        decomposition: Of G.
        component: `class`, `cross`, `diagonal`, or `mean` for the global mean of gradients.
        how: `subtraction` or `projection`; the global mean is a direction, so always projected out.
    """
    gram = decomposition.space.gram
    if component == "mean":
        return WithoutSpan(gram, decomposition.mean_row())
    if how == "subtraction":
        return WithoutComponent(decomposition, component)
    rows = {
        "class": decomposition.class_rows,
        "cross": decomposition.cross_rows,
        "diagonal": decomposition.diagonal_rows,
    }
    return WithoutSpan(gram, rows[component]())
