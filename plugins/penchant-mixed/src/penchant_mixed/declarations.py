"""The estimator as data."""

import attrs
import penchant


@attrs.frozen
class MixedDerivative(penchant.Estimator):
    r"""Second moment of the mixed derivative of fresh networks in parameters and input.

    The matrix is $\mathbb{E}_\theta[M^\top M]$ with $M = \partial^2 f / \partial\theta \partial x$.
    Its eigenvectors are the input directions along which a small change of the parameters changes
    the gradient most. $M$ itself (parameters x inputs) is never formed.

    `exact` is the derivative at the point; `finite-difference` uses the parameter gradient at
    $x \pm h e_i$. On networks with kinks (ReLU, max-pooling) the exact derivative is local and a
    large step gives a different result: compare estimators with the same method. Small inputs give
    the whole matrix, exact up to rounding. With `leading = k`, for large inputs and deep networks,
    block Krylov iteration finds only k pairs, and their residuals are reported.

    Reference: Neural Anisotropy Directions, supplement, algorithm 2. It averages M itself, which is
    zero for initialisations of mean zero; the second moment is what its text means.
    """

    name = "mixed-derivative"
    role = "directions"
    target = "penchant_mixed.estimators.mixed_derivative:estimate"

    # How and where the derivative is taken.
    method: str = penchant.option("exact", "how M is taken", choices=("exact", "finite-difference"))
    step: float = penchant.option(100.0, "step h of the finite differences", above=0)
    point: str = penchant.option(
        "gaussian", "where M is taken: another point for each network", choices=("gaussian", "zero")
    )
    # Large inputs and deep networks: pairs instead of the matrix.
    leading: int | None = penchant.option(
        None, "number of pairs to compute without the matrix; None: the whole matrix", at_least=1
    )
    iterations: int = penchant.option(12, "most passes over the networks, with leading", at_least=1)
    tolerance: float = penchant.option(
        1e-3, "largest residual, relative to the first eigenvalue, with leading", above=0
    )
