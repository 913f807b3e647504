"""Class and cross-class means of extended gradients of softmax cross-entropy.

The extended gradient is g_{i,c,c'} = J_i^T (p_i - e_{c'}). Sample i of class c weighs
w_{i,c,c'} = p_{i,c'} / N in the mean g_{c,c'} over i, whose weight is w_{c,c'} = sum_i w_{i,c,c'};
the class mean g_c is over the c' that are not c. Classes of unequal size need nothing else: N is
the number of all samples. Since sum_{c'} w_{i,c,c'} g_{i,c,c'} = 0, w_{c,c} g_{c,c} = -w_c g_c.

Reference: Papyan, JMLR 2020, section 6.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics import Refusal
from penchant_numerics.curvature import PASS_SHARE
from penchant_numerics.device import accumulation_dtype, batch_size, fitting_batch, memory
from penchant_numerics.jacobians import Outputs
from torch import Tensor, nn


@dataclass(frozen=True)
class CrossClassWeights:
    """Weights of samples in cross-class means, and of these in class means; double precision.

    >>> outputs, labels = torch.zeros(2, 2, device="cpu"), torch.tensor([0, 1], device="cpu")
    >>> weights = cross_class_weights(outputs, labels)
    >>> weights.pairs.tolist(), weights.classes.tolist()
    ([[0.25, 0.25], [0.25, 0.25]], [0.25, 0.25])
    """

    labels: Tensor  # (n,)
    probabilities: Tensor  # (n, C), p_{i,c'}
    pairs: Tensor  # (C, C), w_{c,c'}

    @property
    def classes(self) -> Tensor:
        """Weights w_c (C,), the sums over c' that are not c."""
        return self._off().sum(1)

    @property
    def counts(self) -> Tensor:
        """Samples of each class (C,)."""
        return self.labels.bincount(minlength=len(self.pairs))

    def within(self) -> Tensor:
        """Shares pi_{i,c,c'} (n, C) of a sample in the mean of its class and c'.

        It is zero where no sample has any weight.
        """
        # w_{i,c,c'} over w_{c,c'}
        share = self.probabilities / len(self.labels)
        total = self.pairs[self.labels]
        return torch.where(total > 0, share / _positive(total), 0.0)

    def across(self) -> Tensor:
        """Shares pi_{c,c'} (C, C) of a cross-class mean in the class mean; zero where c' is c."""
        sums = _positive(self.classes)
        return self._off() / sums[:, None]

    def _off(self) -> Tensor:
        """The weights (C, C) of c' that are not c: added up, these are no difference from w_c,c."""
        return self.pairs - torch.diag(self.pairs.diagonal())


def _positive(values: Tensor) -> Tensor:
    """Values that can be divided by."""
    tiny = torch.finfo(values.dtype).tiny
    return values.clamp(min=tiny)


def cross_class_weights(outputs: Tensor, labels: Tensor) -> CrossClassWeights:
    """Weights from outputs (n, C) and labels (n,); every class needs a sample."""
    classes = outputs.shape[1]
    highest = int(labels.max())
    if classes < 2 or highest >= classes:
        raise Refusal(
            "expected one output for each of at least two classes, "
            f"found {classes} outputs and labels to {highest}"
        )
    counts = labels.bincount(minlength=classes)
    if int(counts.min()) == 0:
        missing = int(counts.argmin())
        raise Refusal(f"every class needs a sample, found none of class {missing}")

    # w_{c,c'}: probabilities of c', added up over the samples of c
    wide = accumulation_dtype(outputs.device)
    p = outputs.to(wide).softmax(1)
    sums = p.new_zeros(classes, classes)
    sums = sums.index_add(0, labels, p)
    return CrossClassWeights(labels, p, sums / len(labels))


@torch.no_grad()
def network_outputs(outputs: Outputs, inputs: Tensor, *, batch: int | None = None) -> Tensor:
    """Outputs of all samples.

    Args:
        outputs: The network.
        inputs: Samples (n, ...).
        batch: Samples per pass; the device decides by default.

    Returns:
        The outputs (n, C).
    """

    def work(samples: int) -> Tensor:
        chunks = []
        for chunk in inputs.split(samples):
            chunks.append(outputs(outputs.values, chunk))
        return torch.cat(chunks)

    size = batch or batch_size(inputs.device)
    return memory.halving(work, size, what="samples per pass of outputs")


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
    """Cross-class means, class after class.

    A class costs one forward pass over its samples and C - 1 backward passes, g_{c,c} follows from
    the others: over all classes that is less than C gradients of the data.

    Args:
        network: A network with one output per class.
        inputs: Samples (n, ...).
        labels: Their classes (n,).
        parameters: Names or patterns of parameters; all by default.
        batch: Samples per pass; by default as many as the device likes and the budget has room for.
        classes: Which classes; all by default.
        weights: The weights, where they are known already.

    Yields:
        The class c, and rows (C, parameters) of the means g_{c,c'}.
    """
    # weights need the outputs of all samples
    outputs = Outputs(network, parameters)
    if weights is None:
        weights = cross_class_weights(network_outputs(outputs, inputs, batch=batch), labels)
    within = weights.within()
    count = len(weights.pairs)
    passes = _Passes(outputs, batch or _fitting_batch(outputs, inputs, count))
    if classes is None:
        classes = range(count)
    for c in classes:
        # the samples of the class, and the classes it is compared with
        chosen = torch.nonzero(labels == c).flatten()
        others = [k for k in range(count) if k != c]
        rows = torch.empty(
            count, outputs.layout.size, device=inputs.device, dtype=outputs.layout.dtype
        )
        p = weights.probabilities[chosen]
        cotangents = _cotangents(p, within[chosen], others)
        targets = [rows[k] for k in others]
        passes.pull_back(inputs[chosen], cotangents.to(rows.dtype), targets)
        _write_own_mean(rows, c, weights.pairs[c])
        yield c, rows


def _write_own_mean(rows: Tensor, c: int, pairs: Tensor) -> None:
    """Write g_{c,c} from the others, with weights (C,): the weighted sum of all is zero."""
    rows[c] = 0
    shares = pairs / _positive(pairs[c])
    rows[c] = -shares.to(rows.dtype) @ rows


def _cotangents(p: Tensor, within: Tensor, others: Sequence[int]) -> Tensor:
    """The vectors pi (p - e_c') (c', samples, C), for the classes c' in `others`."""
    classes = p.shape[1]
    units = torch.eye(classes, device=p.device, dtype=within.dtype)
    errors = p - units[others, None]
    shares = within.T[others]
    return errors * shares[:, :, None]


def _fitting_batch(outputs: Outputs, inputs: Tensor, classes: int) -> int:
    """Samples per pass, by what one of them takes forth and back."""
    device, dtype = inputs.device, outputs.layout.dtype

    def passed(given: Tensor) -> None:
        row = torch.empty(outputs.layout.size, device=device, dtype=dtype)
        cotangents = torch.zeros(1, len(given), classes, device=device, dtype=dtype)
        pulled_back(outputs, given, cotangents, [row], batch=len(given))

    most = batch_size(inputs.device)
    return fitting_batch(passed, inputs, largest=most, share=PASS_SHARE)


class _Passes:
    """Passes of `batch` samples; where the device has less memory, of fewer from then on."""

    def __init__(self, outputs: Outputs, batch: int) -> None:
        self.outputs = outputs
        self.batch = batch

    def pull_back(self, inputs: Tensor, cotangents: Tensor, rows: Sequence[Tensor]) -> None:
        """Write sum_i J_i^T u_i into rows, as `pulled_back` does."""
        size = min(self.batch, len(inputs))

        def work(samples: int) -> None:
            # a class that is smaller than a pass says nothing about the others
            if samples < size:
                self.batch = samples
            pulled_back(self.outputs, inputs, cotangents, rows, batch=samples)

        memory.halving(work, size, what="samples per pass of class means")


def pulled_back(
    outputs: Outputs,
    inputs: Tensor,
    cotangents: Tensor,
    rows: Sequence[Tensor],
    *,
    batch: int | None = None,
) -> None:
    """Write sum_i J_i^T u_i into rows: one forward pass, and one backward pass per row.

    Args:
        outputs: The network.
        inputs: Samples (n, ...).
        cotangents: The vectors u (k, n, C).
        rows: Where to, k rows (parameters,).
        batch: Samples per pass; the device decides by default.
    """
    size = batch or batch_size(inputs.device)
    pairs = zip(inputs.split(size), cotangents.split(size, dim=1))
    for number, (chunk, u) in enumerate(pairs):
        leaves = outputs.leaves()
        with torch.enable_grad():
            made = outputs(leaves, chunk)
        # the first batch overwrites what was there
        put = outputs.layout.add_ if number else outputs.layout.write_
        for row, each in zip(rows, u):
            pulled = torch.autograd.grad(
                made, leaves, each, retain_graph=True, materialize_grads=True
            )
            put(row, pulled)
