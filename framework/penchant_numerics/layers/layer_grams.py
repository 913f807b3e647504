"""Inner products of one layer's gradients on two batches, the cheapest way.

A linear layer with inputs h_t and errors delta_t at positions t has the gradient sum_t delta_t
h_t^T. Inner products of two such gradients are sums over pairs of positions,

    sum_{t,s} (h_t . h_s + 1) (delta_t . delta_s)          (the 1 is the bias),

or products of the gradients themselves, formed for some units of the layer at a time: pairs are
cheaper where positions are few. A matrix of a batch with itself is symmetric: half of it is
computed, in strips of rows, and mirrored when all layers are in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from penchant_numerics.layers.layer_features import Factored, Rows
from torch import Tensor

CHUNK_BYTES = 2**28  # gradients that are formed at once, of both batches together
_STRIPS = 8  # of samples, of the product of a batch with itself

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
        return cls(positions=positions, width=width, units=units, outputs=outputs)

    @property
    def factors(self) -> int:
        """Numbers in the inputs and errors."""
        errors = self.outputs * self.units
        return self.positions * (self.width + errors)

    @property
    def gradients(self) -> int:
        """Numbers in the gradients."""
        a_unit = self.width + 1  # its weights and its bias
        return self.outputs * self.units * a_unit

    @property
    def by_positions(self) -> bool:
        """Whether pairs of positions cost less than gradients, in multiplications of two samples.

        >>> LayerSize(positions=1, width=80, units=80, outputs=10).by_positions  # an MLP
        True
        >>> LayerSize(positions=1024, width=27, units=64, outputs=10).by_positions  # a convolution
        False
        """
        errors = self.outputs**2 * self.units
        a_pair = errors + self.width
        pairs = self.positions**2 * a_pair
        gradients = errors * self.width
        return pairs < gradients

    @property
    def stored(self) -> int:
        """Numbers in the form that `smaller_form` gives."""
        if self.by_positions:
            return self.factors
        return min(self.factors, self.gradients)


def smaller_form(feature: Feature) -> Feature:
    """Gradients instead of factors, where inner products form them anyway and they are fewer."""
    if isinstance(feature, Rows):
        return feature
    size = LayerSize.of(feature)
    if size.by_positions or size.gradients >= size.factors:
        return feature

    # weights and bias side by side
    gradients = []
    if feature.weight:
        gradients.append(_weight_gradients(feature.inputs, feature.errors))
    if feature.bias:
        gradients.append(feature.errors.sum(2))
    return Rows(torch.cat(gradients, dim=2))


def room_for(feature: Feature, samples: int) -> Feature:
    """Empty features of that form for `samples` samples, to be filled by `put_features`."""
    if isinstance(feature, Rows):
        return Rows(_empty_like(feature.rows, samples))
    return Factored(
        inputs=_empty_like(feature.inputs, samples),
        errors=_empty_like(feature.errors, samples),
        weight=feature.weight,
        bias=feature.bias,
    )


def _empty_like(tensor: Tensor, samples: int) -> Tensor:
    """An empty tensor for `samples` samples."""
    shape = tensor.shape[1:]
    return tensor.new_empty(samples, *shape)


def put_features(target: Feature, start: int, features: Feature) -> None:
    """Put the features of some samples where those of all of them are collected.

    Args:
        target: What `room_for` gave.
        start: The first of these samples among all.
        features: Their features.
    """
    if isinstance(features, Rows):
        assert isinstance(target, Rows)  # as `room_for` makes it
        end = start + len(features.rows)
        target.rows[start:end] = features.rows
        return
    assert isinstance(target, Factored)
    end = start + len(features.inputs)
    target.inputs[start:end] = features.inputs
    target.errors[start:end] = features.errors


def add_gram(
    total: Tensor, left: Feature, right: Feature, *, chunk_bytes: int = CHUNK_BYTES
) -> None:
    """Add the inner products of a layer's gradients on two batches to a matrix.

    Of a batch with itself what is below the diagonal is left to `mirror`, once for all layers.

    Args:
        total: The matrix (n C, m C'), changed in place.
        left: The layer's features on n samples.
        right: Those on m samples; `left` itself where the matrix is that of a batch with itself.
        chunk_bytes: Bytes of gradients that may be formed at once.
    """
    if isinstance(left, Rows):
        assert isinstance(right, Rows)  # of the same layer
        theirs = None if left is right else right.rows
        _add_inner(total, left.rows, theirs)
        return
    assert isinstance(right, Factored)
    if not (left.weight and LayerSize.of(left).by_positions):
        _add_by_gradients(total, left, right, chunk_bytes)
    elif left.inputs.shape[1] == 1 == right.inputs.shape[1]:
        _add_at_one_position(total, left, right)
    else:
        _add_by_positions(total, left, right)


def mirror(total: Tensor, outputs: int) -> None:
    """Complete a matrix (n C, n C) of a batch with itself, of which `add_gram` made one half."""
    for start, end in _strips(len(total), outputs):
        beside = total[start:end, end:]
        total[end:, start:end] = beside.T


def _strips(count: int, outputs: int) -> Iterator[tuple[int, int]]:
    """First and last rows of strips of whole samples; they also fit a processor's cache better."""
    samples = count // outputs
    a_strip = -(-samples // _STRIPS)
    step = a_strip * outputs
    for start in range(0, count, step):
        end = min(start + step, count)
        yield start, end


def _add_inner(total: Tensor, left: Tensor, right: Tensor | None) -> None:
    """Add inner products of rows (n, C, d) and (m, C', d); None is a batch with itself."""
    rows = left.flatten(0, 1)
    if right is None:
        for start, end in _strips(len(rows), left.shape[1]):
            # what is not below the diagonal
            columns = rows[start:].T
            total[start:end, start:] += rows[start:end] @ columns
        return
    columns = right.flatten(0, 1)
    total += rows @ columns.T


def _add_at_one_position(total: Tensor, left: Factored, right: Factored) -> None:
    """(h . h' + 1) (delta . delta') from two products."""
    inputs = left.inputs[:, 0] @ right.inputs[:, 0].T
    # the bias is an input that is 1
    if left.bias:
        inputs += 1
    mine = _errors_at(left, 0)
    theirs = _errors_at(right, 0)
    if left is not right:
        _add_product(total, mine @ theirs.T, inputs)
        return

    # of a batch with itself, what is not below the diagonal
    outputs = left.errors.shape[1]
    for start, end in _strips(len(mine), outputs):
        first = start // outputs
        last = end // outputs
        errors = mine[start:end] @ mine[start:].T
        block = total[start:end, start:]
        _add_product(block, errors, inputs[first:last, first:])


def _errors_at(layer: Factored, position: int) -> Tensor:
    """Errors (n C, o) at a position."""
    errors = layer.errors[:, :, position]
    return errors.flatten(0, 1)


def _add_by_positions(total: Tensor, left: Factored, right: Factored) -> None:
    """The same for all pairs of positions; of a batch with itself, different ones once."""
    symmetric = left is right
    upper = torch.zeros_like(total) if symmetric else total
    for t in range(left.inputs.shape[1]):
        mine = _errors_at(left, t)
        first = t if symmetric else 0
        for s in range(first, right.inputs.shape[1]):
            errors = mine @ _errors_at(right, s).T
            inputs = left.inputs[:, t] @ right.inputs[:, s].T
            target = total if s == t else upper
            _add_product(target, errors, inputs)

    # a pair of different positions stands for both orders
    if symmetric:
        total += upper
        total += upper.T
    _add_bias(total, left, right)


def _add_bias(total: Tensor, left: Factored, right: Factored) -> None:
    """Add the inner products of gradients in the bias, which are sums of errors."""
    if not left.bias:
        return
    mine = left.errors.sum(2)
    theirs = None if left is right else right.errors.sum(2)
    _add_inner(total, mine, theirs)


def _add_product(total: Tensor, errors: Tensor, inputs: Tensor) -> None:
    """Add (delta . delta') (h . h'), for errors (n C, m C') and inputs (n, m)."""
    n, m = inputs.shape
    rows, columns = errors.shape
    shape = (n, rows // n, columns)
    # a pair of samples has one product of inputs for all pairs of outputs
    spread = inputs.repeat_interleave(columns // m, dim=1)[:, None]
    total.view(shape).addcmul_(errors.view(shape), spread)


def _add_by_gradients(total: Tensor, left: Factored, right: Factored, chunk_bytes: int) -> None:
    """Gradients of some units of the layer at a time."""
    units = _units_a_chunk(left, right, chunk_bytes)
    # errors of the same units in both batches
    pairs: Iterable[tuple[Tensor, Tensor]] = ()
    if left.weight:
        of_left = left.errors.split(units, dim=3)
        of_right = right.errors.split(units, dim=3)
        pairs = zip(of_left, of_right)
    for mine, theirs in pairs:
        first = _weight_gradients(left.inputs, mine)
        # a batch with itself needs its gradients once
        second = None
        if left is not right:
            second = _weight_gradients(right.inputs, theirs)
        _add_inner(total, first, second)
    _add_bias(total, left, right)


def _units_a_chunk(left: Factored, right: Factored, chunk_bytes: int) -> int:
    """Units of the layer whose gradients fit, of both batches."""
    size = LayerSize.of(left)
    samples = max(len(left.inputs), len(right.inputs))
    numbers = samples * size.outputs * size.width  # of one unit
    a_unit = 2 * numbers * left.inputs.element_size()
    fitting = chunk_bytes // a_unit
    return max(1, fitting)


def _weight_gradients(inputs: Tensor, errors: Tensor) -> Tensor:
    """Gradients (n, C, o d) in the weights, of inputs (n, t, d) and errors (n, C, t, o)."""
    gradients = torch.einsum("ncto,ntd->ncod", errors, inputs)
    return gradients.flatten(2)
