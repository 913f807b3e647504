"""The Gram matrix V^T V of the Gauss-Newton matrix G = V V^T, and its spectrum.

With V = J^T L, V^T V is L^T K L for the tangent kernel K (`tangent_kernels`): n C rows instead of
as many as there are parameters, and the same eigenvalues that are not zero, all of them, exactly.
"""

from collections.abc import Sequence

import torch
from penchant_numerics.curvature.losses import closed_form, conventions
from penchant_numerics.data import IGNORED, are_sequences
from penchant_numerics.device import batch_size
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import gram_matrices
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn

LARGEST = 8192  # rows up to which an exact spectrum is computed: a matrix of half a gigabyte


def gauss_newton_gram(
    network: nn.Module,
    data: tuple[Tensor, Tensor | None],
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    reduction: str = "mean",
    batch: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """V^T V of the Gauss-Newton matrix V V^T: L^T K L over the number of samples.

    Args:
        network: A network with outputs (samples, C), or (samples, positions, C), in evaluation
            mode.
        data: Inputs (n, ...) and labels, of which only the -100 of sequences matters.
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters; all by default.
        reduction: `mean` or `sum` over samples, or over the positions of all sequences.
        batch: Samples a block.
        memory: Bytes that features may take beside the matrix.

    Returns:
        The matrix (n C, n C).
    """
    # refuses what is not known
    conventions(loss, reduction)
    times = closed_form(loss).factor_times
    inputs, labels = data
    (K,) = gram_matrices(
        network, inputs, None, whole=True, parameters=parameters, batch=batch, memory=memory
    ).values()
    outputs = Outputs(network, parameters)
    values = _outputs(outputs, inputs, batch)
    counted = torch.ones_like(values[..., :1])
    if values.dim() == 3 and are_sequences(labels):
        counted *= (labels != IGNORED)[..., None]
    # K L, then (K L)^T L = L^T K L
    for _ in range(2):
        rows = K.reshape(len(K), *values.shape)
        made = times(values, rows, transposed=True) * counted
        K = made.reshape(len(K), -1).T
    if reduction == "mean":
        return K / int(counted.sum())
    return K


@torch.no_grad()
def _outputs(outputs: Outputs, inputs: Tensor, batch: int | None) -> Tensor:
    """Outputs (n, ...) of all samples."""
    size = batch or batch_size(inputs.device)
    chunks = []
    for chunk in inputs.split(size):
        chunks.append(outputs(outputs.values, chunk))
    return torch.cat(chunks)


def gauss_newton_spectrum(
    network: nn.Module,
    data: tuple[Tensor, Tensor | None],
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
        network: A network with outputs (samples, C), or (samples, positions, C), in evaluation
            mode.
        data: Inputs (n, ...) and labels, of which only the -100 of sequences matters.
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters; all by default.
        reduction: `mean` or `sum` over samples, or over the positions of all sequences.
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
    inputs = data[0]
    with torch.no_grad():
        made = outputs(outputs.values, inputs[:1])
    rows = len(inputs) * made.shape[1:].numel()
    if rows > largest:
        raise Refusal(
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
    values: Tensor = torch.linalg.eigvalsh(gram.double()).flip(0)
    above = values > rounding * values[0]
    size = outputs.layout.size
    return values[above][:size]
