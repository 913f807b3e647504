"""The mixed second derivative M = d^2 f / d theta d x (parameters x inputs), and its adjoint.

M is never formed: it has parameters x inputs entries. `apply` is the jvp in x of the parameter
gradient, `adjoint` its vjp. With a `step`, column i of M is

    (grad_theta f(x + h e_i) - grad_theta f(x - h e_i)) / 2h

instead, and the adjoint is that matrix's own.

`gram` is M^T M without the parameter axis where a layer allows it. A linear layer with inputs h_t
and errors d_t at positions t (`linear_layers`) has the gradient sum_t d_t h_t^T; with
A_t = dh_t/dx and B_t = dd_t/dx its part of M^T M is

    sum_ts (h_t.h_s + 1) B_t^T B_s + (d_t.d_s) A_t^T A_s
           + (B_t^T d_s)(A_s^T h_t)^T + (A_s^T h_t)(B_t^T d_s)^T

(the 1 is the bias). Where the weights are fewer than what this needs (small kernels), and for every
other parameter, columns of M are taken as they are, some parameters at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from penchant_numerics.derivatives import first_output
from penchant_numerics.ensembles import state_of
from penchant_numerics.linear_layers import (
    error_positions,
    input_positions,
    is_gradient,
    is_linear,
    shared_parameters,
    takes_batch,
    watched,
)
from penchant_numerics.safety import plain_attention
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vjp, vmap

State = Mapping[str, Tensor]
Uses = Mapping[str, list[Tensor]]  # by layer, use after use
Output = Callable[[State, Tensor], Tensor]

_KEPT_BYTES = 2**29  # columns held at once; more parameters, or more columns, are taken in turn


def column_chunk(activity: int, device: torch.device) -> int:
    """Columns a pass: as many as caches and memory like (`make bench`).

    Args:
        activity: Numbers in the layers of the network for one input.
        device: Where it runs.
    """
    budget = 2**22 if device.type == "cpu" else 2**27
    return min(1024, max(16, budget // activity))


class Layer(NamedTuple):
    """A layer whose part of M^T M follows from its inputs and errors."""

    name: str
    module: nn.Module
    shapes: tuple[torch.Size, ...]  # of its outputs, use after use
    rows: int  # positions, of all uses
    width: int  # inputs and outputs at a position

    def floats(self, *, exact: bool) -> int:
        """Numbers a column of M is kept as."""
        if exact:
            return self.rows * self.width + 2 * self.rows**2
        return 2 * self.width

    def parameters(self) -> list[str]:
        """Names of the layer's parameters in the network."""
        prefix = f"{self.name}." if self.name else ""
        own = self.module.named_parameters(recurse=False)
        return [f"{prefix}{name}" for name, value in own if value is not None]

    def has_bias(self) -> float:
        """1 with a bias, else 0."""
        return float(getattr(self.module, "bias", None) is not None)


class Factors(NamedTuple):
    """Inputs and errors of a layer (T, n), or columns of their derivatives (columns, T, n)."""

    inputs: Tensor
    errors: Tensor


class Part(NamedTuple):
    """What is held at once: layers by their factors, and parameters taken as they are."""

    layers: tuple[Layer, ...]
    parameters: tuple[str, ...]
    floats: int


class Columns(NamedTuple):
    """Columns of M for one part."""

    layers: dict[str, tuple[Factors, ...]]  # by layer; with a step, their means and differences
    numbers: Tensor  # (columns, numbers), of parameters taken as they are


class Traced(NamedTuple):
    """What one backward pass gives of a part."""

    gradients: dict[str, Tensor]  # of parameters taken as they are
    inputs: dict[str, list[Tensor]]  # of layers, use after use
    errors: dict[str, list[Tensor]]


class MixedDerivative:
    """M at a point for networks of one architecture; methods take the state of one of them.

    Args:
        module: The network; its own parameters are not used but to find its layers.
        point: The input x, of the network's shape without an axis of samples.
        step: The h of finite differences; None is the derivative.
        kept_bytes: How much memory columns may take.

    >>> module = nn.Linear(3, 1, bias=False)
    >>> mixed = MixedDerivative(module, torch.ones(3, device="cpu"))
    >>> mixed.gram(state_of(module)).tolist()                 # f = theta.x: M is the identity
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(
        self,
        module: nn.Module,
        point: Tensor,
        *,
        step: float | None = None,
        kept_bytes: int = _KEPT_BYTES,
    ) -> None:
        self.module = module
        self.point = point
        self.step = step
        self.kept_bytes = kept_bytes
        self.names = [name for name, _ in module.named_parameters()]
        self.size = point.numel()

    @plain_attention()
    def apply(self, state: State, directions: Tensor) -> dict[str, Tensor]:
        """M v for rows v of `directions` (k, D), by parameter: (k, *shape)."""
        parameters, output = self._split(state)
        if self.step is not None:
            return self._apply_difference(parameters, output, directions)
        gradient = grad(lambda p, x: output(p, x[None])[0])
        at_parameters = functools.partial(gradient, parameters)
        rows = directions.reshape(-1, *self.point.shape)
        return vmap(lambda v: jvp(at_parameters, (self.point,), (v,))[1])(rows)

    def _apply_difference(
        self, parameters: State, output: Output, directions: Tensor
    ) -> dict[str, Tensor]:
        total = {}
        for name, value in parameters.items():
            total[name] = value.new_zeros(len(directions), *value.shape)
        for start, inputs in self._displaced(0, self.size):
            weights = directions[:, start : start + len(inputs) // 2] / (2 * self.step)
            _, pull = vjp(lambda p, batch=inputs: output(p, batch), parameters)
            (found,) = vmap(pull)(torch.cat([weights, -weights], dim=1))
            total = {name: value + found[name] for name, value in total.items()}
        return total

    @plain_attention()
    def adjoint(self, state: State, cotangents: Mapping[str, Tensor]) -> Tensor:
        """M^T u for every u of `cotangents`, by parameter (k, *shape): rows (k, D)."""
        parameters, output = self._split(state)
        if self.step is not None:
            return self._adjoint_difference(parameters, output, cotangents)
        gradient = grad(lambda p, x: output(p, x[None])[0])
        _, pull = vjp(lambda x: gradient(parameters, x), self.point)
        return vmap(lambda u: pull(u)[0])(dict(cotangents)).flatten(1)

    def _adjoint_difference(
        self, parameters: State, output: Output, cotangents: Mapping[str, Tensor]
    ) -> Tensor:
        found = []
        for _, inputs in self._displaced(0, self.size):

            def slope(u: State, batch: Tensor = inputs) -> Tensor:
                return jvp(lambda p: output(p, batch), (parameters,), (u,))[1]

            forward, backward = vmap(slope)(dict(cotangents)).chunk(2, dim=1)
            found.append((forward - backward) / (2 * self.step))
        return torch.cat(found, dim=1)

    def gram_times(self, state: State, directions: Tensor) -> Tensor:
        """M^T M v for rows v of `directions` (k, D), as rows; M v is held for as many v as fit."""
        numbers = sum(state[name].numel() for name in self.names)
        fits = self.kept_bytes // (numbers * self.point.element_size())
        found = []
        for rows in directions.split(max(1, fits)):
            images = self.apply(state, rows)
            found.append(self.adjoint(state, images))
        return torch.cat(found)

    @plain_attention()
    def gram(self, state: State) -> Tensor:
        """M^T M, (D, D), exact to rounding."""
        total = torch.zeros(self.size, self.size, device=self.point.device, dtype=self.point.dtype)
        for part in self.parts:
            centre = self._factors(state, part)
            for left in self._blocks(part):
                columns = self._columns(state, part, *left)
                for right in self._blocks(part, first=left[0]):
                    others = columns if right == left else self._columns(state, part, *right)
                    block = total[slice(*left), slice(*right)]
                    self._add_product(block, columns, others, part, centre)
                    if right != left:
                        total[slice(*right), slice(*left)] = block.T
        return (total + total.T).mul_(0.5)

    def _split(self, state: State) -> tuple[dict[str, Tensor], Output]:
        """Parameters, and the output (batch,) as a function of them and of a batch of inputs."""
        parameters = {name: state[name] for name in self.names}
        buffers = {name: value for name, value in state.items() if name not in self.names}

        def output(given: State, inputs: Tensor) -> Tensor:
            return first_output(functional_call(self.module, {**buffers, **given}, (inputs,)))

        return parameters, output

    def _displaced(self, first: int, last: int) -> Iterator[tuple[int, Tensor]]:
        """(i, batch): x + h e_i, x + h e_(i+1), ..., then x - h e_i, ..., in chunks."""
        for start, rows in self._units(first, last):
            forward = self.point.flatten() + self.step * rows
            backward = self.point.flatten() - self.step * rows
            batch = torch.cat([forward, backward])
            yield start, batch.reshape(-1, *self.point.shape)

    def _units(self, first: int, last: int) -> Iterator[tuple[int, Tensor]]:
        """(i, rows e_i, e_(i+1), ...), in chunks."""
        for start in range(first, last, self.chunk):
            count = min(self.chunk, last - start)
            rows = torch.zeros(count, self.size, device=self.point.device, dtype=self.point.dtype)
            numbers = torch.arange(count, device=rows.device)
            rows[numbers, numbers + start] = 1
            yield start, rows

    @functools.cached_property
    def chunk(self) -> int:
        """Columns a pass."""
        leaves = {}
        for name, each in self.module.named_modules():
            if not any(each.children()):
                leaves[name] = []
        _, seen = trace(self.module, state_of(self.module), self.point[None], leaves)
        activity = self.size
        for uses in seen.values():
            activity += sum(each.numel() for each in uses if isinstance(each, Tensor))
        return column_chunk(activity, self.point.device)

    @functools.cached_property
    def parts(self) -> list[Part]:
        """All parameters, in parts whose columns fit.

        A layer goes by its factors where that is smaller than its weights; with a step, only where
        it has one position.
        """
        exact = self.step is None
        sizes = {name: value.numel() for name, value in self.module.named_parameters()}
        layers = []
        for layer in find_layers(self.module, self.point):
            weights = sum(sizes[name] for name in layer.parameters())
            if (exact or layer.rows == 1) and layer.floats(exact=exact) < weights:
                layers.append(layer)

        covered: set[str] = set()
        for layer in layers:
            covered.update(layer.parameters())
        pieces = [Part((), (name,), size) for name, size in sizes.items() if name not in covered]
        pieces += [Part((layer,), (), layer.floats(exact=exact)) for layer in layers]
        return _packed(pieces, self.kept_bytes // (self.size * self.point.element_size()))

    def _blocks(self, part: Part, first: int = 0) -> Iterator[tuple[int, int]]:
        """Ranges of columns: all of them where they fit, else as many as two blocks allow."""
        fits = self.kept_bytes // (part.floats * self.point.element_size())
        block = self.size if fits >= self.size else max(1, fits // 2)
        for start in range(first, self.size, block):
            yield start, min(start + block, self.size)

    def _traced(self, state: State, part: Part, inputs: Tensor) -> Traced:
        """Gradients, inputs and errors of a part, for a batch whose rows do not mix."""
        rest = {name: value for name, value in state.items() if name not in part.parameters}
        shifts = {}
        for layer in part.layers:
            shapes = [(len(inputs) * shape[0], *shape[1:]) for shape in layer.shapes]
            shifts[layer.name] = [inputs.new_zeros(shape) for shape in shapes]

        def shifted(parameters: State, errors: Uses) -> tuple[Tensor, dict[str, list[Tensor]]]:
            output, seen = trace(self.module, {**rest, **parameters}, inputs, errors)
            return first_output(output).sum(), seen

        parameters = {name: state[name] for name in part.parameters}
        derivatives = grad(shifted, argnums=(0, 1), has_aux=True)
        (gradients, errors), seen = derivatives(parameters, shifts)
        return Traced(gradients, seen, errors)

    def _factors(self, state: State, part: Part) -> dict[str, Factors]:
        """Inputs and errors of the layers at the point."""
        traced = self._traced(state, part, self.point[None])
        return {layer.name: _at_point(layer, traced) for layer in part.layers}

    def _columns(self, state: State, part: Part, first: int, last: int) -> Columns:
        take = self._exact_columns if self.step is None else self._difference_columns
        chunks = list(take(state, part, first, last))
        layers = {}
        for layer in part.layers:
            pieces = [chunk.layers[layer.name] for chunk in chunks]
            layers[layer.name] = tuple(_joined(kind, dim=0) for kind in zip(*pieces))
        return Columns(layers, torch.cat([chunk.numbers for chunk in chunks]))

    def _exact_columns(self, state: State, part: Part, first: int, last: int) -> Iterator[Columns]:
        def along(v: Tensor) -> tuple[object, ...]:
            return jvp(lambda x: tuple(self._traced(state, part, x[None])), (self.point,), (v,))[1]

        for _, rows in self._units(first, last):
            traced = Traced(*vmap(along)(rows.reshape(-1, *self.point.shape)))
            layers = {}
            for layer in part.layers:
                pairs = zip(traced.inputs[layer.name], traced.errors[layer.name])
                layers[layer.name] = (_positions(layer, list(pairs)),)
            yield Columns(layers, _flat(traced.gradients, part, rows))

    def _difference_columns(
        self, state: State, part: Part, first: int, last: int
    ) -> Iterator[Columns]:
        """Half sums and half differences of the factors on both sides.

        From them (d+ h+^T - d- h-^T) / 2h comes as products without cancellation.
        """
        each = Part(part.layers, (), 0)
        single = Part((), part.parameters, 0)
        for _, inputs in self._displaced(first, last):
            traced = self._traced(state, each, inputs)
            layers = {}
            for layer in part.layers:
                pairs = zip(traced.inputs[layer.name], traced.errors[layer.name])
                uses = [(h[:, None], d[:, None]) for h, d in pairs]
                layers[layer.name] = _both_sides(_positions(layer, uses), self.step)
            gradients = {}
            if part.parameters:
                alone = vmap(lambda x: self._traced(state, single, x[None]).gradients)
                gradients = alone(inputs)
            forward, backward = _flat(gradients, part, inputs).chunk(2)
            yield Columns(layers, (forward - backward) / (2 * self.step))

    def _add_product(
        self,
        total: Tensor,
        left: Columns,
        right: Columns,
        part: Part,
        centre: Mapping[str, Factors],
    ) -> None:
        """Add M_left^T M_right of a part."""
        total.addmm_(left.numbers, right.numbers.T)
        for layer in part.layers:
            mine, others = left.layers[layer.name], right.layers[layer.name]
            if self.step is None:
                _add_exact(total, mine[0], others[0], centre[layer.name], layer.has_bias())
            else:
                _add_difference(total, mine, others, layer.has_bias())


def _both_sides(both: Factors, step: float) -> tuple[Factors, Factors]:
    """Means of the factors over the two sides, then differences over 2h."""
    (h_forward, h_backward), (d_forward, d_backward) = (value.chunk(2) for value in both)
    means = Factors((h_forward + h_backward) / 2, (d_forward + d_backward) / 2)
    width = 2 * step
    differences = Factors((h_forward - h_backward) / width, (d_forward - d_backward) / width)
    return means, differences


def _add_exact(
    total: Tensor, left: Factors, right: Factors, centre: Factors, has_bias: float
) -> None:
    """Add a layer's part of M_left^T M_right (the formula above)."""
    h_h = centre.inputs @ centre.inputs.T + has_bias  # (T, T): h_t.h_s + 1
    d_d = centre.errors @ centre.errors.T
    total.addmm_(left.errors.flatten(1), (h_h @ right.errors).flatten(1).T)
    total.addmm_(left.inputs.flatten(1), (d_d @ right.inputs).flatten(1).T)
    left_B_d, left_h_A = _crossed(left, centre)
    right_B_d, right_h_A = _crossed(right, centre)
    total.addmm_(left_B_d, right_h_A.T).addmm_(left_h_A, right_B_d.T)


def _crossed(each: Factors, centre: Factors) -> tuple[Tensor, Tensor]:
    """B_t^T d_s and A_s^T h_t, both (columns, T T) with t first."""
    B_d = (each.errors @ centre.errors.T).flatten(1)
    h_A = (each.inputs @ centre.inputs.T).mT.flatten(1)
    return B_d, h_A


def _add_difference(
    total: Tensor, left: tuple[Factors, ...], right: tuple[Factors, ...], has_bias: float
) -> None:
    """The same for finite differences of a layer with one position."""
    (h, d), (A, B) = ((each.inputs[:, 0], each.errors[:, 0]) for each in left)
    (h_, d_), (A_, B_) = ((each.inputs[:, 0], each.errors[:, 0]) for each in right)
    total += (h @ h_.T + has_bias) * (B @ B_.T) + (d @ d_.T) * (A @ A_.T)
    total += (h @ A_.T) * (B @ d_.T) + (A @ h_.T) * (d @ B_.T)


def _flat(gradients: Mapping[str, Tensor], part: Part, rows: Tensor) -> Tensor:
    """Gradients of single parameters side by side, (rows, numbers)."""
    pieces = [gradients[name].reshape(len(rows), -1) for name in part.parameters]
    if not pieces:
        return torch.zeros(len(rows), 0, device=rows.device, dtype=rows.dtype)
    return torch.cat(pieces, dim=1)


def _packed(pieces: list[Part], limit: int) -> list[Part]:
    """Neighbours together as long as they fit."""
    packed: list[Part] = []
    for piece in pieces:
        if packed and packed[-1].floats + piece.floats <= limit:
            last = packed.pop()
            piece = Part(
                last.layers + piece.layers,
                last.parameters + piece.parameters,
                last.floats + piece.floats,
            )
        packed.append(piece)
    return packed


def trace(
    module: nn.Module, state: State, inputs: Tensor, shifts: Uses
) -> tuple[Tensor, dict[str, list[Tensor]]]:
    """Outputs of a network, and what its layers see; the derivative by a shift is a layer's error.

    Args:
        module: The network.
        state: Its parameters and buffers.
        inputs: A batch.
        shifts: By layer, what is added to its output, use after use; an empty list adds nothing.

    Returns:
        The outputs, and the inputs of every use of the layers that `shifts` names.
    """
    seen: dict[str, list[Tensor]] = {name: [] for name in shifts}

    def shift(name: str, given: Tensor, made: Tensor) -> Tensor:
        seen[name].append(given)
        if not shifts[name]:
            return made
        return made + shifts[name][len(seen[name]) - 1]

    layers = {name: module.get_submodule(name) for name in shifts}
    with watched(layers, shift):
        return functional_call(module, dict(state), (inputs,)), seen


def find_layers(module: nn.Module, point: Tensor) -> list[Layer]:
    """Layers whose gradient is that of their own inputs and errors, and of nothing else.

    Args:
        module: The network.
        point: An input, without an axis of samples.
    """
    state = state_of(module)
    candidates = {name: each for name, each in module.named_modules() if is_linear(each)}
    _, seen = trace(module, state, point[None], {name: [] for name in candidates})
    shared = shared_parameters(module)
    layers = []
    for name, each in candidates.items():
        layer = _layer(name, each, seen[name])
        if layer is not None and not shared.intersection(layer.parameters()):
            layers.append(layer)
    return _explained(module, state, point, layers)


def _layer(name: str, module: nn.Module, inputs: Sequence[Tensor]) -> Layer | None:
    """The layer, or nothing if it was not used, or used on something else than batches."""
    if not inputs or "weight" not in dict(module.named_parameters(recurse=False)):
        return None
    if not all(takes_batch(module, each) for each in inputs):
        return None
    with torch.no_grad():
        outputs = [module(each) for each in inputs]
    weight = module.weight.flatten(1)
    rows = sum(each.numel() for each in outputs) // len(weight)
    return Layer(name, module, tuple(each.shape for each in outputs), rows, sum(weight.shape))


def _explained(
    module: nn.Module, state: State, point: Tensor, layers: Sequence[Layer]
) -> list[Layer]:
    """The layers whose weight has the gradient sum_t d_t h_t^T: not also used by other code."""
    weights = {layer.name: layer.parameters()[0] for layer in layers}
    part = Part(tuple(layers), tuple(weights.values()), 0)
    traced = MixedDerivative(module, point)._traced(state, part, point[None])
    found = []
    for layer in layers:
        inputs, errors = _at_point(layer, traced)
        gradient = traced.gradients[weights[layer.name]].flatten(1)
        if is_gradient(errors.T @ inputs, gradient):
            found.append(layer)
    return found


def _at_point(layer: Layer, traced: Traced) -> Factors:
    """Inputs and errors (T, n) of a layer for one input."""
    pairs = zip(traced.inputs[layer.name], traced.errors[layer.name])
    both = _positions(layer, [(h[None], d[None]) for h, d in pairs])
    return Factors(both.inputs[0], both.errors[0])


def _positions(layer: Layer, uses: Sequence[tuple[Tensor, Tensor]]) -> Factors:
    """Inputs and errors of all uses, each (columns, batch, ...), position by position."""
    found = []
    for inputs, errors in uses:
        seen = input_positions(layer.module, inputs.flatten(0, 1))  # (columns batch, t, n)
        seen = seen.unflatten(0, inputs.shape[:2]).flatten(1, 2)
        told = error_positions(layer.module, errors).flatten(1, 2)
        found.append(Factors(seen, told))
    return _joined(found, dim=1)


def _joined(factors: Sequence[Factors], *, dim: int) -> Factors:
    inputs, errors = zip(*factors)
    return Factors(torch.cat(inputs, dim=dim), torch.cat(errors, dim=dim))
