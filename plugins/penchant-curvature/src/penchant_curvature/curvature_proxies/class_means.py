"""Are class means of gradients the products of class means of features and of errors?

For class c and target c', with weights p_{i,c'} over samples i of class c: g_{c,c'} and
delta_{c,c'} are means of extended gradients and errors, g_c and delta_c those over c' != c, h_c is
the plain mean of features. Papyan (JMLR 2020, section 7.12) expects g_c ~ h_c x delta_c and
g_{c,c'} ~ h_c x delta_{c,c'}. In a convolution features are averaged over positions and errors
added up.

Only inner products of a layer are stored; cosines over several layers follow by adding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from penchant_numerics import Refusal
from penchant_numerics.device import memory
from torch import Tensor, nn

from penchant_curvature.shared.column_bytes import ColumnSizes, refuse_too_large
from penchant_curvature.shared.layer_samples import LayerSamples

_TABLES = 4  # of the size of all mean gradients of a class that are held at once


@dataclass(frozen=True)
class MeanProducts:
    """Inner products of means; target C is the mean over all targets but the class itself."""

    inner: Tensor  # (C, C + 1, C): <g_{c,k}, h_b x delta_{c,k}>
    gradients: Tensor  # (C, C + 1): |g_{c,k}|^2
    products: Tensor  # (C, C + 1, C): |h_b x delta_{c,k}|^2

    def cosines(self) -> Tensor:
        """cos(g_{c,k}, h_b x delta_{c,k}) (C, C + 1, C)."""
        squares = self.gradients[:, :, None] * self.products
        return self.inner / squares.sqrt()


def add(shards: Sequence[MeanProducts]) -> MeanProducts:
    """Inner products over several layers taken together (Khatri-Rao)."""
    inner = torch.stack([each.inner for each in shards])
    gradients = torch.stack([each.gradients for each in shards])
    products = torch.stack([each.products for each in shards])
    return MeanProducts(inner.sum(0), gradients.sum(0), products.sum(0))


def mean_products(
    network: nn.Module,
    data: Sequence[Tensor],
    layer: str,
    *,
    classes: int,
    bias: bool = True,
    batch: int | None = None,
) -> MeanProducts:
    """Inner products of the means of one layer.

    Class after class, so that no more than C gradients of the layer exist at once.

    Args:
        network: A classifier in evaluation mode.
        data: Inputs and labels; every class needs a sample.
        layer: The layer's name.
        classes: C.
        bias: Whether the layer's bias is there.
        batch: Samples per pass; None: by device and budget.

    Raises:
        TooLargeError: Where C gradients of the layer do not fit.
    """
    inputs, labels = data
    sizes = ColumnSizes(network, inputs, columns=classes, bias=bias)
    _, k, o, d = sizes.shape(layer)
    needed = _TABLES * 8 * k * o * d
    there = memory.limit(inputs.device)
    refuse_too_large(needed, there, f"{k} mean gradients of {layer}")
    if batch is None:
        # all samples decide, so that classes have the same
        batch = LayerSamples(network, (data[0], data[1]), layer, bias=bias).batch
    features, alongs, squares = [], [], []
    for number in range(classes):
        inside = labels == number
        if not inside.any():
            raise Refusal(f"class means need samples of every class, found none of class {number}")

        # gradients of one class only are in memory
        own = (inputs[inside], labels[inside])
        h, along, square = _of_class(
            LayerSamples(network, own, layer, bias=bias, batch=batch), number
        )
        features.append(h)
        alongs.append(along)
        squares.append(square)

    # every class's gradients beside the features of every class
    h = torch.stack(features)  # (C, d)
    gradients, errors = torch.stack(squares).unbind(1)  # (C, C + 1) each
    # |h x delta| = |h| |delta|
    products = errors[:, :, None] * h.square().sum(1)
    return MeanProducts(torch.stack(alongs) @ h.T, gradients, products)


def _of_class(samples: LayerSamples, own: int) -> tuple[Tensor, Tensor, Tensor]:
    """h_c (d,), g_{c,k}^T delta_{c,k} (C + 1, d), and |g|^2, |delta|^2 (2, C + 1)."""
    weights, h, gradients, errors = _sums(samples)

    # the mean over all targets but the class itself
    others = torch.arange(len(weights), device=h.device) != own
    rest = weights[others].sum()
    class_gradient = gradients[others].sum(0) / rest
    class_error = errors[others].sum(0) / rest

    # means instead of sums, and behind them that target
    gradients = gradients / weights[:, None, None]
    errors = errors / weights[:, None]
    gradients = torch.cat([gradients, class_gradient[None]])
    errors = torch.cat([errors, class_error[None]])

    # only inner products are stored, because gradients are as large as the layer
    along = torch.einsum("kod,ko->kd", gradients, errors)
    lengths = gradients.square().sum((1, 2))
    return h, along, torch.stack([lengths, errors.square().sum(1)])


def _sums(samples: LayerSamples) -> list[Tensor]:
    """Weights (C,), features (d,), gradients (C, o, d) and errors (C, o), over samples."""

    def work(batch: int) -> list[Tensor]:
        samples.batch = batch
        return _added_up(samples)

    return memory.halving(work, samples.batch, what="samples per pass of class means")


def _added_up(samples: LayerSamples) -> list[Tensor]:
    """The sums, pass by pass."""
    total: list[Tensor] = []
    for batch in samples:
        # scaled errors carry the other root of the weight
        roots = batch.probabilities.sqrt() / len(samples) ** 0.5  # (n, C)
        errors = torch.einsum("nk,nkto->knto", roots, batch.errors)
        terms = [
            roots.square().sum(0),
            batch.inputs.mean(1).sum(0) / len(samples),
            torch.einsum("knto,ntd->kod", errors, batch.inputs),
            errors.sum((1, 2)),
        ]
        total = [each + term for each, term in zip(total, terms)] if total else terms
    return total
