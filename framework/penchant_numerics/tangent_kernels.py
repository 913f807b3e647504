"""Tangent kernels K[(i,y),(j,y')] = <grad f_y(x_i), grad f_y'(x_j)> of any network.

K has n C rows, sample after sample: row i C + y. It is a sum over layers. Linear layers and
convolutions need no gradients: with inputs h and errors delta = df_y/dz at the positions t where
they are used (a module used twice has both uses, and their cross terms),

    <grad f_y(x_i), grad f_y'(x_j)> = sum_{t,s} (h_t . h_s + 1) (delta_t . delta_s),

or, where positions are many, the gradients sum_t delta_t h_t^T are formed some units at a time.
Every other parameter (norms, embeddings, attention's own) has its gradients taken sample by sample.

K's non-zero eigenvalues are those of the metric J^T J. With G = V V^T and V = J^T L, those of the
Gauss-Newton matrix are the eigenvalues of L^T K L (`gauss_newton.py`): all of them, exactly.

A kernel is computed in blocks of rows. What features and gradients take beside the matrix itself
is bounded by `memory` bytes; the blocks follow from it and from the network, never from what
happens to be free.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import torch
from penchant_numerics.gauss_newton import batch_size, conventions, loss_factor_times
from penchant_numerics.kernel_alignment import CENTRINGS, centre, cka, eigenfunctions
from penchant_numerics.layer_features import Rows, TangentFeatures
from penchant_numerics.layer_grams import (
    Feature,
    LayerSize,
    add_gram,
    put_features,
    room_for,
    smaller_form,
)
from penchant_numerics.layer_uses import layer_uses
from penchant_numerics.linearisation import Outputs
from penchant_numerics.moments import effective_rank
from penchant_numerics.sample_gradients import floating_inputs, sample_gradients
from penchant_numerics.spectra import trace_ratios
from torch import Tensor, nn

__all__ = [
    "CENTRINGS",
    "centre",
    "cka",
    "effective_rank",
    "eigenfunctions",
    "gauss_newton_gram",
    "gauss_newton_spectrum",
    "layer_kernels",
    "layer_routes",
    "memory_budget",
    "sample_traces",
    "tangent_kernel",
    "trace_ratios",
]

LARGEST = 8192  # rows up to which an exact spectrum is computed: a matrix of half a gigabyte
_CHECKED = 8  # samples on which a layer's gradient is compared with that of its factors
_KEPT = 2  # a half of the memory keeps the features of blocks for the next row of blocks
_FORMED = 8  # an eighth holds gradients that are formed for one product
_PASSED = 16  # a sixteenth holds the features of one pass; passing makes copies of them

Features = dict[str, Feature]


def memory_budget(device: torch.device) -> int:
    """Bytes that features may take, by device type: 2 GiB on a CPU, 8 GiB on a GPU."""
    return 2**31 if device.type == "cpu" else 2**33


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

    >>> network = nn.Linear(1, 1)
    >>> tangent_kernel(network, torch.tensor([[2.0], [3.0]], device="cpu")).tolist()  # x x' + 1
    [[5.0, 7.0], [7.0, 10.0]]
    """
    options = {"parameters": parameters, "batch": batch, "memory": memory}
    (total,) = _grams(network, inputs, other, whole=True, **options).values()
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
    """The part of every layer in the tangent kernel; they add up to it.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        inputs: Samples (n, ...).
        other: Other samples (m, ...) for rectangular kernels.
        parameters: Names or patterns of parameters; all by default.
        batch: Samples a block.
        memory: Bytes that features may take beside the kernels.

    Returns:
        Kernels like that of `tangent_kernel` by the name of the module that holds the parameters.
    """
    options = {"parameters": parameters, "batch": batch, "memory": memory}
    return _grams(network, inputs, other, whole=False, **options)


def layer_routes(
    network: nn.Module, inputs: Tensor, *, parameters: str | Sequence[str] | None = None
) -> dict[str, str]:
    """How each layer's part of a kernel is computed: for a result's conventions.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        inputs: Some samples (n, ...).
        parameters: Names or patterns of parameters; all by default.

    Returns:
        `inputs and errors`, or `gradients of samples` with the reason where a linear layer has it,
        by the name of the layer.
    """
    outputs = Outputs(network, parameters)
    with floating_inputs(network, inputs, outputs.layout.dtype) as floating:
        return _Layers(outputs, floating).routes()


def _grams(
    network: nn.Module,
    inputs: Tensor,
    other: Tensor | None,
    *,
    whole: bool,
    parameters: str | Sequence[str] | None,
    batch: int | None,
    memory: int | None,
) -> dict[str, Tensor]:
    """Gram matrices of layers, or their sum under one name, block of rows by block of rows."""
    outputs = Outputs(network, parameters)
    dtype = outputs.layout.dtype
    budget = memory_budget(inputs.device) if memory is None else memory
    with floating_inputs(network, inputs, dtype) as left:
        layers = _Layers(outputs, left)
        layers.warn()
        columns = rows = _Blocks(layers, left, batch=batch, memory=budget)
        if other is not None:
            columns = _Blocks(layers, other.to(dtype), batch=batch, memory=budget)
        found = _GramSum(rows, columns, whole=whole, chunk_bytes=budget // _FORMED)
        for start, features in rows:
            for begin, theirs in columns.starting_at(start if other is None else 0):
                same = other is None and begin == start
                found.add(start, features, begin, features if same else theirs)
    if other is None:
        found.mirror()
    return found.totals


class _Layers:
    """Features of a network's layers on a batch, each in the form that its Gram matrix needs."""

    def __init__(self, outputs: Outputs, inputs: Tensor) -> None:
        self.outputs = outputs
        self._sample = inputs[:_CHECKED]
        self._uses = layer_uses(outputs, self._sample)
        with torch.no_grad():
            self.classes = outputs(outputs.values, inputs[:1]).shape[1]
        self.foreign = [name for name, use in self._uses.items() if not use.sample_first]
        self._divide([name for name in outputs.layout.names if _module_of(name) in self.foreign])

    def _divide(self, dense: list[str]) -> None:
        """Some parameters go by gradients of samples, the others as their layers allow."""
        network, names = self.outputs.network, self.outputs.layout.names
        others = [name for name in names if name not in dense]
        self._dense = Outputs(network, dense) if dense else None
        self._layered = None
        if others:
            self._layered = TangentFeatures(network, self._sample, parameters=others)

    @property
    def factored(self) -> tuple[str, ...]:
        """Layers that go by their inputs and errors."""
        return () if self._layered is None else self._layered.layers

    def routes(self) -> dict[str, str]:
        """The route of every layer, and why where it is not that of other linear layers."""
        found = {}
        for name in self.outputs.layout.names:
            layer = _module_of(name)
            found[layer] = "gradients of samples"
            if layer in self.factored:
                found[layer] = "inputs and errors"
            elif layer in self.foreign:
                found[layer] += ", because its first axis is not the sample"
        return found

    def warn(self) -> None:
        """Say which linear layers cannot go by their inputs and errors."""
        if self.foreign:
            names = ", ".join(self.foreign)
            warnings.warn(
                f"gradients of {names} are taken sample by sample, which takes longer: "
                "the first axis of these layers is not the sample",
                stacklevel=4,
            )

    def __call__(self, inputs: Tensor) -> Features:
        """Features by layer."""
        found: Features = {} if self._layered is None else self._by_layers(inputs)
        if self._dense is not None:
            found |= _by_module(sample_gradients(self._dense, inputs))
        return found

    def _by_layers(self, inputs: Tensor) -> Features:
        try:
            return self._layered(inputs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # something cannot be vectorised over samples: these parameters go densely from now on
            others = list(self._layered.others)
            if not others:
                raise
            dense = [] if self._dense is None else list(self._dense.layout.names)
            self._divide([*dense, *others])
            return {} if self._layered is None else self._layered(inputs)

    def bytes_of_a_sample(self) -> tuple[int, int]:
        """Bytes of one sample's features as they come, and in the form that is kept."""
        sizes = zip(self.outputs.layout.names, self.outputs.layout.sizes)
        others = sum(size for name, size in sizes if _module_of(name) not in self.factored)
        raw = kept = others * self.classes
        for name in self.factored:
            use = self._uses[name]
            size = LayerSize(use.positions, use.width, use.units, self.classes)
            raw += size.factors
            kept += size.kept
        number = torch.finfo(self.outputs.layout.dtype).bits // 8
        return raw * number, kept * number


def _module_of(name: str) -> str:
    """The module that holds a parameter."""
    return name.rpartition(".")[0]


def _by_module(gradients: dict[str, Tensor]) -> dict[str, Rows]:
    """Gradients (n, C, *shape) as rows of the modules that hold their parameters."""
    grouped: dict[str, list[Tensor]] = {}
    for name, value in gradients.items():
        flat = value.flatten(2) if value.dim() > 2 else value[..., None]
        grouped.setdefault(_module_of(name), []).append(flat)
    return {module: Rows(torch.cat(values, dim=2)) for module, values in grouped.items()}


class _Blocks:
    """Features of samples, block by block; blocks are kept while they fit."""

    def __init__(self, layers: _Layers, inputs: Tensor, *, batch: int | None, memory: int) -> None:
        self.layers = layers
        self.inputs = inputs
        self._room = memory // _KEPT
        self._kept: dict[int, Features] = {}

        # all samples in one block if they fit; else a block on the left and one on the right
        raw, kept = layers.bytes_of_a_sample()
        fitting = self._room // kept
        largest = fitting if fitting >= len(inputs) else fitting // 2
        self.size = max(1, min(batch or batch_size(inputs.device), largest))
        self.passed = max(1, min(self.size, memory // _PASSED // raw))

    def __iter__(self) -> Iterator[tuple[int, Features]]:
        return self.starting_at(0)

    def starting_at(self, first: int) -> Iterator[tuple[int, Features]]:
        """The blocks from that sample on; a symmetric kernel needs each from the diagonal on."""
        for start in range(first, len(self.inputs), self.size):
            yield start, self._at(start)

    def _at(self, start: int) -> Features:
        if start in self._kept:
            return self._kept[start]
        made = self._made(self.inputs[start : start + self.size])
        size = sum(each.bytes for each in made.values())
        if size <= self._room:
            self._kept[start] = made
            self._room -= size
        return made

    def _made(self, inputs: Tensor) -> Features:
        """Features of a block, from passes that are small enough."""
        if len(inputs) <= self.passed:
            return _small_forms(self.layers(inputs))
        found: Features = {}
        for start in range(0, len(inputs), self.passed):
            passed = self.layers(inputs[start : start + self.passed])
            for layer, feature in _small_forms(passed).items():
                if layer not in found:
                    found[layer] = room_for(feature, len(inputs))
                put_features(found[layer], start, feature)
        return found


def _small_forms(features: Features) -> Features:
    return {layer: smaller_form(feature) for layer, feature in features.items()}


class _GramSum:
    """Gram matrices under construction, one a layer or one for all."""

    def __init__(self, rows: _Blocks, columns: _Blocks, *, whole: bool, chunk_bytes: int) -> None:
        self.rows = rows
        self.columns = columns
        self.whole = whole
        self.chunk_bytes = chunk_bytes
        self.classes = rows.layers.classes
        self.totals: dict[str, Tensor] = {}

    def add(self, start: int, mine: Features, begin: int, theirs: Features) -> None:
        """Add the products of two blocks that start at these samples."""
        rows = slice(start * self.classes, (start + self.rows.size) * self.classes)
        columns = slice(begin * self.classes, (begin + self.columns.size) * self.classes)
        for layer, left in mine.items():
            total = self._total("" if self.whole else layer)
            right = left if theirs is mine else theirs[layer]
            add_gram(total[rows, columns], left, right, chunk_bytes=self.chunk_bytes)

    def _total(self, name: str) -> Tensor:
        if name not in self.totals:
            self.totals[name] = torch.zeros(
                len(self.rows.inputs) * self.classes,
                len(self.columns.inputs) * self.classes,
                device=self.rows.inputs.device,
                dtype=self.rows.layers.outputs.layout.dtype,
            )
        return self.totals[name]

    def mirror(self) -> None:
        """Fill the blocks below the diagonal."""
        step = self.rows.size * self.classes
        for total in self.totals.values():
            for start in range(0, len(total), step):
                end = start + step
                total[end:, start:end] = total[start:end, end:].T


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
    conventions(loss, reduction)
    inputs = data[0]
    options = {"parameters": parameters, "batch": batch, "memory": memory}
    K = tangent_kernel(network, inputs, **options)
    outputs = Outputs(network, parameters)
    values = _outputs(outputs, inputs, batch)
    for _ in range(2):  # K L, then (K L)^T L = L^T K L
        rows = K.reshape(len(K), *values.shape)
        K = loss_factor_times(values, rows, loss, transposed=True).reshape(len(K), -1).T
    return K / len(inputs) if reduction == "mean" else K


@torch.no_grad()
def _outputs(outputs: Outputs, inputs: Tensor, batch: int | None) -> Tensor:
    """Outputs (n, C) of all samples."""
    size = batch or batch_size(inputs.device)
    return torch.cat([outputs(outputs.values, part) for part in inputs.split(size)])


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
        layers = _Layers(outputs, floating)
        layers.warn()
        raw, _ = layers.bytes_of_a_sample()
        size = max(1, min(batch or batch_size(inputs.device), budget // _KEPT // raw))
        for part in floating.split(size):
            squares = sum(each.squares() for each in layers(part).values())  # (n, C, C)
            L = _loss_factors(_outputs(outputs, part, None), loss)
            found.append(torch.einsum("nab,nac,nbc->n", squares, L, L))
    return torch.cat(found)


def _loss_factors(values: Tensor, loss: str) -> Tensor:
    """L (n, C, C) of each sample at outputs (n, C), column by column: L times unit vectors."""
    units = torch.eye(values.shape[1], device=values.device, dtype=values.dtype)
    columns = units[:, None].expand(-1, len(values), -1)
    return loss_factor_times(values, columns, loss).permute(1, 2, 0)


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
    rounding = torch.finfo(gram.dtype).eps * rows
    values = torch.linalg.eigvalsh(gram.double()).flip(0)
    return values[values > rounding * values[0]][: outputs.layout.size]
