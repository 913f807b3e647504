"""Tangent kernels K[(i,y),(j,y')] = <grad f_y(x_i), grad f_y'(x_j)> of any network.

K has n C rows, sample after sample: row i C + y. It is a sum over layers. Linear layers and
convolutions need no gradients: with inputs h and errors delta = df_y/dz at the positions t where
they are used (a module used twice has both uses, and their cross terms),

    <grad f_y(x_i), grad f_y'(x_j)> = sum_{t,s} (h_t . h_s + 1) (delta_t . delta_s),

or, where positions are many, the gradients sum_t delta_t h_t^T are formed some units at a time
(`layer_grams`). Every other parameter has its gradients taken sample by sample. K's non-zero
eigenvalues are those of the metric J^T J.

What kernels tell is in `kernel_alignment` (centring, CKA, eigenfunctions) and `spectra` (trace
ratios); the Gauss-Newton matrix's own Gram matrix in `gauss_newton_gram`. All are offered here too.
"""

from collections.abc import Sequence

from penchant_numerics.layers.kernel_blocks import gram_matrices
from torch import Tensor, nn


def tangent_kernel(
    network: nn.Module,
    inputs: Tensor,
    *,
    other: Tensor | None = None,
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """The tangent kernel, uncentred (`centre` centres it).

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        inputs: Samples (n, ...); tokens may be whole numbers.
        other: Other samples (m, ...) for a rectangular kernel.
        parameters: Names or patterns of parameters (`parameters.select`); all by default.
        batch: Samples a block; the device decides by default. Fewer where memory says so.
        memory: Bytes that features may take beside the kernel; `memory_budget` by default.

    Returns:
        K (n C, n C), or (n C, m C) against `other`; row i C + y is output y of sample i.

    >>> import torch
    >>> network = nn.Linear(1, 1)
    >>> tangent_kernel(network, torch.tensor([[2.0], [3.0]], device="cpu")).tolist()  # x x' + 1
    [[5.0, 7.0], [7.0, 10.0]]
    """
    # the sum over layers, under an empty name
    (total,) = gram_matrices(
        network, inputs, other, whole=True, parameters=parameters, batch=batch, memory=memory
    ).values()
    return total


def layer_kernels(
    network: nn.Module,
    inputs: Tensor,
    *,
    other: Tensor | None = None,
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
    memory: int | None = None,
) -> dict[str, Tensor]:
    """What every layer contributes to the tangent kernel, which is the sum.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        inputs: Samples (n, ...).
        other: Other samples (m, ...) for rectangular kernels.
        parameters: Names or patterns of parameters; all by default.
        batch: Samples a block.
        memory: Bytes that features may take beside the kernels.

    Returns:
        Kernels like that of `tangent_kernel` by the name of the module that holds the parameters.

    >>> import torch
    >>> network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> kernels = layer_kernels(network, torch.ones(4, 2, device="cpu"))
    >>> {name: tuple(K.shape) for name, K in kernels.items()}
    {'0': (4, 4), '1': (4, 4)}
    """
    return gram_matrices(
        network, inputs, other, whole=False, parameters=parameters, batch=batch, memory=memory
    )
