"""Tangent features of a network layer by layer, without the gradients where a layer allows it.

The gradient of output y of sample i in the weights of a linear layer is sum_t delta_t h_t^T over
the positions t it was used at (`linear_layers`). So inner products of gradients follow from the
inputs h and the errors delta = df_y/dz only:

    <grad f_y(x_i), grad f_y'(x_j)> = sum_{t,s} (h_t . h_s + 1) (delta_t . delta_s)

(the 1 is the bias). Every other parameter, and every layer whose gradient is not that of its inputs
and errors sample by sample, has its gradients taken as they are: a tied layer, one whose weight is
used by other code, one that sees tokens or windows where others see samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from penchant_numerics.jacobians import FlatOutputs
from penchant_numerics.jacobians.sample_gradients import sample_gradients
from penchant_numerics.layers.linear_layers import (
    error_positions,
    input_positions,
    is_gradient,
    is_linear,
    is_transposed,
    takes_batch,
    watched,
)
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn

_CHUNK_BYTES = 2**28  # gradients of one layer held at once


@dataclass(frozen=True)
class Factored:
    """A linear layer on a batch, by its inputs and errors.

    Gradients in its weights are sum_t errors x inputs, in its bias sum_t errors.

    >>> inputs = torch.full((1, 1, 3), 2.0, device="cpu")
    >>> errors = torch.ones(1, 1, 1, 4, device="cpu")
    >>> total = torch.zeros(1, 1, 1, 1, device="cpu")
    >>> layer = Factored(inputs, errors, weight=True, bias=True)
    >>> layer.add_gram(total, layer)
    >>> float(total)  # (h . h + 1) (delta . delta) = (12 + 1) 4
    52.0
    """

    inputs: Tensor  # (n, t, d)
    errors: Tensor  # (n, C, t, o)
    weight: bool
    bias: bool

    @property
    def bytes(self) -> int:
        """Memory of inputs and errors."""
        numbers = self.inputs.numel() + self.errors.numel()
        return numbers * self.inputs.element_size()

    def add_gram(self, total: Tensor, other: Factored) -> None:
        """Add inner products with another batch's gradients to `total` (n, C, m, C')."""
        if self.weight and self._by_positions():
            self._add_by_positions(total, other)
        elif self.weight:
            self._add_by_gradients(total, other)
        if self.bias:
            total += _inner(self.errors.sum(2), other.errors.sum(2))

    def _by_positions(self) -> bool:
        """Whether pairs of positions cost fewer multiplications, for a pair of samples."""
        positions, width = self.inputs.shape[1:]
        _, classes, _, out = self.errors.shape
        errors = classes**2 * out
        a_pair = errors + width
        pairs = positions**2 * a_pair
        gradients = errors * width
        return pairs < gradients

    def _add_by_positions(self, total: Tensor, other: Factored) -> None:
        """Add (h_t . h_s)(delta_t . delta_s) of every pair of positions."""
        mine = zip(self.inputs.unbind(1), self.errors.unbind(2))
        theirs = zip(other.inputs.unbind(1), other.errors.unbind(2))
        # position by position
        pairs = itertools.product(mine, theirs)
        for (h_t, delta_t), (h_s, delta_s) in pairs:
            features = h_t @ h_s.T  # (n, m)
            errors = _inner(delta_t, delta_s)
            total.addcmul_(errors, features[:, None, :, None])

    def _add_by_gradients(self, total: Tensor, other: Factored) -> None:
        """Some outputs of the layer at a time, so that no more than a chunk of gradients exists."""
        samples = max(len(self.inputs), len(other.inputs))
        rows = samples * self.errors.shape[1]
        units = self._units_a_chunk(2 * rows)
        mine = self.errors.split(units, dim=3)
        theirs = other.errors.split(units, dim=3)
        for own, others in zip(mine, theirs):
            left = _gradients_of(own, self.inputs)
            # a batch with itself needs its gradients once
            right = left
            if other is not self:
                right = _gradients_of(others, other.inputs)
            total += _inner(left.flatten(2), right.flatten(2))

    def _units_a_chunk(self, rows: int) -> int:
        """Outputs of the layer whose gradients fit, for a number of rows."""
        width = self.inputs.shape[2]
        bytes_a_unit = rows * width * self.inputs.element_size()
        return max(1, _CHUNK_BYTES // bytes_a_unit)

    def squares(self) -> Tensor:
        """Inner products (n, C, C) of the gradients of one sample."""
        # nothing of other samples is computed
        count, classes = self.errors.shape[:2]
        total = torch.zeros(
            count, classes, classes, device=self.errors.device, dtype=self.errors.dtype
        )
        if self.weight and self.inputs.shape[1] == 1:
            # one position: |h|^2 times the product of errors
            lengths = self.inputs.square().sum((1, 2))
            products = _own(self.errors[:, :, 0])
            total += lengths[:, None, None] * products
        elif self.weight:
            units = self._units_a_chunk(count * classes)
            for errors in self.errors.split(units, dim=3):
                gradients = _gradients_of(errors, self.inputs)
                total += _own(gradients.flatten(2))
        if self.bias:
            total = total + _own(self.errors.sum(2))
        return total

    def gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's gradient (o, d), and its bias's (o,), of sum_ic weights_ic f_c(x_i)."""
        errors = torch.einsum("nc,ncto->nto", weights, self.errors)
        weight = torch.einsum("nto,ntd->od", errors, self.inputs)
        bias = errors.sum((0, 1))
        return weight, bias


def _gradients_of(errors: Tensor, inputs: Tensor) -> Tensor:
    """Gradients (n, C, o, d) of errors (n, C, t, o) and inputs (n, t, d)."""
    return torch.einsum("ncto,ntd->ncod", errors, inputs)


@dataclass(frozen=True)
class Rows:
    """Gradients themselves."""

    rows: Tensor  # (n, C, parameters)

    @property
    def bytes(self) -> int:
        """Memory of the gradients."""
        return self.rows.numel() * self.rows.element_size()

    def add_gram(self, total: Tensor, other: Rows) -> None:
        """Add inner products with another batch's gradients to `total` (n, C, m, C')."""
        total += _inner(self.rows, other.rows)

    def squares(self) -> Tensor:
        """Inner products (n, C, C) of the gradients of one sample."""
        return _own(self.rows)


def _own(rows: Tensor) -> Tensor:
    """Inner products (n, C, C) of (n, C, d) with itself, sample by sample."""
    return rows @ rows.transpose(1, 2)


def _inner(left: Tensor, right: Tensor) -> Tensor:
    """Inner products (n, C, m, C') of (n, C, d) and (m, C', d)."""
    n, C = left.shape[:2]
    m, others = right.shape[:2]
    rows = left.flatten(0, 1)
    columns = right.flatten(0, 1).T
    products = rows @ columns
    return products.reshape(n, C, m, others)


class Use(NamedTuple):
    """One use of a layer."""

    inputs: Tensor  # (n, ...)
    outputs: Tensor  # (n, ...), with their graph


class TangentFeatures:
    """What tangent kernels need of a network, batch after batch.

    `layers` are the names of those that go by factors, `others` the parameters whose gradients are
    taken as they are. The network is left as it was: hooks are removed, gradients are taken by
    copies of its parameters.

    Args:
        network: A network that does not mix samples.
        sample: A few inputs, on which each layer's gradient is compared with autograd's.
        parameters: Patterns of the parameters that count; None is all.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    >>> features = TangentFeatures(network, torch.ones(2, 2, device="cpu"))
    >>> features.layers, features.others
    (('0',), ['1.weight', '1.bias'])
    """

    def __init__(
        self, network: nn.Module, sample: Tensor, *, parameters: str | Sequence[str] | None = None
    ) -> None:
        self.outputs = FlatOutputs(network, parameters)

        # layers that may go by factors, and those that do
        names = set(self.outputs.layout.names)
        self._candidates = {}
        for name, module in network.named_modules():
            if is_linear(module) and _parameter(name, "weight") in names:
                self._candidates[name] = module
        self.layers = tuple(self._agreeing(sample))

        # everything else has its gradients taken as they are
        covered: set[str] = set()
        for layer in self.layers:
            covered.add(_parameter(layer, "weight"))
            covered.add(_parameter(layer, "bias"))
        self.others = [name for name in self.outputs.layout.names if name not in covered]
        self._rest = FlatOutputs(network, self.others) if self.others else None

    def __call__(self, inputs: Tensor) -> dict[str, Factored | Rows]:
        """Features of a batch by layer.

        Parameters without a factored layer are under the module that holds them.
        """
        features: dict[str, Factored | Rows] = {}
        if self.layers:
            factored = self._factored(inputs, self.layers)
            lost = [name for name in self.layers if name not in factored]
            if lost:
                raise Refusal(
                    f"layer {lost[0]!r} took the {len(inputs)} samples one by one in a trial, "
                    "but not in this batch"
                )
            features.update(factored)

        # a layer may have parameters of both kinds
        for module, rows in self._gradients(inputs).items():
            name = f"{module} (other)" if module in features else module
            features[name] = rows
        return features

    def _factored(self, inputs: Tensor, layers: Sequence[str]) -> dict[str, Factored]:
        """Inputs and errors of layers, by one backward pass an output."""
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            outputs, seen = self._traced(leaves, inputs, layers)
            outputs_of_uses = [use.outputs for uses in seen.values() for use in uses]
            # samples do not mix: the gradient of a sum is that of each
            columns = []
            for each in outputs.sum(0):
                column = torch.autograd.grad(
                    each, outputs_of_uses, retain_graph=True, materialize_grads=True
                )
                columns.append(column)

        # by use, (n, C, ...), in the order in which layers were used
        errors = iter([torch.stack(each, dim=1) for each in zip(*columns)])
        return dict(self._by_sample(seen, errors, len(inputs)))

    def _by_sample(
        self, seen: Mapping[str, Sequence[Use]], errors: Iterator[Tensor], samples: int
    ) -> Iterator[tuple[str, Factored]]:
        """Layers that see samples one by one, with errors (n, k, ...) use by use."""
        for name, uses in seen.items():
            pairs = [(use.inputs, next(errors)) for use in uses]
            by_sample = [self._is_by_sample(name, use.inputs, samples) for use in uses]
            if all(by_sample):
                yield name, self._positions(name, pairs)

    def _is_by_sample(self, name: str, given: Tensor, samples: int) -> bool:
        """Whether the first axis of what a layer sees is that of the samples."""
        module = self._candidates[name]
        if not takes_batch(module, given):
            return False
        return len(given) == samples

    def _traced(
        self, leaves: Sequence[Tensor], inputs: Tensor, layers: Sequence[str]
    ) -> tuple[Tensor, dict[str, list[Use]]]:
        """Outputs, and every use of every layer that is used."""
        seen: dict[str, list[Use]] = {name: [] for name in layers}

        def record(name: str, given: Tensor, made: Tensor) -> Tensor:
            # copies, because what follows may work in place
            use = Use(given.detach().clone(), made)
            seen[name].append(use)
            return made.clone()

        modules = {name: self._candidates[name] for name in layers}
        with watched(modules, record):
            outputs = self.outputs(leaves, inputs)
        return outputs, {name: uses for name, uses in seen.items() if uses}

    def _positions(self, name: str, uses: Sequence[tuple[Tensor, Tensor]]) -> Factored:
        """All uses of a layer as positions of one linear layer."""
        module = self._candidates[name]
        seen, error_rows = [], []
        for inputs, errors in uses:
            seen.append(input_positions(module, inputs))
            error_rows.append(error_positions(module, errors))
        bias = _parameter(name, "bias")
        return Factored(
            torch.cat(seen, dim=1),
            torch.cat(error_rows, dim=2),
            weight=True,
            bias=bias in self.outputs.layout.slices,
        )

    def _agreeing(self, sample: Tensor) -> list[str]:
        """Candidates whose gradient is that of their inputs and errors."""
        if not self._candidates:
            return []
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            outputs, seen = self._traced(leaves, sample, list(self._candidates))
            outputs_of_uses = [use.outputs for uses in seen.values() for use in uses]

            # any weights that differ: with equal ones a layer that mixes up samples would agree
            of_samples, of_outputs = _any_weights(outputs)
            alike = of_outputs.expand_as(outputs)
            weights = of_samples[:, None] * of_outputs

            # errors of all samples alike, to be weighted; and what autograd makes of weights
            options = {"retain_graph": True, "materialize_grads": True}
            columns = torch.autograd.grad(outputs, outputs_of_uses, alike, **options)
            slopes = torch.autograd.grad(outputs, leaves, weights, **options)
        errors = iter([each[:, None] for each in columns])
        exact = dict(zip(self.outputs.layout.names, slopes))
        for name, module in self._candidates.items():
            if is_transposed(module):
                weight = _parameter(name, "weight")
                exact[weight] = exact[weight].T
        # layer by layer: positions of a convolution are many times its inputs
        features = self._by_sample(seen, errors, len(sample))
        return [name for name, each in features if _agrees(name, each, of_samples, exact)]

    def _gradients(self, inputs: Tensor) -> dict[str, Rows]:
        """Gradients of the other parameters, sample by sample, by the module that holds them."""
        if self._rest is None:
            return {}
        return rows_by_module(sample_gradients(self._rest, inputs))


def rows_by_module(gradients: Mapping[str, Tensor]) -> dict[str, Rows]:
    """Gradients (n, C, *shape) by parameter, as rows of the modules that hold the parameters."""
    grouped: dict[str, list[Tensor]] = {}
    for name, value in gradients.items():
        # a scalar parameter has nothing to flatten
        if value.dim() == 2:
            value = value[..., None]
        module = name.rpartition(".")[0]
        rows = value.flatten(2)
        grouped.setdefault(module, []).append(rows)
    by_module = {}
    for module, values in grouped.items():
        by_module[module] = Rows(torch.cat(values, dim=2))
    return by_module


def _parameter(layer: str, kind: str) -> str:
    """The name of a layer's parameter; the network itself has an empty name."""
    if not layer:
        return kind
    return f"{layer}.{kind}"


def _any_weights(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of samples (n,) and of outputs (C,), all different."""
    samples, classes = outputs.shape
    weights = []
    for count in (samples, classes):
        numbers = torch.arange(1, count + 1, device=outputs.device, dtype=outputs.dtype)
        weights.append(numbers.cos())
    return weights[0], weights[1]


def _agrees(name: str, layer: Factored, weights: Tensor, exact: Mapping[str, Tensor]) -> bool:
    """Whether the gradient of a layer's factors is the exact one, by parameter."""
    weight, bias = layer.gradient(weights[:, None])
    expected = exact[_parameter(name, "weight")]
    if not is_gradient(weight.flatten(), expected.flatten()):
        return False
    if not layer.bias:
        return True
    # errors that cancel leave rounding
    each = weights[:, None, None] * layer.errors[:, 0]
    return is_gradient(bias, exact[_parameter(name, "bias")], terms=each.abs().sum((0, 1)))
