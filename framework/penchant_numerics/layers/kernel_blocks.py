"""Gram matrices of a network's gradients, layer by layer and block of rows by block of rows.

Layers that see samples one by one go by their inputs and errors (`layer_features`). All other
parameters have their gradients taken sample by sample (`sample_gradients`): those of layers whose
first axis is not the sample, of norms, embeddings, attention, recurrent cells.

What features and gradients take beside the matrices is bounded by a budget in bytes. Blocks follow
from it and from the network, never from what happens to be free.
"""

import warnings
from collections.abc import Sequence

import torch
from penchant_numerics.device import batch_size
from penchant_numerics.device import memory as bytes_allowed
from penchant_numerics.jacobians import FlatOutputs, Outputs, floating_inputs
from penchant_numerics.jacobians.sample_gradients import sample_gradients
from penchant_numerics.layers.layer_features import TangentFeatures, rows_by_module
from penchant_numerics.layers.layer_grams import (
    Feature,
    LayerSize,
    add_gram,
    mirror,
    put_features,
    room_for,
    smaller_form,
)
from penchant_numerics.layers.layer_uses import layer_uses
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn

_CHECKED = 8  # samples on which a layer's gradient is compared with that of its factors
CACHE_SHARE = 2  # a half of the memory stores the features of blocks for the next row of blocks
_FORMED = 8  # an eighth holds gradients that are formed for one product
MOST_OUTPUTS = 1000  # of a sequence, at all its positions
_PASSED = 16  # a sixteenth holds the features of one pass; passing makes copies of them

Features = dict[str, Feature]


def memory_budget(device: torch.device) -> int:
    """Bytes that features may take: the budget, by default 2 GiB on a CPU."""
    if device.type == "cpu" and bytes_allowed.given() is None:
        return 2**31
    return bytes_allowed.available(device)


def gram_matrices(
    network: nn.Module,
    inputs: Tensor,
    other: Tensor | None,
    *,
    whole: bool,
    parameters: str | Sequence[str] | None,
    batch: int | None,
    memory: int | None,
) -> dict[str, Tensor]:
    """Gram matrices of layers, or their sum, block of rows by block of rows.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        inputs: Samples (n, ...).
        other: Other samples (m, ...) for rectangular matrices.
        whole: Whether it is the sum over layers, under an empty name.
        parameters: Names or patterns of parameters; all by default.
        batch: Samples a block.
        memory: Bytes that features may take beside the matrices.

    Returns:
        Matrices (n C, m C) by layer.

    >>> inputs = torch.tensor([[1.0], [2.0]], device="cpu")
    >>> rest = {"whole": True, "parameters": None, "batch": None, "memory": None}
    >>> gram_matrices(nn.Linear(1, 1, bias=False), inputs, None, **rest)[""]
    tensor([[1., 2.],
            [2., 4.]])
    """
    outputs = FlatOutputs(network, parameters)
    refuse_many_outputs(Outputs(network, parameters), inputs)
    dtype = outputs.layout.dtype
    if memory is None:
        memory = memory_budget(inputs.device)
    with floating_inputs(network, inputs, dtype) as left:
        layers = KernelLayers(outputs, left)
        layers.warn()
        # samples of a block, of which there may be fewer
        most = len(left) if other is None else max(len(left), len(other))
        first = min(most, FeatureBlocks(layers, left, batch=batch, memory=memory).size)

        def work(block: int) -> dict[str, Tensor]:
            # smaller blocks, and as much less that is stored
            allowed = memory * block // first
            rows = FeatureBlocks(layers, left, batch=block, memory=allowed)
            columns = rows
            if other is not None:
                columns = FeatureBlocks(layers, other.to(dtype), batch=block, memory=allowed)
            grams = GramSum(rows, columns, whole=whole, chunk_bytes=allowed // _FORMED)
            grams.fill()
            return grams.totals

        return bytes_allowed.halving(work, first, what="samples a block of kernels")


def refuse_many_outputs(outputs: Outputs, inputs: Tensor) -> None:
    """Refuse sequences with so many positions and classes that no pass for each is affordable."""
    shape = outputs.sample_shape(inputs)
    if len(shape) == 2 and shape.numel() > MOST_OUTPUTS:
        raise Refusal(
            f"a sequence has {shape[0]} x {shape[1]} outputs (positions x classes), expected at "
            f"most {MOST_OUTPUTS}: take the kernel of loss gradients or of sampled outputs instead "
            "(`sequence_columns`)"
        )


class KernelLayers:
    """Features of a network's layers on a batch, whatever the layers are.

    Args:
        outputs: The network as a function of the parameters that count.
        inputs: Some samples, on which layers are tried.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    >>> layers = KernelLayers(Outputs(network, None), torch.ones(4, 2, device="cpu"))
    >>> layers.routes()
    {'0': 'inputs and errors', '1': 'gradients of samples'}
    """

    def __init__(self, outputs: Outputs, inputs: Tensor) -> None:
        outputs = FlatOutputs(outputs.network, outputs.layout.names)
        self.outputs = outputs
        self._sample = inputs[:_CHECKED]
        self._uses = layer_uses(outputs, self._sample)
        with torch.no_grad():
            made = outputs(outputs.values, inputs[:1])
        self.classes = made.shape[1]

        # layers that do not see samples one by one
        self.foreign = []
        for name, use in self._uses.items():
            if not use.sample_first:
                self.foreign.append(name)
        names = outputs.layout.names
        dense = [name for name in names if _module_of(name) in self.foreign]
        others = [name for name in names if name not in dense]

        # of either there may be none
        self._dense = None
        if dense:
            self._dense = FlatOutputs(outputs.network, dense)
        self._layered = None
        if others:
            self._layered = TangentFeatures(outputs.network, self._sample, parameters=others)

    @property
    def factored(self) -> tuple[str, ...]:
        """Layers that go by their inputs and errors."""
        if self._layered is None:
            return ()
        return self._layered.layers

    def routes(self) -> dict[str, str]:
        """The route of every layer, and why where it is not that of other linear layers."""
        routes = {}
        for name in self.outputs.layout.names:
            layer = _module_of(name)
            routes[layer] = "gradients of samples"
            if layer in self.factored:
                routes[layer] = "inputs and errors"
            elif layer in self.foreign:
                routes[layer] += ", because its first axis is not the sample"
        return routes

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
        features: Features = {}
        if self._layered is not None:
            features |= self._layered(inputs)
        if self._dense is not None:
            gradients = sample_gradients(self._dense, inputs)
            features |= rows_by_module(gradients)
        return features

    def bytes_of_a_sample(self) -> tuple[int, int]:
        """Bytes of one sample's features as they come, and in the form that is stored."""
        raw = stored = 0
        # parameters that have one gradient per output
        layout = self.outputs.layout
        for name, size in zip(layout.names, layout.sizes):
            if _module_of(name) not in self.factored:
                raw += size * self.classes
                stored += size * self.classes

        # and layers that have inputs and errors
        for name in self.factored:
            use = self._uses[name]
            layer = LayerSize(
                positions=use.positions, width=use.width, units=use.units, outputs=self.classes
            )
            raw += layer.factors
            stored += layer.stored
        number = torch.finfo(layout.dtype).bits // 8
        return raw * number, stored * number


def _module_of(name: str) -> str:
    """The module that holds a parameter."""
    return name.rpartition(".")[0]


class FeatureBlocks:
    """Features of samples, block by block; blocks are cached while they fit.

    Args:
        layers: What gives features of a batch.
        inputs: The samples.
        batch: Samples a block at most; the device decides by default.
        memory: Bytes that features may take.
    """

    def __init__(
        self, layers: KernelLayers, inputs: Tensor, *, batch: int | None, memory: int
    ) -> None:
        self.layers = layers
        self.inputs = inputs
        self._room = memory // CACHE_SHARE
        self._cached: dict[int, Features] = {}

        # all samples in one block if they fit; else a block on the left and one on the right
        raw, stored = layers.bytes_of_a_sample()
        fitting = self._room // stored
        largest = fitting if fitting >= len(inputs) else fitting // 2
        requested = batch or batch_size(inputs.device)
        block = min(requested, largest)
        self.size = max(1, block)

        # passes may have to be smaller, because features are larger when they come
        passing = memory // _PASSED // raw
        smaller = min(self.size, passing)
        self.passed = max(1, smaller)

    def starts(self, first: int = 0) -> range:
        """The first samples of the blocks from that sample on."""
        count = len(self.inputs)
        return range(first, count, self.size)

    def at(self, start: int) -> Features:
        """The features of the block that starts there."""
        if start in self._cached:
            return self._cached[start]
        end = start + self.size
        made = self._made(self.inputs[start:end])

        # cached while there is room
        size = sum(each.bytes for each in made.values())
        if size <= self._room:
            self._cached[start] = made
            self._room -= size
        return made

    def _made(self, inputs: Tensor) -> Features:
        """Features of a block, from passes that are small enough."""
        if len(inputs) <= self.passed:
            return _small_forms(self.layers(inputs))

        # else pass by pass
        features: Features = {}
        count = len(inputs)
        for start in range(0, count, self.passed):
            end = start + self.passed
            passed = _small_forms(self.layers(inputs[start:end]))
            # memory is allocated once, so that blocks need not be concatenated
            for layer, feature in passed.items():
                if layer not in features:
                    features[layer] = room_for(feature, count)
                put_features(features[layer], start, feature)
        return features


def _small_forms(features: Features) -> Features:
    """Each feature in the form in which it is stored."""
    forms = {}
    for layer, feature in features.items():
        forms[layer] = smaller_form(feature)
    return forms


class GramSum:
    """Gram matrices under construction, one a layer or one for all.

    Args:
        rows: Blocks of the samples of rows.
        columns: Those of columns; the same object where the matrices are symmetric.
        whole: Whether layers are added up.
        chunk_bytes: Gradients that may be formed at once.
    """

    def __init__(
        self, rows: FeatureBlocks, columns: FeatureBlocks, *, whole: bool, chunk_bytes: int
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.whole = whole
        self.chunk_bytes = chunk_bytes
        self.classes = rows.layers.classes
        self.totals: dict[str, Tensor] = {}

    @property
    def symmetric(self) -> bool:
        """Whether the kernel is that of samples with themselves."""
        return self.rows is self.columns

    def fill(self) -> None:
        """Add the products of all pairs of blocks."""
        for start in self.rows.starts():
            mine = self.rows.at(start)
            # of a symmetric kernel only what is on and above the diagonal
            first = start if self.symmetric else 0
            for begin in self.columns.starts(first):
                same = self.symmetric and begin == start
                theirs = mine if same else self.columns.at(begin)
                self._add(start, mine, begin, theirs)
        # what is below it follows
        if self.symmetric:
            self._mirror()

    def _add(self, start: int, mine: Features, begin: int, theirs: Features) -> None:
        """Add the products of two blocks that start at these samples."""
        rows = self._slice(start, self.rows.size)
        columns = self._slice(begin, self.columns.size)
        for layer, left in mine.items():
            name = "" if self.whole else layer
            block = self._total(name)[rows, columns]
            add_gram(block, left, theirs[layer], chunk_bytes=self.chunk_bytes)

    def _slice(self, start: int, size: int) -> slice:
        """The rows of a block of samples."""
        first = start * self.classes
        last = (start + size) * self.classes
        return slice(first, last)

    def _total(self, name: str) -> Tensor:
        """The matrix under a name; zeros at first."""
        if name not in self.totals:
            rows = len(self.rows.inputs) * self.classes
            columns = len(self.columns.inputs) * self.classes
            self.totals[name] = torch.zeros(
                rows,
                columns,
                device=self.rows.inputs.device,
                dtype=self.rows.layers.outputs.layout.dtype,
            )
        return self.totals[name]

    def _mirror(self) -> None:
        """Fill what is below the diagonal."""
        step = self.rows.size * self.classes
        for total in self.totals.values():
            for start in range(0, len(total), step):
                # the block on the diagonal, and what is beside it
                end = start + step
                mirror(total[start:end, start:end], self.classes)
                beside = total[start:end, end:]
                total[end:, start:end] = beside.T
