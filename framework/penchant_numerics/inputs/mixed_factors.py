"""Columns of the mixed derivative of a linear layer, by its inputs and errors, and their products.

A linear layer with inputs h_t and errors d_t at positions t (`linear_layers`) has the gradient
sum_t d_t h_t^T. With A_t = dh_t/dx and B_t = dd_t/dx its columns of M = d^2 f / d theta d x are
sum_t B_t h_t^T + d_t A_t^T, and their inner products need no parameter axis:

    sum_ts (h_t.h_s + 1) B_t^T B_s + (d_t.d_s) A_t^T A_s
           + (B_t^T d_s)(A_s^T h_t)^T + (A_s^T h_t)(B_t^T d_s)^T

(the 1 is the bias). Columns of finite differences, (d+ h+^T - d- h-^T) / 2h, have the same form
with the means of both sides for h and d, and differences over 2h for A and B: exactly so, without
cancellation.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from penchant_numerics.inputs.derivatives import first_output
from penchant_numerics.layers import (
    error_positions,
    input_positions,
    is_gradient,
    is_linear,
    is_transposed,
    shared_parameters,
    takes_batch,
    watched,
)
from penchant_numerics.training import state_of
from torch import Tensor, nn
from torch.func import functional_call, grad

State = Mapping[str, Tensor]
Uses = Mapping[str, list[Tensor]]  # by layer, use after use


class Layer(NamedTuple):
    """A layer whose contribution to M^T M follows from its inputs and errors."""

    name: str
    module: nn.Module
    shapes: tuple[torch.Size, ...]  # of its outputs for one input, use after use
    rows: int  # positions, of all uses
    width: int  # inputs and outputs at a position

    def floats(self, *, exact: bool) -> int:
        """Stored numbers per column of M; with finite differences a layer has one position."""
        if not exact:
            return 2 * self.width
        factors = self.rows * self.width
        crossed = 2 * self.rows**2
        return factors + crossed

    def parameters(self) -> list[str]:
        """Names of the layer's parameters in the network."""
        prefix = f"{self.name}." if self.name else ""
        names = []
        for name, value in self.module.named_parameters(recurse=False):
            if value is not None:
                names.append(prefix + name)
        return names

    def has_bias(self) -> float:
        """1 with a bias, else 0."""
        bias = getattr(self.module, "bias", None)
        return float(bias is not None)


class Factors(NamedTuple):
    """Inputs and errors of a layer (T, n), or columns of their derivatives (columns, T, n)."""

    inputs: Tensor
    errors: Tensor


class Traced(NamedTuple):
    """What one backward pass gives of some parameters and layers."""

    gradients: dict[str, Tensor]  # of the parameters
    inputs: dict[str, list[Tensor]]  # of the layers, use after use
    errors: dict[str, list[Tensor]]

    def of(self, layer: Layer) -> list[tuple[Tensor, Tensor]]:
        """Inputs and errors of every use of a layer."""
        pairs = zip(self.inputs[layer.name], self.errors[layer.name])
        return list(pairs)


# ---- finding layers


def find_layers(module: nn.Module, point: Tensor) -> list[Layer]:
    """Layers whose gradient is that of their own inputs and errors, only.

    Args:
        module: The network.
        point: An input, without an axis of samples.

    Returns:
        Layers in the order of the network. Left out are those whose weight is tied to another's or
        used by code that does not call the layer.
    """
    state = state_of(module)
    candidates = {}
    for name, each in module.named_modules():
        if is_linear(each) and not is_transposed(each):
            candidates[name] = each
    unshifted: dict[str, list[Tensor]] = {name: [] for name in candidates}
    _, seen = trace(module, state, point[None], unshifted)

    # what is tied cannot be one layer's own
    shared = shared_parameters(module)
    layers = []
    for name, each in candidates.items():
        layer = _describe(name, each, seen[name])
        if layer is not None and not shared.intersection(layer.parameters()):
            layers.append(layer)
    return _explained(module, state, point, layers)


def _describe(name: str, module: nn.Module, inputs: Sequence[Tensor]) -> Layer | None:
    """The layer, or None if it was not used, or used on something else than batches."""
    # its weight may be computed from other parameters
    own = dict(module.named_parameters(recurse=False))
    if not inputs or "weight" not in own:
        return None
    if not all(takes_batch(module, each) for each in inputs):
        return None

    # what it gives for one input, and how much that is
    with torch.no_grad():
        shapes = [module(each).shape for each in inputs]
    weight = own["weight"].flatten(1)
    numbers = sum(shape.numel() for shape in shapes)
    return Layer(
        name, module, shapes=tuple(shapes), rows=numbers // len(weight), width=sum(weight.shape)
    )


def _explained(
    module: nn.Module, state: State, point: Tensor, layers: Sequence[Layer]
) -> list[Layer]:
    """The layers whose weight has the gradient sum_t d_t h_t^T."""
    weights = [layer.parameters()[0] for layer in layers]
    traced = trace_layers(module, state, point[None], layers=layers, parameters=weights)
    explained = []
    for layer, weight in zip(layers, weights):
        inputs, errors = at_point(layer, traced)
        exact = traced.gradients[weight].flatten(1)
        if is_gradient(errors.T @ inputs, exact):
            explained.append(layer)
    return explained


# ---- passes through the network


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
        use = len(seen[name])
        seen[name].append(given)
        if not shifts[name]:
            return made
        return made + shifts[name][use]

    layers = {name: module.get_submodule(name) for name in shifts}
    with watched(layers, shift):
        outputs = functional_call(module, dict(state), (inputs,))
    return outputs, seen


def trace_layers(
    module: nn.Module,
    state: State,
    inputs: Tensor,
    *,
    layers: Sequence[Layer],
    parameters: Sequence[str],
) -> Traced:
    """Gradients of some parameters, and inputs and errors of some layers.

    Args:
        module: The network.
        state: Its parameters and buffers.
        inputs: A batch whose rows do not mix; gradients are those of the sum of its outputs.
        layers: Which layers.
        parameters: Which parameters.

    Returns:
        Gradients of the parameters, and inputs and errors of the layers, use after use.
    """
    # nothing is added to what a layer gives; the derivative by it is the error
    shifts = {}
    for layer in layers:
        uses = []
        for rows, *shape in layer.shapes:
            uses.append(inputs.new_zeros(len(inputs) * rows, *shape))
        shifts[layer.name] = uses
    rest = {name: value for name, value in state.items() if name not in parameters}

    def total(own: State, errors: Uses) -> tuple[Tensor, dict[str, list[Tensor]]]:
        whole = {**rest, **own}
        outputs, seen = trace(module, whole, inputs, errors)
        chosen = first_output(outputs)
        return chosen.sum(), seen

    # towards the parameters and towards the shifts, in one pass
    own = {name: state[name] for name in parameters}
    derivatives = grad(total, argnums=(0, 1), has_aux=True)
    (gradients, errors), seen = derivatives(own, shifts)
    return Traced(gradients, seen, errors)


# ---- factors


def at_point(layer: Layer, traced: Traced) -> Factors:
    """Inputs and errors (T, n) of a layer for one input."""
    uses = []
    for h, d in traced.of(layer):
        uses.append((h[None], d[None]))
    both = positions(layer, uses)
    return Factors(both.inputs[0], both.errors[0])


def positions(layer: Layer, uses: Sequence[tuple[Tensor, Tensor]]) -> Factors:
    """Inputs and errors of all uses position by position.

    Args:
        layer: The layer.
        uses: Inputs and errors, each (columns, batch, ...).

    Returns:
        Factors (columns, T, n).
    """
    factors = []
    for inputs, errors in uses:
        # (columns, batch, t, n), both
        columns, batch = inputs.shape[:2]
        flat = input_positions(layer.module, inputs.flatten(0, 1))
        seen = flat.unflatten(0, (columns, batch))
        error_rows = error_positions(layer.module, errors)

        # inputs of a batch are positions like others
        both = Factors(seen.flatten(1, 2), error_rows.flatten(1, 2))
        factors.append(both)
    return joined(factors, dim=1)


def joined(factors: Sequence[Factors], *, dim: int) -> Factors:
    """Factors one after another along an axis."""
    inputs, errors = zip(*factors)
    return Factors(torch.cat(inputs, dim=dim), torch.cat(errors, dim=dim))


def both_sides(both: Factors, step: float) -> tuple[Factors, Factors]:
    """Means of the factors over the two sides of a displacement, and differences over 2h.

    Args:
        both: Factors (2 columns, T, n): those of all forward displacements, then backward.
        step: The h.
    """
    distance = 2 * step
    h_forward, h_backward = both.inputs.chunk(2)
    d_forward, d_backward = both.errors.chunk(2)
    means = Factors((h_forward + h_backward) / 2, (d_forward + d_backward) / 2)
    differences = Factors((h_forward - h_backward) / distance, (d_forward - d_backward) / distance)
    return means, differences


# ---- products


def add_exact_product(
    total: Tensor, left: Factors, right: Factors, *, centre: Factors, has_bias: float
) -> None:
    """Add a layer's contribution to M_left^T M_right, by the formula above.

    Args:
        total: Where to add, (left columns, right columns).
        left: A and B of the columns at the left.
        right: A and B of those at the right.
        centre: h and d at the point.
        has_bias: 1 with a bias, else 0.
    """
    # (h_t.h_s + 1) B_t^T B_s
    h_h = centre.inputs @ centre.inputs.T + has_bias
    weighted = h_h @ right.errors
    total.addmm_(left.errors.flatten(1), weighted.flatten(1).T)

    # (d_t.d_s) A_t^T A_s
    d_d = centre.errors @ centre.errors.T
    weighted = d_d @ right.inputs
    total.addmm_(left.inputs.flatten(1), weighted.flatten(1).T)

    # both crossed terms
    left_B_d, left_h_A = _crossed(left, centre)
    right_B_d, right_h_A = _crossed(right, centre)
    total.addmm_(left_B_d, right_h_A.T)
    total.addmm_(left_h_A, right_B_d.T)


def _crossed(each: Factors, centre: Factors) -> tuple[Tensor, Tensor]:
    """B_t^T d_s and A_s^T h_t, both (columns, T T) with t first."""
    B_d = each.errors @ centre.errors.T
    A_h = each.inputs @ centre.inputs.T
    h_A = A_h.mT
    return B_d.flatten(1), h_A.flatten(1)


def add_difference_product(
    total: Tensor, left: tuple[Factors, ...], right: tuple[Factors, ...], *, has_bias: float
) -> None:
    """The same for finite differences of a layer with one position.

    Args:
        total: Where to add, (left columns, right columns).
        left: Means, and differences, of the columns at the left.
        right: Means, and differences, of those at the right.
        has_bias: 1 with a bias, else 0.
    """
    # means, and differences
    (h, d), (A, B) = (_only_position(each) for each in left)
    (h_, d_), (A_, B_) = (_only_position(each) for each in right)

    # (h.h_ + 1) B.B_ + (d.d_) A.A_
    h_h = h @ h_.T + has_bias
    d_d = d @ d_.T
    total += h_h * (B @ B_.T) + d_d * (A @ A_.T)

    # both crossed terms
    h_A = h @ A_.T
    B_d = B @ d_.T
    A_h = A @ h_.T
    d_B = d @ B_.T
    total += h_A * B_d + A_h * d_B


def _only_position(factors: Factors) -> tuple[Tensor, Tensor]:
    inputs = factors.inputs[:, 0]
    errors = factors.errors[:, 0]
    return inputs, errors
