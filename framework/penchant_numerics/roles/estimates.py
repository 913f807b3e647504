"""What an estimator of each role returns.

| role                 | answer                                            |
|----------------------|---------------------------------------------------|
| `directions`         | `Directions`                                      |
| `curvature`          | `{layer name: operator}`, each a `LayerCurvature` |
| `mutual-information` | `Information`                                     |

Warnings and conventions of an answer reach the result by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from penchant_numerics.device import memory
from torch import Tensor

if TYPE_CHECKING:
    from penchant_numerics.linear_algebra import Eigenpairs, TraceEstimate


@dataclass(frozen=True)
class Directions:
    """A symmetric second moment over the inputs of networks, or its leading pairs.

    Args:
        eigenvalues: Eigenvalues (k,), descending.
        vectors: Their eigenvectors as orthonormal rows (k, D).
        trace: The trace of the whole moment, also where only leading pairs are known.
        trace_stderr: Its standard error over networks; None where it is not known.
        networks: How many networks the moment is over.
        matrix: The moment (D, D), where it was formed.
        squared_norms: Squared norms (networks,) of the vectors it is the moment of, where there is
            one vector per network: from these comes the isotropic null.
        residuals: Residuals (k,) of pairs that were found by iteration.
        jackknife: Eigenvalues (groups, k) with one group of networks left out at a time.
        groups: Moments (groups, D, D) of independent groups of the networks, of nearly equal size.
            The norm of `matrix` is too large, because a sampled matrix has noise that does not
            cancel; products of different groups are unbiased (`correlation`).
        rows: The vectors (vectors, D) whose uncentred second moment it is, where these are stored
            instead of the matrix: fewer vectors than inputs. Network i has those from
            i * vectors / networks on.
        conventions: What makes the numbers incomparable with others, by name.
        warnings: What a reader must know, such as pairs that did not converge.

    >>> vectors = torch.eye(2, device="cpu")
    >>> values = torch.tensor([2.0, 1.0], device="cpu")
    >>> known = Directions(values, vectors, trace=3.0, trace_stderr=None, networks=10)
    >>> known.moment() is None  # leading pairs only
    True
    """

    # the pairs
    eigenvalues: Tensor  # (k,)
    vectors: Tensor  # (k, D)
    trace: float
    trace_stderr: float | None
    networks: int
    # what some estimators have beside them
    matrix: Tensor | None = None  # (D, D)
    squared_norms: Tensor | None = None  # (networks,)
    residuals: Tensor | None = None  # (k,)
    jackknife: Tensor | None = None  # (groups, k)
    conventions: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    groups: Tensor | None = None  # (groups, D, D)
    rows: Tensor | None = None  # (vectors, D)

    def moment(self) -> Tensor | None:
        """The moment (D, D), formed from its rows where it was not; None for leading pairs.

        Raises:
            Refusal: Where the device cannot hold it.
        """
        if self.matrix is not None or self.rows is None:
            return self.matrix
        size = self.rows.shape[1]
        needed = 3 * 8 * size**2  # three matrices in double precision
        memory.require(
            needed,
            self.rows.device,
            what=f"the second moment of {size} inputs",
            hint="use what needs its directions only, or smaller inputs",
        )
        # (1/T) sum g g^T
        rows = self.rows.to(self.eigenvalues.dtype)
        return rows.T @ rows / len(rows)

    def left_out_spectra(self) -> Tensor | None:
        """Eigenvalues (groups, k), descending, without one group of networks at a time.

        None where neither `jackknife` nor two or more `groups` are known.
        """
        if self.jackknife is not None:
            return self.jackknife
        if self.groups is None or len(self.groups) < 2:
            return None
        return spectra_without_each(self.groups, len(self.eigenvalues))


def spectra_without_each(moments: Tensor, rank: int) -> Tensor:
    """Eigenvalues (groups, rank), descending, of the mean of all moments but one, for each one.

    Args:
        moments: Moments (groups, D, D) of groups of nearly equal size, which weigh the same.
        rank: How many eigenvalues.

    >>> moments = torch.stack([torch.eye(2, device="cpu"), 3 * torch.eye(2, device="cpu")])
    >>> spectra_without_each(moments, 1).tolist()
    [[3.0], [1.0]]
    """
    total = moments.sum(0)
    spectra = []
    for moment in moments:
        values = torch.linalg.eigvalsh((total - moment) / (len(moments) - 1))
        spectra.append(values.flip(0)[:rank])
    return torch.stack(spectra)


@runtime_checkable
class LayerCurvature(Protocol):
    """Curvature of the loss in the parameters of one layer: a symmetric operator A on R^size.

    The easiest way to have all of this is to derive from
    `penchant_numerics.linear_algebra.Operator`, which brings products and traces, and to add inner
    products and eigenvalues. Whether an object has all of this can be checked:
    `isinstance(operator, LayerCurvature)`.

    >>> from penchant_numerics.linear_algebra import Dense
    >>> isinstance(Dense(torch.eye(2, device="cpu")), LayerCurvature)  # it has no inner products
    False
    """

    size: int
    device: torch.device
    dtype: torch.dtype
    # whether it groups samples by their labels, so that permuted ones are its null
    by_class: bool

    # ---- products

    def matvec(self, v: Tensor) -> Tensor:
        """A v for a vector v (size,)."""

    def rows(self, rows: Tensor) -> Tensor:
        """(A V)^T for V^T = rows (k, size)."""

    def dense(self) -> Tensor:
        """The matrix (size, size); for small operators."""

    def trace(self, *, generator: torch.Generator | None = None) -> TraceEstimate:
        """The trace with its standard error, 0 where it is exact."""

    # ---- inner products: distances follow from them, never from matrices

    @property
    def squared_norm(self) -> float:
        """<A, A>, the square of the Frobenius norm."""

    def inner(self, other: Any) -> float:
        """<A, B> = Tr A B with another curvature of the same parameters."""

    def alignment(self, other: Any) -> float:
        """<A, B> / (|A| |B|)."""

    def frobenius_distance(self, other: Any, *, relative: bool = False) -> float:
        """|A - B|, or over |A| with `relative`."""

    # ---- eigenvalues

    def exact_spectrum(self) -> Tensor | None:
        """All eigenvalues that may differ from zero, descending; None where they are too many."""

    def eigenpairs(self, count: int, *, generator: torch.Generator | None = None) -> Eigenpairs:
        """The `count` largest eigenvalues with their vectors, residuals and convergence."""


@dataclass(frozen=True)
class Information:
    """Mutual information in nats.

    Args:
        value: The estimate, from samples used neither for training nor for stopping.
        training: The same on training samples; of an estimator that is not trained, the value.
        stderr: The standard error of `value`; None where it is not known.
        null: The mean estimate of shuffled pairs, whose information is 0; None where none were
            shuffled.
        null_stderr: The standard error of `null`.
        warnings: Why the value may be far off.
        over: What the standard error is over.
        count: How many of these there are.
        details: Anything an estimator adds, such as its steps of training.
        null_spread: The standard deviation of the estimate over shuffles.
        conventions: What makes the number incomparable with others, by name.

    >>> Information(0.7, training=0.9, stderr=0.1, null=0.0).value
    0.7
    """

    value: float
    training: float
    stderr: float | None
    null: float | None = None
    null_stderr: float | None = None
    warnings: tuple[str, ...] = ()
    over: str = ""
    count: int = 1
    details: Mapping[str, Any] = field(default_factory=dict, compare=False)
    null_spread: float | None = None
    conventions: Mapping[str, str] = field(default_factory=dict)
