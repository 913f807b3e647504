"""Second moments and class means of what a layer is given (h) and of its errors (delta).

For sample i of class c, delta_{i,c,c'} = E_i^T (p_i - e_{c'}), with E_i the derivative of the
outputs in what the layer gives. A layer used at several positions, a convolution among them, has
as many samples more. One pass over the data suffices, and nothing of the size of all samples is
kept: matrices of the layer's inputs and outputs, and sums over classes; permuted classes are other
sums over the same pass.

Reference: Papyan, JMLR 2020, section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from penchant_numerics.class_means import cross_class_weights
from penchant_numerics.layer_features import Factored, TangentFeatures
from penchant_numerics.trainer import outputs
from torch import Tensor, nn

_PASS_BYTES = 2**28  # of the errors of a layer in one pass
_LARGEST_PASS = 128  # samples
_TINY = 1e-300


@dataclass
class ClassSums:
    """Sums over the samples of each class for one labelling, in double precision, on the CPU."""

    counts: Tensor  # (C,), samples times positions
    features: Tensor  # (C, d), of h
    errors: Tensor  # (C, C, o), of p_{c'} delta_{c'} / N
    weights: Tensor  # (C, C), of p_{c'} / N
    own: Tensor  # (C, o), of delta_{c}

    def feature_means(self) -> Tensor:
        """h_c (C, d)."""
        return self.features / self.counts[:, None]

    def error_means(self) -> tuple[Tensor, Tensor]:
        """delta_c (C, o), and the cross-class means delta_{c,c'} (C, C, o)."""
        weights = self.weights.clamp(min=_TINY)
        cross = self.errors / weights[:, :, None]
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
    """Moments of the layers that can be looked at, in the network's order, and all others."""

    moments: list[LayerMoments] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)  # with too many inputs or outputs
    unlike: list[str] = field(default_factory=list)  # whose gradient is not errors times inputs


def layer_moments(
    network: nn.Module,
    inputs: Tensor,
    labellings: Sequence[Tensor],
    *,
    largest: int,
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
    features = TangentFeatures(network, inputs[:4])
    first = _factored(features, inputs[:1])
    found = Layers(unlike=_other_weights(network, features))
    small = []
    for name in features.layers:
        width = max(first[name].inputs.shape[2], first[name].errors.shape[3])

        # matrices of inputs and of outputs are kept
        fits = width <= largest
        (small if fits else found.wide).append(name)
    if not small:
        return found

    # every labelling has weights of its own, from the same probabilities
    weights = [cross_class_weights(outputs(network, inputs), labels) for labels in labellings]
    p = weights[0].probabilities
    pairs = [each.pairs for each in weights]
    modules = dict(network.named_modules())
    moments = {name: _empty(name, first[name], modules[name], pairs) for name in small}

    # one pass over the samples, in batches whose errors fit
    size = _pass_size(first, inputs)
    for start in range(0, len(inputs), size):
        here = slice(start, start + size)
        made = features(inputs[here])
        labels = [each[here] for each in labellings]
        for name in small:
            _add(moments[name], made[name], p[here], labels, len(inputs))
    found.moments = list(moments.values())
    return found


def _factored(features: TangentFeatures, inputs: Tensor) -> dict[str, Factored]:
    """What linear layers have of some inputs, by name."""
    found = {}
    for name, each in features(inputs).items():
        if isinstance(each, Factored):
            found[name] = each
    return found


def _pass_size(first: dict[str, Factored], inputs: Tensor) -> int:
    """Samples of one pass, by the layer with the most errors."""
    numbers = max(each.errors[0].numel() for each in first.values())
    fitting = _PASS_BYTES // (numbers * inputs.element_size())
    return max(1, min(_LARGEST_PASS, fitting))


def _other_weights(network: nn.Module, features: TangentFeatures) -> list[str]:
    """Modules with a matrix of weights that are not among the layers: grouped, tied, attention."""
    sizes = {name: value.dim() for name, value in network.named_parameters()}
    modules: dict[str, None] = {}
    for name in features.others:
        if sizes[name] > 1:
            module = name.rpartition(".")[0]
            modules[module] = None
    return list(modules)


def _empty(name: str, sample: Factored, module: nn.Module, pairs: list[Tensor]) -> LayerMoments:
    # a position counts as a sample
    d, o = sample.inputs.shape[2], sample.errors.shape[3]
    positions = sample.inputs.shape[1]
    C = len(pairs[0])

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(
            *shape,
            device="cpu",
            dtype=torch.float64,
        )

    sums = []
    for each in pairs:
        weights = each.cpu() * positions
        sums.append(ClassSums(zeros(C), zeros(C, d), zeros(C, C, o), weights, zeros(C, o)))
    weight = module.weight.detach().flatten(1).double().cpu()
    return LayerMoments(name, zeros(d, d), zeros(o, o), zeros(o, d), weight, sums)


def _add(
    layer: LayerMoments,
    batch: Factored,
    p: Tensor,
    labellings: list[Tensor],
    total: int,
) -> None:
    """Add a batch with probabilities p (n, C), of `total` samples."""
    h, E = batch.inputs.double(), batch.errors.double()  # (n, t, d), (n, C, t, o)
    count, positions = h.shape[:2]
    delta = torch.einsum("nc,ncto->nto", p, E)[:, None] - E  # (n, C', t, o)

    # second moments
    rows = h.flatten(0, 1)
    layer.features += (rows.T @ rows).cpu() / (total * positions)
    weighted = (delta * (p[:, :, None, None] / total)).flatten(0, 2)
    layer.errors += (delta.flatten(0, 2).T @ weighted).cpu()

    # the gradient of the loss, at the true labels
    numbers = torch.arange(count, device=h.device)
    own = delta[numbers, labellings[0]]  # (n, t, o)
    layer.gradient += (own.flatten(0, 1).T @ rows).cpu() / total

    # the same batch, sorted by each labelling
    errors = (delta.sum(2) * (p[:, :, None] / total)).cpu()
    inputs = h.sum(1).cpu()
    for sums, labels in zip(layer.sums, labellings):
        chosen = delta[numbers, labels].sum(1).cpu()
        _add_to_classes(sums, labels.cpu(), positions, inputs, errors, chosen)


def _add_to_classes(
    sums: ClassSums,
    labels: Tensor,
    positions: int,
    inputs: Tensor,
    errors: Tensor,
    own: Tensor,
) -> None:
    """Add samples with labels (n,) to the sums of their classes."""
    counts = torch.full(
        (len(labels),),
        float(positions),
        device="cpu",
        dtype=torch.float64,
    )
    sums.counts.index_add_(0, labels, counts)
    sums.features.index_add_(0, labels, inputs)
    sums.errors.index_add_(0, labels, errors)
    sums.own.index_add_(0, labels, own)
