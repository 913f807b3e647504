"""The mixed second derivative M = d^2 f / d theta d x (parameters x inputs), as an operator with its adjoint.

M is never formed: it has parameters x inputs entries. `apply` is the jvp in x of the parameter gradient, `adjoint` its vjp. With
a `step`, column i of M is (grad_theta f(x + h e_i) - grad_theta f(x - h e_i)) / 2h instead, and the adjoint is that matrix's own.

`gram` is M^T M without the parameter axis where a layer allows it. A linear layer with inputs h_t and errors d_t at positions t has
the gradient sum_t d_t h_t^T; with A_t = dh_t/dx and B_t = dd_t/dx its part of M^T M is

    sum_ts (h_t.h_s + 1) B_t^T B_s + (d_t.d_s) A_t^T A_s + (B_t^T d_s)(A_s^T h_t)^T + (A_s^T h_t)(B_t^T d_s)^T

(the 1 is the bias). A convolution is a linear layer on patches. Where the weights are fewer than what this needs (small kernels),
and for every other parameter, columns of M are taken as they are, some parameters at a time.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from penchant_numerics.derivatives import first_output
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vjp, vmap
from torch.nn import functional

State = Mapping[str, Tensor]

_KEPT_BYTES = 2**29  # columns held at once; more parameters, or more columns, are taken in turn
_CHECK = 1e-3  # a layer whose gradient is not that of its inputs and errors (shared or reused elsewhere) is taken as it is


def column_chunk(activity: int, device: torch.device) -> int:
    """Columns a pass, for a network with so many numbers in its layers: as many as caches and memory like (`make bench`)."""
    budget = 2**22 if device.type == "cpu" else 2**27
    return min(1024, max(16, budget // activity))


@contextlib.contextmanager
def plain_attention() -> Iterator[None]:
    """Without torch's fused path of attention in evaluation mode, which has no derivatives; the global switch is put back."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class Layer(NamedTuple):
    """A layer whose part of M^T M follows from its inputs and errors."""

    name: str
    module: nn.Module
    shapes: tuple[torch.Size, ...]  # of its outputs, use after use
    rows: int  # positions, of all uses
    width: int  # inputs and outputs at a position

    def floats(self, *, exact: bool) -> int:
        """Numbers a column of M is kept as."""
        return self.rows * self.width + 2 * self.rows**2 if exact else 2 * self.width

    def parameters(self) -> list[str]:
        prefix = f"{self.name}." if self.name else ""
        return [
            f"{prefix}{name}"
            for name, value in self.module.named_parameters(recurse=False)
            if value is not None
        ]


class Factors(NamedTuple):
    """Inputs and errors of a layer (T, n), or columns of their derivatives (columns, T, n)."""

    inputs: Tensor
    errors: Tensor


class Part(NamedTuple):
    """What is held at once: layers by their factors, and parameters whose columns are taken as they are."""

    layers: tuple[Layer, ...]
    parameters: tuple[str, ...]
    floats: int


class Columns(NamedTuple):
    """Columns of M for one part: per layer its factors (with a step also their means), and (columns, numbers) as they are."""

    layers: dict[str, tuple[Factors, ...]]
    numbers: Tensor


class MixedDerivative:
    """M at `point` for networks of one architecture: every method takes the `state` (parameters and buffers) of one of them.

    >>> module = nn.Linear(3, 1, bias=False)
    >>> mixed = MixedDerivative(module, torch.ones(3, device="cpu"))
    >>> mixed.gram({"weight": module.weight.detach()}).tolist()        # f = theta.x: M is the identity
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
        self.module, self.point, self.step, self.kept_bytes = module, point, step, kept_bytes
        self.names = [name for name, _ in module.named_parameters()]
        self.size = point.numel()

    @plain_attention()
    def apply(self, state: State, directions: Tensor) -> dict[str, Tensor]:
        """M v for rows v of `directions` (k, D), by parameter: (k, *shape)."""
        parameters, output = self._split(state)
        if self.step is None:
            gradient = functools.partial(grad(lambda p, x: output(p, x[None])[0]), parameters)
            rows = directions.reshape(-1, *self.point.shape)
            return vmap(lambda v: jvp(gradient, (self.point,), (v,))[1])(rows)
        total = {
            name: value.new_zeros(len(directions), *value.shape)
            for name, value in parameters.items()
        }
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
        if self.step is None:
            gradient = grad(lambda p, x: output(p, x[None])[0])
            _, pull = vjp(lambda x: gradient(parameters, x), self.point)
            return vmap(lambda u: pull(u)[0])(dict(cotangents)).flatten(1)
        found = []
        for _, inputs in self._displaced(0, self.size):
            slopes = vmap(
                lambda u, batch=inputs: jvp(lambda p: output(p, batch), (parameters,), (u,))[1]
            )(dict(cotangents))
            forward, backward = slopes.chunk(2, dim=1)
            found.append((forward - backward) / (2 * self.step))
        return torch.cat(found, dim=1)

    def gram_times(self, state: State, directions: Tensor) -> Tensor:
        """M^T M v for rows v of `directions` (k, D), as rows; M v is held for as many v as fit."""
        width = sum(state[name].numel() for name in self.names) * self.point.element_size()
        rows = directions.split(max(1, self.kept_bytes // width))
        return torch.cat([self.adjoint(state, self.apply(state, each)) for each in rows])

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
                    self._add_product(
                        total[slice(*left), slice(*right)], columns, others, part, centre
                    )
                    if right != left:
                        total[slice(*right), slice(*left)] = total[slice(*left), slice(*right)].T
        return (total + total.T).mul_(0.5)

    def _split(self, state: State) -> tuple[dict[str, Tensor], Callable[[State, Tensor], Tensor]]:
        """Parameters, and the output (batch,) as a function of them and of a batch of inputs."""
        buffers = {name: value for name, value in state.items() if name not in self.names}

        def output(parameters: State, inputs: Tensor) -> Tensor:
            return first_output(functional_call(self.module, {**buffers, **parameters}, (inputs,)))

        return {name: state[name] for name in self.names}, output

    def _displaced(self, first: int, last: int) -> Iterator[tuple[int, Tensor]]:
        """(i, batch): x + h e_i, x + h e_(i+1), ..., then x - h e_i, ..., in chunks."""
        for start, rows in self._units(first, last):
            batch = torch.cat(
                [self.point.flatten() + self.step * rows, self.point.flatten() - self.step * rows]
            )
            yield start, batch.reshape(-1, *self.point.shape)

    def _units(self, first: int, last: int) -> Iterator[tuple[int, Tensor]]:
        """(i, rows e_i, e_(i+1), ...), in chunks."""
        for start in range(first, last, self.chunk):
            count = min(self.chunk, last - start)
            rows = torch.zeros(count, self.size, device=self.point.device, dtype=self.point.dtype)
            rows[
                torch.arange(count, device=rows.device),
                torch.arange(start, start + count, device=rows.device),
            ] = 1
            yield start, rows

    @functools.cached_property
    def chunk(self) -> int:
        """Columns a pass."""
        leaves = {
            name: [] for name, each in self.module.named_modules() if not any(each.children())
        }
        _, seen = trace(self.module, _own_state(self.module), self.point[None], leaves)
        sizes = [
            each.numel() for uses in seen.values() for each in uses if isinstance(each, Tensor)
        ]
        return column_chunk(sum(sizes) + self.size, self.point.device)

    @functools.cached_property
    def parts(self) -> list[Part]:
        """All parameters, in parts whose columns fit; a layer goes by its factors where that is smaller than its weights."""
        exact = self.step is None
        layers = [
            layer for layer in find_layers(self.module, self.point) if exact or layer.rows == 1
        ]
        sizes = {name: value.numel() for name, value in self.module.named_parameters()}
        layers = [
            layer
            for layer in layers
            if layer.floats(exact=exact) < sum(sizes[name] for name in layer.parameters())
        ]
        covered = {name for layer in layers for name in layer.parameters()}
        pieces = [Part((), (name,), size) for name, size in sizes.items() if name not in covered]
        pieces += [Part((layer,), (), layer.floats(exact=exact)) for layer in layers]
        return _packed(pieces, self.kept_bytes // (self.size * self.point.element_size()))

    def _blocks(self, part: Part, first: int = 0) -> Iterator[tuple[int, int]]:
        """Ranges of columns: all of them where they fit, else as many as two blocks allow."""
        fits = self.kept_bytes // (part.floats * self.point.element_size())
        block = self.size if fits >= self.size else max(1, fits // 2)
        return ((start, min(start + block, self.size)) for start in range(first, self.size, block))

    def _traced(
        self, state: State, part: Part, inputs: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, list[Tensor]], dict[str, list[Tensor]]]:
        """Gradients of single parameters, inputs and errors of layers (use after use), for a batch whose rows do not mix."""
        rest = {name: value for name, value in state.items() if name not in part.parameters}
        shifts = {
            layer.name: [
                inputs.new_zeros(len(inputs) * shape[0], *shape[1:]) for shape in layer.shapes
            ]
            for layer in part.layers
        }

        def shifted(
            parameters: State, errors: Mapping[str, list[Tensor]]
        ) -> tuple[Tensor, dict[str, list[Tensor]]]:
            output, seen = trace(self.module, {**rest, **parameters}, inputs, errors)
            return first_output(output).sum(), seen

        parameters = {name: state[name] for name in part.parameters}
        (gradients, errors), seen = grad(shifted, argnums=(0, 1), has_aux=True)(parameters, shifts)
        return gradients, seen, errors

    def _factors(self, state: State, part: Part) -> dict[str, Factors]:
        """Inputs and errors of the layers at the point."""
        _, seen, errors = self._traced(state, part, self.point[None])
        return {
            layer.name: Factors(*(each[0] for each in _rows(layer, seen, errors, batched=False)))
            for layer in part.layers
        }

    def _columns(self, state: State, part: Part, first: int, last: int) -> Columns:
        take = self._exact_columns if self.step is None else self._difference_columns
        chunks = list(take(state, part, first, last))
        layers = {
            layer.name: tuple(
                Factors(*(torch.cat(pieces) for pieces in zip(*each)))
                for each in zip(*(chunk.layers[layer.name] for chunk in chunks))
            )
            for layer in part.layers
        }
        return Columns(layers, torch.cat([chunk.numbers for chunk in chunks]))

    def _exact_columns(self, state: State, part: Part, first: int, last: int) -> Iterator[Columns]:
        for _, rows in self._units(first, last):
            along = vmap(
                lambda v: jvp(lambda x: self._traced(state, part, x[None]), (self.point,), (v,))[1]
            )
            gradients, seen, errors = along(rows.reshape(-1, *self.point.shape))
            layers = {
                layer.name: (_rows(layer, seen, errors, batched=True),) for layer in part.layers
            }
            yield Columns(layers, _flat(gradients, part, rows))

    def _difference_columns(
        self, state: State, part: Part, first: int, last: int
    ) -> Iterator[Columns]:
        """Half sums and half differences of the factors on both sides: (d+ h+^T - d- h-^T)/2h from products without cancellation."""
        each = Part(part.layers, (), 0)
        single = Part((), part.parameters, 0)
        for _, inputs in self._displaced(first, last):
            _, seen, errors = self._traced(state, each, inputs)
            layers = {}
            for layer in part.layers:
                uses = (
                    {layer.name: [use[:, None] for use in kind[layer.name]]}
                    for kind in (seen, errors)
                )
                layers[layer.name] = tuple(
                    _both_sides(_rows(layer, *uses, batched=True), self.step)
                )
            gradients = (
                vmap(lambda x: self._traced(state, single, x[None])[0])(inputs)
                if part.parameters
                else {}
            )
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
            has_bias = float(getattr(layer.module, "bias", None) is not None)
            if self.step is None:
                _add_exact(
                    total,
                    left.layers[layer.name][0],
                    right.layers[layer.name][0],
                    centre[layer.name],
                    has_bias,
                )
            else:
                _add_difference(total, left.layers[layer.name], right.layers[layer.name], has_bias)


def _both_sides(both: Factors, step: float) -> Iterator[Factors]:
    """Means of the factors over the two sides, then differences over 2h."""
    halves = [value.chunk(2) for value in both]
    yield Factors(*((forward + backward) / 2 for forward, backward in halves))
    yield Factors(*((forward - backward) / (2 * step) for forward, backward in halves))


def _add_exact(
    total: Tensor, left: Factors, right: Factors, centre: Factors, has_bias: float
) -> None:
    inputs = centre.inputs @ centre.inputs.T + has_bias  # (T, T): h_t.h_s + 1
    errors = centre.errors @ centre.errors.T
    total.addmm_(left.errors.flatten(1), (inputs @ right.errors).flatten(1).T)
    total.addmm_(left.inputs.flatten(1), (errors @ right.inputs).flatten(1).T)
    (B_d, h_A), (others_B_d, others_h_A) = (
        ((each.errors @ centre.errors.T).flatten(1), (each.inputs @ centre.inputs.T).mT.flatten(1))
        for each in (left, right)
    )  # (columns, T T), at t, s: B_t^T d_s and A_s^T h_t
    total.addmm_(B_d, others_h_A.T).addmm_(h_A, others_B_d.T)


def _add_difference(
    total: Tensor, left: tuple[Factors, ...], right: tuple[Factors, ...], has_bias: float
) -> None:
    (h, d), (A, B) = ((each.inputs[:, 0], each.errors[:, 0]) for each in left)
    (h_, d_), (A_, B_) = ((each.inputs[:, 0], each.errors[:, 0]) for each in right)
    total += (h @ h_.T + has_bias) * (B @ B_.T) + (d @ d_.T) * (A @ A_.T)
    total += (h @ A_.T) * (B @ d_.T) + (A @ h_.T) * (d @ B_.T)


def _flat(gradients: Mapping[str, Tensor], part: Part, rows: Tensor) -> Tensor:
    """Gradients of single parameters side by side, (rows, numbers)."""
    pieces = [gradients[name].reshape(len(rows), -1) for name in part.parameters]
    return (
        torch.cat(pieces, dim=1)
        if pieces
        else torch.zeros(len(rows), 0, device=rows.device, dtype=rows.dtype)
    )


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
    module: nn.Module, state: State, inputs: Tensor, shifts: Mapping[str, list[Tensor]]
) -> tuple[Tensor, dict[str, list[Tensor]]]:
    """Outputs, and the inputs of every use of the layers that `shifts` names, with a shift added to what each use puts out."""
    seen: dict[str, list[Tensor]] = {name: [] for name in shifts}

    def watch(name: str) -> Callable[..., Tensor]:
        def shift(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
            seen[name] += arguments[:1]
            return output + shifts[name][len(seen[name]) - 1] if shifts[name] else output

        return shift

    handles = [module.get_submodule(name).register_forward_hook(watch(name)) for name in shifts]
    try:
        return functional_call(module, dict(state), (inputs,)), seen
    finally:
        for handle in handles:
            handle.remove()


def find_layers(module: nn.Module, point: Tensor) -> list[Layer]:
    """Linear layers and convolutions whose gradient is that of their own inputs and errors, and of nothing else."""
    state = _own_state(module)
    candidates = {name: each for name, each in module.named_modules() if _is_plain(each)}
    _, seen = trace(module, state, point[None], {name: [] for name in candidates})
    shared = _shared_parameters(module)
    layers = [
        layer
        for name, each in candidates.items()
        if (layer := _layer(name, each, seen[name])) is not None
    ]
    return _explained(
        module, state, point, [layer for layer in layers if not shared & set(layer.parameters())]
    )


def _own_state(module: nn.Module) -> dict[str, Tensor]:
    return {
        name: value.detach()
        for name, value in (*module.named_parameters(), *module.named_buffers())
    }


def _is_plain(module: nn.Module) -> bool:
    if type(module) is nn.Conv2d:
        return (
            module.groups == 1
            and module.padding_mode == "zeros"
            and not isinstance(module.padding, str)
        )
    return type(module) is nn.Linear


def _shared_parameters(module: nn.Module) -> set[str]:
    names: dict[int, list[str]] = {}
    for name, value in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(value), []).append(name)
    return {name for each in names.values() if len(each) > 1 for name in each}


def _layer(name: str, module: nn.Module, inputs: list[Tensor]) -> Layer | None:
    """The layer, or nothing if it was not used, or used on something else than batches."""
    if not inputs or "weight" not in dict(module.named_parameters(recurse=False)):
        return None
    if isinstance(module, nn.Conv2d) and any(each.ndim != 4 for each in inputs):
        return None
    with torch.no_grad():
        outputs = [module(each) for each in inputs]
    weight = module.weight.flatten(1)
    rows = sum(each.numel() for each in outputs) // len(weight)
    return Layer(name, module, tuple(each.shape for each in outputs), rows, sum(weight.shape))


def _explained(module: nn.Module, state: State, point: Tensor, layers: list[Layer]) -> list[Layer]:
    """The layers whose weight has the gradient sum_t d_t h_t^T; one that is also used by other code has not."""
    weights = {layer.name: layer.parameters()[0] for layer in layers}
    part = Part(tuple(layers), tuple(weights.values()), 0)
    gradients, seen, errors = MixedDerivative(module, point)._traced(state, part, point[None])
    found = []
    for layer in layers:
        inputs, outputs = (each[0] for each in _rows(layer, seen, errors, batched=False))
        gradient = gradients[weights[layer.name]].flatten(1)
        if (outputs.T @ inputs - gradient).norm() <= _CHECK * gradient.norm():
            found.append(layer)
    return found


def _rows(
    layer: Layer,
    inputs: Mapping[str, list[Tensor]],
    errors: Mapping[str, list[Tensor]],
    *,
    batched: bool,
) -> Factors:
    """Inputs and errors of all uses of a layer position by position, (columns, T, n); one column where they are not batched."""
    pairs = [
        (h, d) if batched else (h[None], d[None])
        for h, d in zip(inputs[layer.name], errors[layer.name])
    ]
    if isinstance(layer.module, nn.Linear):
        rows = [
            (h.reshape(len(h), -1, h.shape[-1]), d.reshape(len(d), -1, d.shape[-1]))
            for h, d in pairs
        ]
    else:
        rows = [
            (_patches(layer.module, h), d.flatten(3).transpose(2, 3).flatten(1, 2))
            for h, d in pairs
        ]
    return Factors(*(torch.cat(kind, dim=1) for kind in zip(*rows)))


def _patches(module: nn.Module, images: Tensor) -> Tensor:
    """What a convolution sees at every position: (columns, batch, channels, height, width) -> (columns, T, channels k^2)."""
    seen = functional.unfold(
        images.flatten(0, 1), module.kernel_size, module.dilation, module.padding, module.stride
    )
    return seen.unflatten(0, images.shape[:2]).transpose(2, 3).flatten(1, 2)
