"""Second moments and class means of what a layer is given (h) and of its errors (delta).

For sample i of class c, delta_{i,c,c'} = E_i^T (p_i - e_{c'}), with E_i the derivative of the
outputs in what the layer gives. A layer used at several positions, a convolution among them, has
as many samples more. One pass over the data suffices, and nothing of the size of all samples is
stored, only matrices of the layer's inputs and outputs, and sums over classes; permuted classes
are other sums over the same pass. A batch passes forth once and back once per c', and what arrives
at a layer is added up at once, in double precision.

Reference: Papyan, JMLR 2020, section 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import torch
from penchant_numerics.device import accumulation_dtype, fitting_batch, memory
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import (
    LayerPass,
    TangentFeatures,
    errors_at_positions,
    layer_pass,
    seen_at_positions,
    weight_matrix,
)
from penchant_numerics.training import outputs
from torch import Tensor, nn

from penchant_class_structure.shared.class_means import cross_class_weights

_TRIED = 4  # samples on which the gradient of a layer is compared with errors times inputs
_LARGEST_PASS = 128  # samples
_TINY = 1e-300

Errors = dict[str, list[Tensor | None]]  # of layers by name, use by use


@dataclass
class ClassSums:
    """Sums over the samples of each class for one labelling, in double precision."""

    counts: Tensor  # (C,), samples times positions
    features: Tensor  # (C, d), of h
    errors: Tensor  # (C, C, o), of p_{c'} delta_{c'} / N
    weights: Tensor  # (C, C), of p_{c'} / N
    own: Tensor  # (C, o), of delta_{c}

    def feature_means(self) -> Tensor:
        """h_c (C, d)."""
        counts = self.counts[:, None]
        return self.features / counts

    def error_means(self) -> tuple[Tensor, Tensor]:
        """delta_c (C, o), and the cross-class means delta_{c,c'} (C, C, o)."""
        weights = self.weights.clamp(min=_TINY)
        cross = self.errors / weights[:, :, None]

        # a class's mean is over the other classes, as probable as they are
        share = self.across()
        means = (share[:, :, None] * cross).sum(1)
        return means, cross

    def across(self) -> Tensor:
        """pi_{c,c'} (C, C), zero on the diagonal."""
        own = torch.diag(self.weights.diagonal())
        off = self.weights - own
        total = off.sum(1, keepdim=True)
        return off / total.clamp(min=_TINY)


@dataclass
class LayerMoments:
    """Second moments of one layer, its gradient and weights, and sums of every labelling."""

    name: str
    features: Tensor  # (d, d), Ave h h^T
    errors: Tensor  # (o, o), sum w delta delta^T
    gradient: Tensor  # (o, d), Ave delta_{i,c,c} h^T, summed over positions
    weight: Tensor  # (o, d)
    sums: list[ClassSums]  # the true labels first


@dataclass
class Layers:
    """Moments of the layers that can be measured, in the network's order, and all others."""

    moments: list[LayerMoments] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)  # with too many inputs or outputs
    unlike: list[str] = field(default_factory=list)  # whose gradient is not errors times inputs


def layer_moments(
    network: nn.Module, inputs: Tensor, labellings: Sequence[Tensor], *, largest: int
) -> Layers:
    """Moments of all linear layers and convolutions.

    Args:
        network: A classifier in evaluation mode.
        inputs: Inputs (n, ...).
        labellings: Labels (n,): the true ones first, then permutations of them.
        largest: Inputs or outputs of a layer at most.

    Returns:
        The layers' moments, and the names of layers that are left out.
    """
    features = TangentFeatures(network, inputs[:_TRIED])
    layers = Layers(unlike=_other_weights(network, features))
    small = {}
    for name in features.layers:
        # matrices of inputs and of outputs are stored
        module = network.get_submodule(name)
        if max(weight_matrix(module).shape) <= largest:
            small[name] = module
        else:
            layers.wide.append(name)
    if not small:
        return layers

    passes = _Passes(network, inputs, labellings, small)
    size = fitting_batch(passes.measured, inputs, largest=_LARGEST_PASS)
    moments = memory.halving(passes.run, size, what="samples per pass of layers")
    layers.moments = [_on_host(moments[name]) for name in small]
    return layers


def _other_weights(network: nn.Module, features: TangentFeatures) -> list[str]:
    """Modules with a matrix of weights that are not among the layers: grouped, tied, attention."""
    sizes = {name: value.dim() for name, value in network.named_parameters()}
    modules: dict[str, None] = {}
    for name in features.others:
        if sizes[name] > 1:
            module = name.rpartition(".")[0]
            modules[module] = None
    return list(modules)


class _Passes:
    """Passes over all samples, by which moments of some layers are added up.

    Args:
        network: The network.
        inputs: Inputs (n, ...).
        labellings: Labels (n,), the true ones first.
        layers: Linear layers by name.
    """

    def __init__(
        self,
        network: nn.Module,
        inputs: Tensor,
        labellings: Sequence[Tensor],
        layers: Mapping[str, nn.Module],
    ) -> None:
        self.outputs = Outputs(network)
        self.inputs = inputs
        self.labellings = labellings
        self.layers = layers
        self.wide = accumulation_dtype(inputs.device)

        # every labelling has weights of its own, from the same probabilities
        made = outputs(network, inputs)
        weights = [cross_class_weights(made, labels) for labels in labellings]
        self.p = weights[0].probabilities
        self.pairs = [each.pairs for each in weights]

    def run(self, size: int) -> dict[str, LayerMoments]:
        """Moments of all samples, `size` per pass."""
        moments: dict[str, LayerMoments] = {}
        count = len(self.inputs)
        for start in range(0, count, size):
            here = slice(start, start + size)
            p = self.p[here]
            labels = [each[here] for each in self.labellings]
            self._add(moments, self.inputs[here], p, labels)
        return moments

    def measured(self, inputs: Tensor) -> None:
        """A pass of any samples: two columns hold as much as all."""
        count = len(inputs)

        # labels and probabilities of the first sample stand for any
        labels = [each[:1].expand(count) for each in self.labellings]
        p = self.p[:1].expand(count, -1)
        self._add({}, inputs, p, labels, first=2)

    def _add(
        self,
        moments: dict[str, LayerMoments],
        inputs: Tensor,
        p: Tensor,
        labellings: Sequence[Tensor],
        *,
        first: int | None = None,
    ) -> None:
        """Add a batch with probabilities p (n, C); towards the first columns only, or all."""
        passed = layer_pass(self.outputs, inputs, self.layers)
        for name in passed.layers:
            h = self._seen(passed, name)
            if name not in moments:
                moments[name] = self._empty(name, h.shape[1])
            self._add_features(moments[name], h, labellings)

        # errors towards one class at a time
        classes = p.shape[1]
        units = torch.eye(classes, device=p.device, dtype=p.dtype)
        for other in range(classes)[:first]:
            errors = self._errors(passed, p - units[other])
            for name in passed.layers:
                delta = self._layer_errors(passed, name, errors.pop(name))
                self._add_errors(moments[name], delta, p[:, other], labellings, other)

        # the gradient of the loss, at the true labels
        errors = self._errors(passed, p - units[labellings[0]])
        for name in passed.layers:
            own = self._layer_errors(passed, name, errors.pop(name)).flatten(0, 1)
            rows = self._seen(passed, name).flatten(0, 1)
            moments[name].gradient += self._product(own, rows) / len(self.inputs)

    def _errors(self, passed: LayerPass, cotangent: Tensor) -> Errors:
        """Errors of all layers, use by use."""
        given = cotangent.to(passed.outputs.dtype)
        return passed.errors(given)

    @torch.no_grad()
    def _seen(self, passed: LayerPass, name: str) -> Tensor:
        """What a layer saw, (n, t, d), in double precision."""
        layer = self.layers[name]
        seen = seen_at_positions(layer, passed.inputs(name))
        return seen.to(self.wide)

    @torch.no_grad()
    def _layer_errors(
        self, passed: LayerPass, name: str, errors: Sequence[Tensor | None]
    ) -> Tensor:
        """Errors of a layer, (n, t, o), in double precision."""
        layer = self.layers[name]
        layer_errors = errors_at_positions(layer, passed.inputs(name), errors)
        return layer_errors.to(self.wide)

    def _product(self, left: Tensor, right: Tensor) -> Tensor:
        """The matrix left^T right of a batch; sums of batches are in double precision.

        GPUs for consumers multiply in double precision at 1/64 of their speed, so that on devices
        products have the network's precision.
        """
        if left.device.type == "cpu":
            return left.T @ right
        own = self.outputs.layout.dtype
        product = left.to(own).T @ right.to(own)
        return product.to(self.wide)

    def _add_features(self, layer: LayerMoments, h: Tensor, labellings: Sequence[Tensor]) -> None:
        """Add what a layer saw, (n, t, d)."""
        positions = h.shape[1]
        rows = h.flatten(0, 1)
        layer.features += self._product(rows, rows) / (len(self.inputs) * positions)

        # a sample's positions are of its class
        inputs = h.sum(1)
        for sums, labels in zip(layer.sums, labellings):
            counts = torch.full_like(inputs[:, 0], positions)
            sums.counts.index_add_(0, labels, counts)
            sums.features.index_add_(0, labels, inputs)

    def _add_errors(
        self,
        layer: LayerMoments,
        delta: Tensor,
        p: Tensor,
        labellings: Sequence[Tensor],
        other: int,
    ) -> None:
        """Add errors (n, t, o) towards one c', of probabilities p (n,)."""
        weights = p / len(self.inputs)
        weighted = (delta * weights[:, None, None]).flatten(0, 1)
        layer.errors += self._product(delta.flatten(0, 1), weighted)
        by_sample = delta.sum(1)
        errors = by_sample * weights[:, None]
        for sums, labels in zip(layer.sums, labellings):
            sums.errors[:, other].index_add_(0, labels, errors)
            # the samples whose own class it is
            own = (labels == other).to(by_sample.dtype)
            sums.own.index_add_(0, labels, by_sample * own[:, None])

    def _empty(self, name: str, positions: int) -> LayerMoments:
        """Sums without any samples; a position counts as a sample."""
        weight = weight_matrix(self.layers[name]).detach().to(self.wide)
        o, d = weight.shape
        C = self.p.shape[1]

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, device=weight.device, dtype=weight.dtype)

        sums = []
        for pairs in self.pairs:
            empty = ClassSums(
                counts=zeros(C),
                features=zeros(C, d),
                errors=zeros(C, C, o),
                weights=pairs * positions,
                own=zeros(C, o),
            )
            sums.append(empty)
        return LayerMoments(
            name,
            features=zeros(d, d),
            errors=zeros(o, o),
            gradient=zeros(o, d),
            weight=weight,
            sums=sums,
        )


def _on_host(layer: LayerMoments) -> LayerMoments:
    """The same in the host's memory, where what follows is small."""
    sums = []
    for each in layer.sums:
        tensors = {field.name: getattr(each, field.name).double().cpu() for field in fields(each)}
        sums.append(ClassSums(**tensors))
    return LayerMoments(
        layer.name,
        layer.features.double().cpu(),
        layer.errors.double().cpu(),
        layer.gradient.double().cpu(),
        layer.weight.double().cpu(),
        sums,
    )
