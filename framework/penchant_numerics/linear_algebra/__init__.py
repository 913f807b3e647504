"""Matrices known by their products: operators, eigenpairs, Lanczos, spectral densities."""

from penchant_numerics.linear_algebra.eigenpairs import (
    DENSE_UP_TO,
    Eigenpairs,
    block_krylov_pairs,
    definite_signs,
    descending_eigh,
    exact_pairs,
    lanczos_eigenpairs,
    leading_pairs,
    subspace_iteration,
)
from penchant_numerics.linear_algebra.lanczos_quadrature import (
    BASIS_SHARE,
    Quadrature,
    exact_quadrature,
    quadrature,
)
from penchant_numerics.linear_algebra.operators import (
    Applied,
    Dense,
    Factor,
    Operator,
    Restricted,
    TraceEstimate,
)
from penchant_numerics.linear_algebra.spectra import (
    Gap,
    common_log_grid,
    largest_gap,
    log_densities,
    nested_overlaps,
    share_in_span,
    spanning_grid,
    subspace_overlap,
    trace_ratios,
)
from penchant_numerics.linear_algebra.spectral_density import Density, log_density

__all__ = [
    "Applied",
    "BASIS_SHARE",
    "DENSE_UP_TO",
    "Dense",
    "Density",
    "Eigenpairs",
    "Factor",
    "Gap",
    "Operator",
    "Quadrature",
    "Restricted",
    "TraceEstimate",
    "block_krylov_pairs",
    "common_log_grid",
    "definite_signs",
    "descending_eigh",
    "exact_pairs",
    "exact_quadrature",
    "lanczos_eigenpairs",
    "largest_gap",
    "leading_pairs",
    "log_densities",
    "log_density",
    "nested_overlaps",
    "quadrature",
    "share_in_span",
    "spanning_grid",
    "subspace_iteration",
    "subspace_overlap",
    "trace_ratios",
]
