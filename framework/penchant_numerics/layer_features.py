"""Tangent features of a network layer by layer, without the gradients where a layer allows it.

The gradient of output y of sample i in the weights of a linear layer is sum_t delta_t h_t^T over the positions t it was used at (one
in an MLP; a convolution is linear on patches; a module used twice has twice the positions). So inner products of gradients follow
from the inputs h and the errors delta = df_y/dz alone:

    <grad f_y(x_i), grad f_y'(x_j)> = sum_{t,s} (h_t . h_s + 1) (delta_t . delta_s)          (the 1 is the bias)

Every other parameter, and every layer whose gradient is not that of its inputs and errors, has its gradients taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from penchant_numerics.linearisation import Outputs
from torch import Tensor, nn
from torch.func import vjp, vmap
from torch.nn import functional

_AGREEMENT = (
    1e-3  # relative difference up to which a layer's gradient is that of its inputs and errors
)
_CHUNK_BYTES = 2**28  # gradients of one layer held at once


@dataclass(frozen=True)
class Factored:
    """A linear layer on a batch: gradients in its weights are sum_t errors x inputs, in its bias sum_t errors."""

    inputs: Tensor  # (n, t, d)
    errors: Tensor  # (n, C, t, o)
    weight: bool
    bias: bool

    @property
    def bytes(self) -> int:
        return (self.inputs.numel() + self.errors.numel()) * self.inputs.element_size()

    def add_gram(self, total: Tensor, other: Factored) -> None:
        """Add inner products with another batch's gradients to `total` (n, C, m, C')."""
        if self.weight and self._by_positions():
            for t in range(self.inputs.shape[1]):
                for s in range(other.inputs.shape[1]):
                    _add_product(
                        total,
                        self.inputs[:, t],
                        other.inputs[:, s],
                        self.errors[:, :, t],
                        other.errors[:, :, s],
                    )
        elif self.weight:
            self._add_by_gradients(total, other)
        if self.bias:
            total += _inner(self.errors.sum(2), other.errors.sum(2))

    def _by_positions(self) -> bool:
        """Whether pairs of positions cost less than gradients, in multiplications for a pair of samples."""
        positions, width = self.inputs.shape[1:]
        classes, out = self.errors.shape[1], self.errors.shape[3]
        return positions**2 * (classes**2 * out + width) < classes**2 * width * out

    def _add_by_gradients(self, total: Tensor, other: Factored) -> None:
        """Some output units of the layer at a time, so that no more than a chunk of gradients exists."""
        rows = max(len(self.inputs), len(other.inputs)) * self.errors.shape[1]
        units = max(
            1, _CHUNK_BYTES // (2 * rows * self.inputs.shape[2] * self.inputs.element_size())
        )
        for mine, theirs in zip(self.errors.split(units, dim=3), other.errors.split(units, dim=3)):
            left = torch.einsum("ncto,ntd->ncod", mine, self.inputs)
            right = left if other is self else torch.einsum("ncto,ntd->ncod", theirs, other.inputs)
            total += _inner(left.flatten(2), right.flatten(2))

    def squares(self) -> Tensor:
        """Inner products (n, C, C) of the gradients of one sample."""
        total = torch.zeros(
            len(self.inputs),
            *[self.errors.shape[1]] * 2,
            device=self.errors.device,
            dtype=self.errors.dtype,
        )
        if self.weight and self.inputs.shape[1] == 1:
            total += self.inputs.square().sum((1, 2))[:, None, None] * _own(self.errors[:, :, 0])
        elif self.weight:
            units = max(
                1,
                _CHUNK_BYTES
                // (
                    self.errors[:, :, 0, 0].numel()
                    * self.inputs.shape[2]
                    * self.inputs.element_size()
                ),
            )
            for errors in self.errors.split(units, dim=3):
                total += _own(torch.einsum("ncto,ntd->ncod", errors, self.inputs).flatten(2))
        return total + _own(self.errors.sum(2)) if self.bias else total

    def gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's gradient (o, d), and its bias's (o,), of sum_ic weights_ic f_c(x_i)."""
        errors = torch.einsum("nc,ncto->nto", weights, self.errors)
        return torch.einsum("nto,ntd->od", errors, self.inputs), errors.sum((0, 1))


@dataclass(frozen=True)
class Rows:
    """Gradients themselves."""

    rows: Tensor  # (n, C, parameters)

    @property
    def bytes(self) -> int:
        return self.rows.numel() * self.rows.element_size()

    def add_gram(self, total: Tensor, other: Rows) -> None:
        total += _inner(self.rows, other.rows)

    def squares(self) -> Tensor:
        """Inner products (n, C, C) of the gradients of one sample."""
        return _own(self.rows)


def _own(rows: Tensor) -> Tensor:
    """Inner products (n, C, C) of (n, C, d) with itself, sample by sample."""
    return rows @ rows.transpose(1, 2)


def _inner(left: Tensor, right: Tensor) -> Tensor:
    """Inner products (n, C, m, C') of (n, C, d) and (m, C', d)."""
    return (left.flatten(0, 1) @ right.flatten(0, 1).T).reshape(*left.shape[:2], *right.shape[:2])


def _add_product(total: Tensor, h: Tensor, g: Tensor, delta: Tensor, eta: Tensor) -> None:
    """Add (h . g)(delta . eta) for inputs (n, d), (m, d) and errors (n, C, o), (m, C', o)."""
    total.addcmul_(_inner(delta, eta), (h @ g.T)[:, None, :, None])


class TangentFeatures:
    """What tangent kernels need of a network, batch after batch; `layers` says which layers go by factors.

    The network is left as it was: hooks are removed, gradients are taken by copies of its parameters.
    """

    def __init__(
        self, network: nn.Module, sample: Tensor, *, parameters: str | Sequence[str] | None = None
    ) -> None:
        self.outputs = Outputs(network, parameters)
        names = set(self.outputs.layout.names)
        self._candidates = {
            name: module
            for name, module in network.named_modules()
            if _is_linear(module) and f"{name}.weight".lstrip(".") in names
        }
        self.layers = tuple(self._agreeing(sample))
        covered = {
            f"{layer}.{kind}".lstrip(".") for layer in self.layers for kind in ("weight", "bias")
        }
        self.others = [name for name in self.outputs.layout.names if name not in covered]
        self._rest = Outputs(network, self.others) if self.others else None

    def __call__(self, inputs: Tensor) -> dict[str, Factored | Rows]:
        """Features of a batch by layer; parameters without a factored layer are under the module that holds them."""
        found: dict[str, Factored | Rows] = (
            dict(self._factored(inputs, self.layers)[0]) if self.layers else {}
        )
        for module, rows in self._gradients(inputs).items():
            found[module if module not in found else f"{module} (other)"] = rows
        return found

    def _factored(
        self, inputs: Tensor, layers: Sequence[str], weights: Tensor | None = None
    ) -> tuple[dict[str, Factored], list[Tensor]]:
        """Inputs and errors of layers, by one backward pass an output; with `weights` (n, C) also their gradient."""
        leaves = self.outputs.leaves()
        with torch.enable_grad():
            outputs, seen = self._traced(leaves, inputs, layers)
            places = [made for uses in seen.values() for _, made in uses]
            columns = [
                torch.autograd.grad(each, places, retain_graph=True, materialize_grads=True)
                for each in outputs.sum(0)
            ]
            direct = (
                []
                if weights is None
                else torch.autograd.grad(outputs, leaves, weights, materialize_grads=True)
            )
        errors = iter(
            [torch.stack(each, dim=1) for each in zip(*columns)]
        )  # (n, C, ...) in the order of places
        return {
            name: self._positions(name, [(given, next(errors)) for given, _ in uses])
            for name, uses in seen.items()
        }, list(direct)

    def _traced(
        self, leaves: Sequence[Tensor], inputs: Tensor, layers: Sequence[str]
    ) -> tuple[Tensor, dict[str, list]]:
        """Outputs, and (input, output) of every use of every layer."""
        seen: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in layers}
        handles = []
        for name in layers:

            def record(
                module: nn.Module, given: tuple[Tensor, ...], made: Tensor, name: str = name
            ) -> Tensor:
                seen[name].append((given[0].detach().clone(), made))
                return made.clone()  # what follows may work in place

            handles.append(self._candidates[name].register_forward_hook(record))
        try:
            return self.outputs(leaves, inputs), {name: uses for name, uses in seen.items() if uses}
        finally:
            for handle in handles:
                handle.remove()

    def _positions(self, name: str, uses: list[tuple[Tensor, Tensor]]) -> Factored:
        """All uses of a layer as positions of one linear layer."""
        module = self._candidates[name]
        given = torch.cat([_input_positions(module, h) for h, _ in uses], dim=1)
        errors = torch.cat([_error_positions(module, delta) for _, delta in uses], dim=2)
        names = self.outputs.layout.slices
        return Factored(given, errors, weight=True, bias=f"{name}.bias".lstrip(".") in names)

    def _agreeing(self, sample: Tensor) -> list[str]:
        """Candidates whose gradient is that of their inputs and errors: not tied, not used but by being called."""
        if not self._candidates:
            return []
        with torch.no_grad():
            shape = self.outputs(self.outputs.values, sample).shape
        weights = (
            torch.arange(shape.numel(), device=sample.device, dtype=sample.dtype)
            .cos()
            .reshape(shape)
        )
        features, direct = self._factored(sample, list(self._candidates), weights)
        exact = dict(zip(self.outputs.layout.names, direct))
        return [name for name, each in features.items() if _agrees(name, each, weights, exact)]

    def _gradients(self, inputs: Tensor) -> dict[str, Rows]:
        """Gradients of the other parameters, sample by sample, by the module that holds them."""
        if self._rest is None:
            return {}
        rest = self._rest

        def jacobian(x: Tensor) -> tuple[Tensor, ...]:
            outputs, pull = vjp(lambda *values: rest(values, x[None])[0], *rest.values)
            return vmap(pull)(torch.eye(len(outputs), device=x.device, dtype=outputs.dtype))

        with torch.no_grad():
            tensors = dict(zip(rest.layout.names, vmap(jacobian)(inputs)))  # (n, C, *shape)
        grouped: dict[str, list[Tensor]] = {}
        for name, value in tensors.items():
            grouped.setdefault(name.rpartition(".")[0], []).append(
                value.flatten(2) if value.dim() > 2 else value[..., None]
            )
        return {module: Rows(torch.cat(values, dim=2)) for module, values in grouped.items()}


def _is_linear(module: nn.Module) -> bool:
    """Layers whose weights multiply inputs, or patches of them."""
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        return (
            module.groups == 1
            and module.padding_mode == "zeros"
            and not isinstance(module.padding, str)
        )
    return type(module) is nn.Linear


def _input_positions(module: nn.Module, given: Tensor) -> Tensor:
    """Inputs, or patches, (n, t, d)."""
    if isinstance(module, nn.Linear):
        return given.reshape(len(given), -1, given.shape[-1])
    flat = isinstance(module, nn.Conv1d)
    options = {
        name: (0 if name == "padding" else 1, *getattr(module, name))
        if flat
        else getattr(module, name)
        for name in _UNFOLDED
    }
    size = (1, *module.kernel_size) if flat else module.kernel_size
    return functional.unfold(given[:, :, None] if flat else given, size, **options).transpose(1, 2)


_UNFOLDED = ("dilation", "padding", "stride")


def _error_positions(module: nn.Module, errors: Tensor) -> Tensor:
    """Errors (n, C, t, o) of errors (n, C, *output)."""
    if isinstance(module, nn.Linear):
        return errors.reshape(*errors.shape[:2], -1, errors.shape[-1])
    return errors.flatten(3).transpose(2, 3)


def _agrees(name: str, layer: Factored, weights: Tensor, exact: Mapping[str, Tensor]) -> bool:
    weight, bias = layer.gradient(weights)
    pairs = [(weight.flatten(), exact[f"{name}.weight".lstrip(".")].flatten())]
    if layer.bias:
        pairs.append((bias, exact[f"{name}.bias".lstrip(".")]))
    return all(
        bool((mine - theirs).norm() <= _AGREEMENT * theirs.norm() + 1e-30) for mine, theirs in pairs
    )
