"""Second moments and class means of what a layer is given (h) and of its backpropagated errors (delta), by one pass over the data.

For sample i of class c, delta_{i,c,c'} = E_i^T (p_i - e_{c'}), with E_i the derivative of the outputs in what the layer gives. A layer
used at several positions, a convolution among them, has as many samples more. Nothing of the size of all samples is kept: matrices
of the layer's inputs and outputs, and sums over classes; permuted classes are other sums over the same pass.
Reference: Papyan, JMLR 2020, section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.class_means import cross_class_weights
from penchant_numerics.layer_features import Factored, TangentFeatures
from torch import Tensor, nn

_PASS_BYTES = 2**28  # of the errors of a layer in one pass


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
        cross = self.errors / self.weights.clamp(min=1e-300)[:, :, None]
        share = self.across()
        return (share[:, :, None] * cross).sum(1), cross

    def across(self) -> Tensor:
        """pi_{c,c'} (C, C), zero on the diagonal."""
        off = self.weights - torch.diag(self.weights.diagonal())
        return off / off.sum(1, keepdim=True).clamp(min=1e-300)


@dataclass
class LayerMoments:
    """Of one layer: second moments, gradient of the loss, weights, and class sums of every labelling (the true one first)."""

    name: str
    features: Tensor  # (d, d), Ave h h^T
    errors: Tensor  # (o, o), sum w delta delta^T
    gradient: Tensor  # (o, d), Ave delta_{i,c,c} h^T, summed over positions
    weight: Tensor  # (o, d)
    sums: list[ClassSums]


def layer_moments(
    network: nn.Module, inputs: Tensor, labellings: Sequence[Tensor], *, largest: int
) -> tuple[list[LayerMoments], list[str]]:
    """Moments of all layers whose inputs and outputs are at most `largest` numbers, in the network's order; and the layers left out."""
    features = TangentFeatures(network, inputs[:4])
    first = {
        name: each for name, each in features(inputs[:1]).items() if isinstance(each, Factored)
    }
    small = [
        name
        for name in features.layers
        if max(first[name].inputs.shape[2], first[name].errors.shape[3]) <= largest
    ]
    wide = [name for name in features.layers if name not in small]
    if not small:
        return [], wide
    modules = dict(network.named_modules())
    with torch.no_grad():
        outputs = torch.cat([network(part) for part in inputs.split(1024)])
    weights = [cross_class_weights(outputs, labels) for labels in labellings]
    p = weights[0].probabilities
    classes = p.shape[1]
    found = {
        name: _empty(name, first[name], modules[name], classes, [each.pairs for each in weights])
        for name in small
    }
    numbers = max(each.errors[0].numel() for each in first.values())
    size = max(1, min(128, _PASS_BYTES // (numbers * inputs.element_size())))
    for start in range(0, len(inputs), size):
        here = slice(start, start + size)
        made = features(inputs[here])
        for name in small:
            _add(
                found[name],
                made[name],
                p[here],
                [labels[here] for labels in labellings],
                len(inputs),
            )
    return list(found.values()), wide


def _empty(
    name: str, sample: Factored, module: nn.Module, classes: int, pairs: list[Tensor]
) -> LayerMoments:
    d, o, positions = sample.inputs.shape[2], sample.errors.shape[3], sample.inputs.shape[1]

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(*shape, device="cpu", dtype=torch.float64)

    C = classes
    sums = [
        ClassSums(zeros(C), zeros(C, d), zeros(C, C, o), each.cpu() * positions, zeros(C, o))
        for each in pairs
    ]
    weight = module.weight.detach().flatten(1).double().cpu()
    return LayerMoments(name, zeros(d, d), zeros(o, o), zeros(o, d), weight, sums)


def _add(
    layer: LayerMoments, batch: Factored, p: Tensor, labellings: list[Tensor], total: int
) -> None:
    h, E = batch.inputs.double(), batch.errors.double()  # (n, t, d), (n, C, t, o)
    count, positions = h.shape[:2]
    delta = torch.einsum("nc,ncto->nto", p, E)[:, None] - E  # (n, C', t, o)
    rows = h.flatten(0, 1)
    layer.features += (rows.T @ rows).cpu() / (total * positions)
    weighted = (delta * (p[:, :, None, None] / total)).flatten(0, 2)
    layer.errors += (delta.flatten(0, 2).T @ weighted).cpu()
    own = delta[torch.arange(count, device=h.device), labellings[0]]  # (n, t, o)
    layer.gradient += (own.flatten(0, 1).T @ rows).cpu() / total
    for sums, labels in zip(layer.sums, labellings):
        at = labels.cpu()
        sums.counts.index_add_(
            0, at, torch.full((count,), float(positions), device="cpu", dtype=torch.float64)
        )
        sums.features.index_add_(0, at, h.sum(1).cpu())
        sums.errors.index_add_(0, at, (delta.sum(2) * (p[:, :, None] / total)).cpu())
        chosen = delta[torch.arange(count, device=h.device), labels]
        sums.own.index_add_(0, at, chosen.sum(1).cpu())
