"""Layer by layer: passes, features, Gram matrices, tangent kernels and their alignment."""

from penchant_numerics.layers.kernel_alignment import centre, eigenfunctions
from penchant_numerics.layers.kernel_blocks import MOST_OUTPUTS, KernelLayers, gram_matrices
from penchant_numerics.layers.layer_features import Factored, TangentFeatures
from penchant_numerics.layers.layer_passes import (
    LayerPass,
    errors_at_positions,
    layer_pass,
    seen_at_positions,
)
from penchant_numerics.layers.linear_layers import (
    error_positions,
    input_positions,
    is_gradient,
    is_linear,
    is_transposed,
    shared_parameters,
    takes_batch,
    watched,
    weight_matrix,
)
from penchant_numerics.layers.tangent_kernels import layer_kernels, tangent_kernel

__all__ = [
    "Factored",
    "KernelLayers",
    "LayerPass",
    "MOST_OUTPUTS",
    "TangentFeatures",
    "centre",
    "eigenfunctions",
    "error_positions",
    "errors_at_positions",
    "gram_matrices",
    "input_positions",
    "is_gradient",
    "is_linear",
    "is_transposed",
    "layer_kernels",
    "layer_pass",
    "seen_at_positions",
    "shared_parameters",
    "takes_batch",
    "tangent_kernel",
    "watched",
    "weight_matrix",
]
