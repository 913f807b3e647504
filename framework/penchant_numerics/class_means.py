"""Class and cross-class means of extended gradients g_{i,c,c'} = J_i^T (p_i - e_{c'}) of softmax cross-entropy.

Sample i of class c weighs w_{i,c,c'} = p_{i,c'} / N in the mean g_{c,c'} over i, whose weight is w_{c,c'} = sum_i w_{i,c,c'}; the class
mean g_c is over the c' that are not c. Classes of unequal size need nothing else: N is the number of all samples. Since
sum_{c'} w_{i,c,c'} g_{i,c,c'} = 0, w_{c,c} g_{c,c} = -w_c g_c. Reference: Papyan, JMLR 2020, section 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.gauss_newton import batch_size
from penchant_numerics.linearisation import Outputs
from penchant_numerics.moments import accumulation_dtype
from torch import Tensor, nn


@dataclass(frozen=True)
class CrossClassWeights:
    """Weights of samples in cross-class means, of these in class means, and the probabilities they come from; double precision.

    >>> weights = cross_class_weights(torch.zeros(2, 2, device="cpu"), torch.tensor([0, 1], device="cpu"))
    >>> weights.pairs.tolist(), weights.classes.tolist()
    ([[0.25, 0.25], [0.25, 0.25]], [0.25, 0.25])
    """

    labels: Tensor  # (n,)
    probabilities: Tensor  # (n, C), p_{i,c'}
    pairs: Tensor  # (C, C), w_{c,c'}

    @property
    def classes(self) -> Tensor:
        """w_c (C,), the sum over c' that are not c."""
        return self.pairs.sum(1) - self.pairs.diagonal()

    @property
    def counts(self) -> Tensor:
        """Samples of each class (C,)."""
        return self.labels.bincount(minlength=len(self.pairs))

    def within(self) -> Tensor:
        """pi_{i,c,c'} (n, C): the share of a sample in the mean of its class and c'; zero where no sample has any weight."""
        share = self.probabilities / len(self.labels)
        total = self.pairs[self.labels]
        return torch.where(total > 0, share / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)

    def across(self) -> Tensor:
        """pi_{c,c'} (C, C): the share of a cross-class mean in the class mean; zero on the diagonal."""
        off = self.pairs - torch.diag(self.pairs.diagonal())
        return off / self.classes.clamp(min=torch.finfo(off.dtype).tiny)[:, None]


def cross_class_weights(outputs: Tensor, labels: Tensor) -> CrossClassWeights:
    """Weights from outputs (n, C) and labels (n,); every class needs a sample."""
    classes = outputs.shape[1]
    if classes < 2 or int(labels.max()) >= classes:
        raise ValueError(
            f"expected one output for each of at least two classes, found {classes} outputs and labels to {int(labels.max())}"
        )
    if int(labels.bincount(minlength=classes).min()) == 0:
        raise ValueError(
            f"every class needs a sample, found none of class {int(labels.bincount(minlength=classes).argmin())}"
        )
    p = outputs.to(accumulation_dtype(outputs.device)).softmax(1)
    pairs = torch.zeros(classes, classes, device=p.device, dtype=p.dtype).index_add(
        0, labels, p
    ) / len(labels)
    return CrossClassWeights(labels, p, pairs)


def network_outputs(outputs: Outputs, inputs: Tensor, *, batch: int | None = None) -> Tensor:
    """Outputs (n, C) of all samples."""
    with torch.no_grad():
        return torch.cat(
            [
                outputs(outputs.values, part)
                for part in inputs.split(batch or batch_size(inputs.device))
            ]
        )


def mean_gradients(
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
    classes: Sequence[int] | None = None,
    weights: CrossClassWeights | None = None,
) -> Iterator[tuple[int, Tensor]]:
    """Yield (c, rows (C, parameters) of the cross-class means g_{c,c'}), class after class.

    A class costs one forward pass over its samples and C - 1 backward passes, g_{c,c} follows from the others: over all classes that
    is less than C gradients of the data.
    """
    outputs = Outputs(network, parameters)
    if weights is None:
        weights = cross_class_weights(network_outputs(outputs, inputs, batch=batch), labels)
    within = weights.within()
    units = torch.eye(len(weights.pairs), device=inputs.device, dtype=within.dtype)
    for c in range(len(weights.pairs)) if classes is None else classes:
        chosen = torch.nonzero(labels == c).flatten()
        p, pi = weights.probabilities[chosen], within[chosen]
        others = [k for k in range(len(units)) if k != c]
        cotangents = (p - units[others, None]) * pi.T[
            others, :, None
        ]  # (c', samples, C): pi (p - e_c')
        rows = torch.empty(
            len(units), outputs.layout.size, device=inputs.device, dtype=outputs.layout.dtype
        )
        pulled_back(
            outputs,
            inputs[chosen],
            cotangents.to(rows.dtype),
            [rows[k] for k in others],
            batch=batch,
        )
        rows[c] = 0
        rows[c] = (
            -(weights.pairs[c] / weights.pairs[c, c].clamp(min=torch.finfo(units.dtype).tiny)).to(
                rows.dtype
            )
            @ rows
        )
        yield c, rows


def pulled_back(
    outputs: Outputs,
    inputs: Tensor,
    cotangents: Tensor,
    rows: Sequence[Tensor],
    *,
    batch: int | None = None,
) -> None:
    """Write sum_i J_i^T u_i, for cotangents u (k, n, C), into k rows (parameters,): one forward pass and k backward passes."""
    size = batch or batch_size(inputs.device)
    for number, (part, u) in enumerate(zip(inputs.split(size), cotangents.split(size, dim=1))):
        leaves = outputs.leaves()
        with torch.enable_grad():
            made = outputs(leaves, part)
        put = outputs.layout.add_ if number else outputs.layout.write_
        for row, each in zip(rows, u):
            put(
                row,
                torch.autograd.grad(made, leaves, each, retain_graph=True, materialize_grads=True),
            )
