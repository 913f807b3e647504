"""The Gram matrix V^T V of the Gauss-Newton matrix G = V V^T, its spectrum, and traces of samples.

With V = J^T L, V^T V is L^T K L for the tangent kernel K (`tangent_kernels`): n C rows instead of
as many as there are parameters, and the same eigenvalues that are not zero, all of them, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from penchant_numerics.gauss_newton import batch_size, conventions, loss_factor_times
from penchant_numerics.kernel_blocks import (
    KEPT_SHARE,
    KernelLayers,
    gram_matrices,
    memory_budget,
)
from penchant_numerics.linearisation import Outputs
from penchant_numerics.sample_gradients import floating_inputs
from torch import Tensor, nn

LARGEST = 8192  # rows up to which an exact spectrum is computed: a matrix of half a gigabyte


def gauss_newton_gram(
    network: nn.Module,
    data: Sequence[Tensor | None],
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    reduction: str = "mean",
    batch: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """V^T V of the Gauss-Newton matrix V V^T: L^T K L over the number of samples.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        data: Inputs (n, ...) and labels, which are not used.
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters; all by default.
        reduction: `mean` or `sum` over samples.
        batch: Samples a block.
        memory: Bytes that features may take beside the matrix.

    Returns:
        The matrix (n C, n C).
    """
    # refuses what is not known
    conventions(loss, reduction)
    inputs = data[0]
    options = {"parameters": parameters, "batch": batch, "memory": memory}
    (K,) = gram_matrices(network, inputs, None, whole=True, **options).values()
    outputs = Outputs(network, parameters)
    values = _outputs(outputs, inputs, batch)
    # K L, then (K L)^T L = L^T K L
    for _ in range(2):
        rows = K.reshape(len(K), *values.shape)
        made = loss_factor_times(values, rows, loss, transposed=True)
        K = made.reshape(len(K), -1).T
    return K / len(inputs) if reduction == "mean" else K


@torch.no_grad()
def _outputs(outputs: Outputs, inputs: Tensor, batch: int | None) -> Tensor:
    """Outputs (n, C) of all samples."""
    size = batch or batch_size(inputs.device)
    found = []
    for part in inputs.split(size):
        found.append(outputs(outputs.values, part))
    return torch.cat(found)


def sample_traces(
    network: nn.Module,
    inputs: Tensor,
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """The trace of each sample's part J^T H J of the Gauss-Newton matrix, exactly.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        inputs: Samples (n, ...).
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters; all by default.
        batch: Samples a pass; fewer where memory says so.
        memory: Bytes that features may take.

    Returns:
        The traces (n,); their mean is the trace of G.

    >>> x = torch.tensor([[1.0], [2.0]], device="cpu")
    >>> sample_traces(nn.Linear(1, 1), x, loss="squared-error").tolist()  # x^2 + 1
    [2.0, 5.0]
    """
    outputs = Outputs(network, parameters)
    budget = memory_budget(inputs.device) if memory is None else memory
    found = []
    with floating_inputs(network, inputs, outputs.layout.dtype) as floating:
        layers = KernelLayers(outputs, floating)
        layers.warn()
        raw, _ = layers.bytes_of_a_sample()
        fitting = budget // KEPT_SHARE // raw
        size = max(1, min(batch or batch_size(inputs.device), fitting))
        for part in floating.split(size):
            squares = sum(each.squares() for each in layers(part).values())  # (n, C, C)
            # the trace of L^T K L on the diagonal block of each sample
            values = _outputs(outputs, part, None)
            L = _loss_factors(values, loss)
            found.append(torch.einsum("nab,nac,nbc->n", squares, L, L))
    return torch.cat(found)


def _loss_factors(values: Tensor, loss: str) -> Tensor:
    """L (n, C, C) of each sample at outputs (n, C), column by column: L times unit vectors."""
    samples, classes = values.shape
    units = torch.eye(classes, device=values.device, dtype=values.dtype)
    columns = units[:, None].expand(-1, samples, -1)
    made = loss_factor_times(values, columns, loss)  # (C, n, C)
    return made.permute(1, 2, 0)


def gauss_newton_spectrum(
    network: nn.Module,
    data: Sequence[Tensor | None],
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    reduction: str = "mean",
    batch: int | None = None,
    memory: int | None = None,
    largest: int = LARGEST,
) -> Tensor:
    """All eigenvalues of the Gauss-Newton matrix that are not zero to rounding.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        data: Inputs (n, ...) and labels, which are not used.
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters; all by default.
        reduction: `mean` or `sum` over samples.
        batch: Samples a block.
        memory: Bytes that features may take beside the matrix.
        largest: Rows (samples times outputs) beyond which it refuses.

    Returns:
        The eigenvalues, descending, in double precision.

    >>> x = torch.tensor([[1.0], [2.0]], device="cpu")
    >>> network = nn.Linear(1, 1, bias=False)
    >>> gauss_newton_spectrum(network, (x, None), loss="squared-error").tolist()  # (1 + 4) / 2
    [2.5]
    """
    outputs = Outputs(network, parameters)
    with torch.no_grad():
        rows = len(data[0]) * outputs(outputs.values, data[0][:1]).shape[1]
    if rows > largest:
        raise ValueError(
            f"an exact spectrum needs at most {largest} samples x outputs, found {rows}; "
            "use Lanczos in sample space"
        )
    gram = gauss_newton_gram(
        network,
        data,
        loss=loss,
        parameters=parameters,
        reduction=reduction,
        batch=batch,
        memory=memory,
    )
    # a matrix in sample space may have more rows than there are parameters
    rounding = torch.finfo(gram.dtype).eps * rows
    values = torch.linalg.eigvalsh(gram.double()).flip(0)
    return values[values > rounding * values[0]][: outputs.layout.size]
