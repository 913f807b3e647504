"""Inner products of one layer's gradients on two batches, the cheapest way.

A linear layer with inputs h_t and errors delta_t at positions t has the gradient sum_t delta_t
h_t^T. Inner products of two such gradients are sums over pairs of positions,

    sum_{t,s} (h_t . h_s + 1) (delta_t . delta_s)          (the 1 is the bias),

or products of the gradients themselves, formed for some units of the layer at a time: pairs are
cheaper where positions are few. A matrix of a batch with itself is symmetric, and large ones are
computed by halves.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from penchant_numerics.layer_features import Factored, Rows
from torch import Tensor

CHUNK_BYTES = 2**28  # gradients that are formed at once, of both batches together
_WIDE = 1024  # columns from which a product with itself is worth taking by halves
_STRIPS = 8  # of rows, of such a product

Feature = Factored | Rows


class LayerSize(NamedTuple):
    """What decides how a layer's inner products are computed, for one sample."""

    positions: int
    width: int  # inputs at a position
    units: int  # outputs at a position
    outputs: int  # of the network

    @classmethod
    def of(cls, layer: Factored) -> LayerSize:
        """The size of a layer from its features."""
        _, positions, width = layer.inputs.shape
        _, outputs, _, units = layer.errors.shape
        return cls(positions, width, units, outputs)

    @property
    def factors(self) -> int:
        """Numbers in the inputs and errors."""
        return self.positions * (self.width + self.outputs * self.units)

    @property
    def gradients(self) -> int:
        """Numbers in the gradients."""
        return self.outputs * self.units * (self.width + 1)

    @property
    def by_positions(self) -> bool:
        """Whether pairs of positions cost less than gradients, in multiplications of two samples.

        >>> LayerSize(positions=1, width=80, units=80, outputs=10).by_positions  # an MLP
        True
        >>> LayerSize(positions=1024, width=27, units=64, outputs=10).by_positions  # a convolution
        False
        """
        pairs = self.positions**2 * (self.outputs**2 * self.units + self.width)
        return pairs < self.outputs**2 * self.width * self.units

    @property
    def kept(self) -> int:
        """Numbers in the form that `smaller_form` gives."""
        return self.factors if self.by_positions else min(self.factors, self.gradients)


def smaller_form(feature: Feature) -> Feature:
    """Gradients instead of factors, where inner products form them anyway and they are fewer."""
    if isinstance(feature, Rows):
        return feature
    size = LayerSize.of(feature)
    if size.by_positions or size.gradients >= size.factors:
        return feature
    parts = []
    if feature.weight:
        parts.append(_weight_gradients(feature.inputs, feature.errors))
    if feature.bias:
        parts.append(feature.errors.sum(2))
    return Rows(torch.cat(parts, dim=2))


def room_for(feature: Feature, samples: int) -> Feature:
    """Features of that form for so many samples, to be filled by `put_features`."""
    if isinstance(feature, Rows):
        return Rows(feature.rows.new_empty(samples, *feature.rows.shape[1:]))
    return Factored(
        inputs=feature.inputs.new_empty(samples, *feature.inputs.shape[1:]),
        errors=feature.errors.new_empty(samples, *feature.errors.shape[1:]),
        weight=feature.weight,
        bias=feature.bias,
    )


def put_features(target: Feature, start: int, part: Feature) -> None:
    """Put the features of some samples where those of all of them are collected.

    Args:
        target: What `room_for` gave.
        start: The first of these samples among all.
        part: Their features.
    """
    if isinstance(part, Rows):
        target.rows[start : start + len(part.rows)] = part.rows
    else:
        end = start + len(part.inputs)
        target.inputs[start:end] = part.inputs
        target.errors[start:end] = part.errors


def add_gram(
    total: Tensor, left: Feature, right: Feature, *, chunk_bytes: int = CHUNK_BYTES
) -> None:
    """Add the inner products of a layer's gradients on two batches to a matrix.

    Args:
        total: The matrix (n C, m C'), changed in place.
        left: The layer's features on n samples.
        right: Those on m samples; `left` itself where the matrix is that of a batch with itself.
        chunk_bytes: Bytes of gradients that may be formed at once.
    """
    if isinstance(left, Rows):
        _add_inner(total, left.rows, right.rows)
    elif not (left.weight and LayerSize.of(left).by_positions):
        _add_by_gradients(total, left, right, chunk_bytes)
    elif left.inputs.shape[1] == 1 == right.inputs.shape[1]:
        _add_at_one_position(total, left, right)
    else:
        _add_by_positions(total, left, right)


def _add_inner(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add inner products of rows (n, C, d) and (m, C', d)."""
    left_rows = left.flatten(0, 1)
    if left is right and left_rows.shape[1] >= _WIDE:
        _add_by_halves(total, left_rows)
        return
    right_rows = right.flatten(0, 1)
    total += left_rows @ right_rows.T


def _add_by_halves(total: Tensor, rows: Tensor) -> None:
    """Add rows rows^T: strips of what is on and above the diagonal, and their mirror images."""
    step = -(-len(rows) // _STRIPS)
    for start in range(0, len(rows), step):
        end = start + step
        strip = rows[start:end] @ rows[start:].T
        total[start:end, start:] += strip
        total[end:, start:end] += strip[:, step:].T


def _add_at_one_position(total: Tensor, left: Factored, right: Factored) -> None:
    """(h . h' + 1) (delta . delta') from two products."""
    mine = left.errors[:, :, 0].flatten(0, 1)
    theirs = right.errors[:, :, 0].flatten(0, 1)
    errors = mine @ theirs.T
    inputs = left.inputs[:, 0] @ right.inputs[:, 0].T
    _add_product(total, errors, inputs)
    if left.bias:
        total += errors


def _add_by_positions(total: Tensor, left: Factored, right: Factored) -> None:
    """The same for all pairs of positions; of a batch with itself, different ones once."""
    symmetric = left is right
    upper = torch.zeros_like(total) if symmetric else total
    for t in range(left.inputs.shape[1]):
        mine = left.errors[:, :, t].flatten(0, 1)
        for s in range(t if symmetric else 0, right.inputs.shape[1]):
            theirs = right.errors[:, :, s].flatten(0, 1)
            inputs = left.inputs[:, t] @ right.inputs[:, s].T
            _add_product(total if s == t else upper, mine @ theirs.T, inputs)
    if symmetric:
        total += upper
        total += upper.T
    if left.bias:
        _add_inner(total, left.errors.sum(2), right.errors.sum(2))


def _add_product(total: Tensor, errors: Tensor, inputs: Tensor) -> None:
    """Add (delta . delta') (h . h'), for errors (n C, m C') and inputs (n, m)."""
    shape = (
        len(inputs),
        len(errors) // len(inputs),
        inputs.shape[1],
        errors.shape[1] // inputs.shape[1],
    )
    total.view(shape).addcmul_(errors.view(shape), inputs[:, None, :, None])


def _add_by_gradients(total: Tensor, left: Factored, right: Factored, chunk_bytes: int) -> None:
    """Gradients of some units of the layer at a time."""
    samples = max(len(left.inputs), len(right.inputs))
    numbers = samples * left.errors.shape[1] * left.inputs.shape[2]  # of one unit
    units = max(1, chunk_bytes // (2 * numbers * left.inputs.element_size()))
    if left.weight:
        for mine, theirs in zip(left.errors.split(units, dim=3), right.errors.split(units, dim=3)):
            first = _weight_gradients(left.inputs, mine)
            second = first if left is right else _weight_gradients(right.inputs, theirs)
            _add_inner(total, first, second)
    if left.bias:
        _add_inner(total, left.errors.sum(2), right.errors.sum(2))


def _weight_gradients(inputs: Tensor, errors: Tensor) -> Tensor:
    """Gradients (n, C, o d) in the weights, of inputs (n, t, d) and errors (n, C, t, o)."""
    return torch.einsum("ncto,ntd->ncod", errors, inputs).flatten(2)
