"""The estimator as data."""

from __future__ import annotations

import attrs
import penchant


@attrs.frozen
class MixedDerivative(penchant.Estimator):
    """E[M^T M] over networks drawn from the initialisation, M = d^2 f / d theta d x.

    Its eigenvectors are the right singular vectors of the networks' mixed derivatives taken
    together: the directions along which a small change of the parameters turns the gradient most.
    M itself (parameters x inputs) is never formed.

    `exact` is the derivative at the point; `finite-difference` takes the parameter gradient at
    x +- step e_i. On networks with kinks (ReLU, max-pooling) the exact derivative is the local one
    and a large step answers another question: compare estimators with like methods. Small inputs
    give the whole matrix, exact to rounding. With `leading = k`, for large inputs and deep
    networks, only k pairs are found by block Krylov iteration, and their residuals are reported.

    Reference: Neural Anisotropy Directions, supplement, algorithm 2. It averages M itself, which is
    zero for initialisations of mean zero; the second moment is what its text means.
    """

    name = "mixed-derivative"
    role = "directions"
    target = "penchant_mixed.estimators.mixed_derivative:estimate"

    # How and where the derivative is taken.
    method: str = penchant.option("exact", "how M is taken", choices=("exact", "finite-difference"))
    step: float = penchant.option(100.0, "step h of the finite differences", above=0)
    point: str = penchant.option("gaussian", "where M is taken", choices=("gaussian", "zero"))
    point_scale: float = penchant.option(1.0, "standard deviation of the Gaussian point", above=0)
    # Large inputs and deep networks: pairs instead of the matrix.
    leading: int | None = penchant.option(
        None, "pairs to find without the matrix; none: the whole matrix", at_least=1
    )
    iterations: int = penchant.option(12, "most passes over the networks, with leading", at_least=1)
    tolerance: float = penchant.option(
        1e-3, "largest residual, relative to the first eigenvalue, with leading", above=0
    )
