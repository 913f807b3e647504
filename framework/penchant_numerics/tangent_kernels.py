"""Tangent kernels K[(i,y),(j,y')] = <grad f_y(x_i), grad f_y'(x_j)>, the spectrum of Gauss-Newton from them, and what kernels tell.

K has n C rows, sample after sample: row i C + y. Its non-zero eigenvalues are those of the sum of gradients' outer products; with
G = V V^T and V = J^T L, those of the Gauss-Newton matrix are the eigenvalues of L^T K L (`gauss_newton.py`), all of them, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from penchant_numerics.gauss_newton import batch_size, conventions, root
from penchant_numerics.layer_features import Factored, Rows, TangentFeatures
from penchant_numerics.linearisation import Outputs
from penchant_numerics.moments import effective_rank
from torch import Tensor, nn

__all__ = [
    "CENTRINGS",
    "centre",
    "cka",
    "effective_rank",
    "gauss_newton_gram",
    "gauss_newton_spectrum",
    "layer_kernels",
    "sample_traces",
    "tangent_kernel",
]

CENTRINGS = ("outputs", "all", "none")
LARGEST = 8192  # rows up to which an exact spectrum is computed: a matrix of half a gigabyte
KEPT_BYTES = (
    2**30
)  # features of all batches that are kept; beyond, they are computed again for each pair of batches

Features = dict[str, Factored | Rows]


def tangent_kernel(
    network: nn.Module,
    inputs: Tensor,
    *,
    other: Tensor | None = None,
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
    keep: int = KEPT_BYTES,
) -> Tensor:
    """K (n C, n C) of inputs (n, ...), or (n C, m C) against `other` inputs; uncentred.

    >>> network = nn.Linear(1, 1)
    >>> tangent_kernel(network, torch.tensor([[2.0], [3.0]], device="cpu")).tolist()       # x x' + 1
    [[5.0, 7.0], [7.0, 10.0]]
    """
    (total,) = _grams(network, inputs, other, parameters, batch, keep, lambda layer: "").values()
    return total


def layer_kernels(
    network: nn.Module,
    inputs: Tensor,
    *,
    other: Tensor | None = None,
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
    keep: int = KEPT_BYTES,
) -> dict[str, Tensor]:
    """The part of every layer in K; they add up to it."""
    return _grams(network, inputs, other, parameters, batch, keep, lambda layer: layer)


def _grams(
    network: nn.Module,
    inputs: Tensor,
    other: Tensor | None,
    parameters: str | Sequence[str] | None,
    batch: int | None,
    keep: int,
    key: Callable[[str], str],
) -> dict[str, Tensor]:
    """Gram matrices, layer by layer added up under its key, over pairs of batches."""
    size = batch or batch_size(inputs.device)
    features = TangentFeatures(network, inputs[: min(size, 8)], parameters=parameters)
    with torch.no_grad():
        classes = features.outputs(features.outputs.values, inputs[:1]).shape[1]
    right = inputs if other is None else other
    found: dict[str, Tensor] = {}
    columns = _Kept(features, right, size, keep)
    for start, left in _Kept(features, inputs, size, 0) if other is not None else columns:
        for begin, features_right in columns.starting_at(start if other is None else 0):
            for layer, each in left.items():
                total = found.get(key(layer))
                if total is None:
                    shape = (len(inputs), classes, len(right), classes)
                    total = found[key(layer)] = torch.zeros(
                        shape, device=inputs.device, dtype=features.outputs.layout.dtype
                    )
                theirs = each if other is None and begin == start else features_right[layer]
                each.add_gram(total[start : start + size, :, begin : begin + size], theirs)
    for total in found.values() if other is None else ():
        _mirror(total, size)
    return {name: total.flatten(2).flatten(0, 1) for name, total in found.items()}


class _Kept:
    """Features of batches, with those kept that fit; a symmetric Gram matrix needs each from the diagonal on."""

    def __init__(self, features: TangentFeatures, inputs: Tensor, size: int, keep: int) -> None:
        self.features, self.inputs, self.size, self.keep = features, inputs, size, keep
        self._kept: dict[int, Features] = {}
        self._used = 0

    def __iter__(self) -> Iterator[tuple[int, Features]]:
        return self.starting_at(0)

    def starting_at(self, first: int) -> Iterator[tuple[int, Features]]:
        for start in range(first, len(self.inputs), self.size):
            yield start, self._at(start)

    def _at(self, start: int) -> Features:
        if start in self._kept:
            return self._kept[start]
        made = self.features(self.inputs[start : start + self.size])
        size = sum(each.bytes for each in made.values())
        if self._used + size <= self.keep:
            self._kept[start] = made
            self._used += size
        return made


def _mirror(total: Tensor, size: int) -> None:
    """Fill the blocks below the diagonal of (n, C, n, C)."""
    for start in range(0, len(total), size):
        for begin in range(start + size, len(total), size):
            block = total[start : start + size, :, begin : begin + size]
            total[begin : begin + size, :, start : start + size] = block.permute(2, 3, 0, 1)


def gauss_newton_gram(
    network: nn.Module,
    data: Sequence[Tensor | None],
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    reduction: str = "mean",
    batch: int | None = None,
    keep: int = KEPT_BYTES,
) -> Tensor:
    """V^T V (n C, n C) of the Gauss-Newton matrix V V^T: L^T K L over the number of samples."""
    conventions(loss, reduction)
    inputs = data[0]
    K = tangent_kernel(network, inputs, parameters=parameters, batch=batch, keep=keep)
    outputs = Outputs(network, parameters)
    with torch.no_grad():
        values = torch.cat(
            [
                outputs(outputs.values, part)
                for part in inputs.split(batch or batch_size(inputs.device))
            ]
        )
    for _ in range(2):  # K L, then (K L)^T L = L^T K L
        K = (
            root(values, K.reshape(len(K), *values.shape), loss, transposed=True)
            .reshape(len(K), -1)
            .T
        )
    return K / len(inputs) if reduction == "mean" else K


def sample_traces(
    network: nn.Module,
    inputs: Tensor,
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
) -> Tensor:
    """The trace (n,) of each sample's part J^T H J of the Gauss-Newton matrix, exactly; their mean is the trace of G.

    >>> sample_traces(nn.Linear(1, 1), torch.tensor([[1.0], [2.0]], device="cpu"), loss="squared-error").tolist()     # x^2 + 1
    [2.0, 5.0]
    """
    size = batch or batch_size(inputs.device)
    features = TangentFeatures(network, inputs[: min(size, 8)], parameters=parameters)
    found = []
    for part in inputs.split(size):
        squares = sum(each.squares() for each in features(part).values())  # (n, C, C)
        with torch.no_grad():
            values = features.outputs(features.outputs.values, part)
        # L^T K L on the diagonal: columns of L^T are roots of unit vectors
        units = torch.eye(values.shape[1], device=values.device, dtype=values.dtype)[
            :, None
        ].expand(-1, len(values), -1)
        L = root(values, units, loss).permute(1, 2, 0)  # (n, C, C), columns L e_c
        found.append(torch.einsum("nab,nac,nbc->n", squares, L, L))
    return torch.cat(found)


def gauss_newton_spectrum(
    network: nn.Module,
    data: Sequence[Tensor | None],
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    reduction: str = "mean",
    batch: int | None = None,
    keep: int = KEPT_BYTES,
    largest: int = LARGEST,
) -> Tensor:
    """All eigenvalues of the Gauss-Newton matrix that are not zero to rounding, descending, in double precision.

    Refuses more than `largest` rows (samples times outputs).

    >>> x = torch.tensor([[1.0], [2.0]], device="cpu")
    >>> gauss_newton_spectrum(nn.Linear(1, 1, bias=False), (x, None), loss="squared-error").tolist()     # (1 + 4) / 2
    [2.5]
    """
    outputs = Outputs(network, parameters)
    with torch.no_grad():
        rows = len(data[0]) * outputs(outputs.values, data[0][:1]).shape[1]
    if rows > largest:
        raise ValueError(
            f"an exact spectrum needs at most {largest} samples x outputs, found {rows}; use Lanczos in sample space"
        )
    gram = gauss_newton_gram(
        network, data, loss=loss, parameters=parameters, reduction=reduction, batch=batch, keep=keep
    )
    rounding = torch.finfo(gram.dtype).eps * rows
    values = torch.linalg.eigvalsh(gram.double()).flip(0)
    return values[values > rounding * values[0]][: outputs.layout.size]


def centre(K: Tensor, *, outputs: int, centring: str = "outputs") -> Tensor:
    """K of centred features: around each output's own mean over samples (`outputs`, C_n x I_C), or around one mean (`all`)."""
    if centring not in CENTRINGS:
        raise ValueError(f"centring must be one of {', '.join(CENTRINGS)}, found {centring!r}")
    if centring == "none":
        return K
    if centring == "all":
        return K - K.mean(0) - K.mean(1, keepdim=True) + K.mean()
    four = K.reshape(len(K) // outputs, outputs, K.shape[1] // outputs, outputs)
    left, right = four.mean(0, keepdim=True), four.mean(2, keepdim=True)
    return (four - left - right + left.mean(2, keepdim=True)).reshape(K.shape)


def cka(K: Tensor, other: Tensor, *, outputs: int, centring: str = "outputs") -> float:
    """Centred kernel alignment <K, K'> / (|K| |K'|), in double precision; between 0 and 1 for positive kernels.

    Reference: Cortes, Mohri and Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 2012.

    >>> K = torch.diag(torch.tensor([1.0, 2.0, 3.0], device="cpu"))
    >>> cka(K, K, outputs=1)
    1.0
    """
    left, right = (centre(each.double(), outputs=outputs, centring=centring) for each in (K, other))
    return float((left * right).sum() / (left.norm() * right.norm()))
