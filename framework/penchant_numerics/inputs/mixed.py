"""The mixed second derivative M = d^2 f / d theta d x (parameters x inputs), and its adjoint.

M is never formed: it has parameters x inputs entries. `apply` is the jvp in x of the parameter
gradient, `adjoint` its vjp. With a `step`, column i of M is

    (grad_theta f(x + h e_i) - grad_theta f(x - h e_i)) / 2h

instead, and the adjoint is that matrix's own.

`gram` is M^T M without the parameter axis where a layer allows it (`mixed_factors`). Where the
weights are fewer than what this needs (small kernels), and for every other parameter, columns of M
are taken as they are, some parameters at a time. Where so few columns fit that they would have to
be computed more than twice, M^T M is applied to unit vectors instead, some at a time: a column each
and its adjoint.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from penchant_numerics.device import memory, plain_kernels
from penchant_numerics.inputs.derivatives import first_output
from penchant_numerics.inputs.mixed_factors import (
    Factors,
    Layer,
    State,
    Traced,
    add_difference_product,
    add_exact_product,
    at_point,
    both_sides,
    find_layers,
    joined,
    positions,
    trace,
    trace_layers,
)
from penchant_numerics.training import state_of
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vjp, vmap

Output = Callable[[State, Tensor], Tensor]

_COLUMN_SHARE = 0.5  # of the budget, for columns held at once; others are taken in turn
_AT_MOST = 2  # times that a column may be computed, where M is applied it is once forth, once back


def column_chunk(activity: int, device: torch.device) -> int:
    """Columns per pass: as many as caches and memory like (`make bench`).

    Args:
        activity: Numbers in the layers of the network for one input.
        device: Where it runs.
    """
    on_cpu = device.type == "cpu"
    budget = 2**22 if on_cpu else 2**27
    columns = budget // activity
    at_least = max(16, columns)
    return min(1024, at_least)


class Group(NamedTuple):
    """Layers (by their factors) and parameters (as they are) whose columns are held at once."""

    layers: tuple[Layer, ...]
    parameters: tuple[str, ...]
    floats: int  # numbers per column


class Columns(NamedTuple):
    """Columns of M for one group."""

    layers: dict[str, tuple[Factors, ...]]  # by layer; with a step, means and differences
    numbers: Tensor  # (columns, numbers), of parameters taken as they are


class MixedDerivative:
    """M at a point for networks of one architecture; methods take the state of one of them.

    Args:
        module: The network; its own parameters are not used but to find its layers.
        point: The input x, of the network's shape without an axis of samples.
        step: The h of finite differences; None is the derivative.
        column_bytes: How much memory columns may take; a share of the budget by default.

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
        column_bytes: int | None = None,
    ) -> None:
        self.module = module
        self.point = point
        self.step = step
        if column_bytes is None:
            column_bytes = int(_COLUMN_SHARE * memory.available(point.device))
        self.column_bytes = column_bytes
        self.names = [name for name, _ in module.named_parameters()]
        self.size = point.numel()

    @property
    def _h(self) -> float:
        """The step of finite differences."""
        assert self.step is not None  # else nothing asks for it
        return self.step

    # ---- products

    @plain_kernels()
    def apply(self, state: State, directions: Tensor) -> dict[str, Tensor]:
        """M v for some directions v.

        Args:
            state: Parameters and buffers of a network.
            directions: Rows (k, D).

        Returns:
            The images by parameter, (k, *shape).
        """
        parameters, output = self._split(state)
        if self.step is not None:
            return self._apply_difference(parameters, output, directions)

        # the derivative along v of the gradient in the parameters
        gradient = functools.partial(_parameter_gradient(output), parameters)

        def along(v: Tensor) -> dict[str, Tensor]:
            image: dict[str, Tensor] = jvp(gradient, (self.point,), (v,))[1]
            return image

        # all directions at once
        rows = directions.reshape(-1, *self.point.shape)
        return vmap(along)(rows)

    def _apply_difference(
        self, parameters: State, output: Output, directions: Tensor
    ) -> dict[str, Tensor]:
        """Sum over inputs i of v_i / 2h times the difference of the gradients on both sides."""
        # an image of each direction
        count = len(directions)
        total = {}
        for name, value in parameters.items():
            total[name] = value.new_zeros(count, *value.shape)

        # one backward pass a chunk of displaced inputs, for all directions
        of_inputs = _swapped(output)
        for start, inputs in self._displaced(0, self.size):
            last = start + len(inputs) // 2
            weights = directions[:, start:last] / (2 * self._h)
            signed = torch.cat([weights, -weights], dim=1)
            on_batch = functools.partial(of_inputs, inputs)
            pull = vjp(on_batch, parameters)[1]
            (products,) = vmap(pull)(signed)
            total = {name: value + products[name] for name, value in total.items()}
        return total

    @plain_kernels()
    def adjoint(self, state: State, cotangents: Mapping[str, Tensor]) -> Tensor:
        """M^T u for some cotangents u.

        Args:
            state: Parameters and buffers of a network.
            cotangents: By parameter, (k, *shape).

        Returns:
            Rows (k, D).
        """
        parameters, output = self._split(state)
        if self.step is not None:
            return self._adjoint_difference(parameters, output, cotangents)

        # the transpose of that derivative
        gradient = functools.partial(_parameter_gradient(output), parameters)
        pull = vjp(gradient, self.point)[1]
        rows: Tensor = vmap(pull)(dict(cotangents))[0]
        return rows.flatten(1)

    def _adjoint_difference(
        self, parameters: State, output: Output, cotangents: Mapping[str, Tensor]
    ) -> Tensor:
        """The difference, over 2h, of the output's slopes along u on both sides of each input."""
        # slopes along all cotangents, a chunk of displaced inputs at a time
        products = []
        for _, inputs in self._displaced(0, self.size):
            on_batch = functools.partial(_swapped(output), inputs)

            def slope(u: State, outputs: Callable[[State], Tensor] = on_batch) -> Tensor:
                along: Tensor = jvp(outputs, (parameters,), (u,))[1]
                return along

            slopes = vmap(slope)(dict(cotangents))
            forward, backward = slopes.chunk(2, dim=1)
            distance = 2 * self._h
            products.append((forward - backward) / distance)
        return torch.cat(products, dim=1)

    def gram_times(self, state: State, directions: Tensor) -> Tensor:
        """M^T M v for rows v of `directions` (k, D), as rows; M v is held for as many v as fit."""
        # an image is as large as all parameters, and a pass of both has about as much again
        numbers = sum(state[name].numel() for name in self.names)
        bytes_a_row = numbers * self.point.element_size()
        fits = max(1, self.column_bytes // bytes_a_row)

        def work(together: int) -> Tensor:
            # forth and back, some rows at a time
            products = []
            for rows in directions.split(together):
                images = self.apply(state, rows)
                products.append(self.adjoint(state, images))
            return torch.cat(products)

        return memory.halving(work, fits, what="directions per pass of mixed derivatives")

    # ---- the Gram matrix

    @plain_kernels()
    def gram(self, state: State) -> Tensor:
        """M^T M, (D, D), exact to rounding."""
        if self.by_products:
            return self._gram_by_products(state)
        total = torch.zeros(self.size, self.size, device=self.point.device, dtype=self.point.dtype)
        for group in self.groups:
            self._add_group(total, state, group)
        return (total + total.T).mul_(0.5)

    @functools.cached_property
    def by_products(self) -> bool:
        """Whether M^T M is applied to unit vectors, because columns would be computed too often.

        With a step there is no such way: a product needs all displaced inputs.
        """
        if self.step is not None:
            return False
        most = _AT_MOST * self.size
        return self.columns_computed() > most

    def columns_computed(self) -> int:
        """Columns that are computed for all groups, block by block."""
        total = 0
        for group in self.groups:
            for left, last in self._blocks(group):
                # a block itself, and every later one again
                later = self.size - last
                total += last - left + later
        return total

    def _gram_by_products(self, state: State) -> Tensor:
        """M^T (M e_i) of all inputs i, as many at a time as images fit."""
        products = []
        for _, rows in self._units(0, self.size):
            products.append(self.gram_times(state, rows))
        total = torch.cat(products)
        return (total + total.T).mul_(0.5)

    def _add_group(self, total: Tensor, state: State, group: Group) -> None:
        """Add the products of all columns of a group, block by block."""
        centre = self._factors(state, group)
        for left in self._blocks(group):
            columns = self._columns(state, group, *left)
            # with itself, and with all that follow
            for right in self._blocks(group, first=left[0]):
                others = columns
                if right != left:
                    others = self._columns(state, group, *right)
                rows, across = slice(*left), slice(*right)
                block = total[rows, across]
                self._add_product(block, columns, others, group, centre)
                # the matrix is symmetric
                if right != left:
                    total[across, rows] = block.T

    def _add_product(
        self,
        total: Tensor,
        left: Columns,
        right: Columns,
        group: Group,
        centre: Mapping[str, Factors],
    ) -> None:
        """Add M_left^T M_right of a group."""
        total.addmm_(left.numbers, right.numbers.T)
        for layer in group.layers:
            mine = left.layers[layer.name]
            others = right.layers[layer.name]
            bias = layer.has_bias()
            if self.step is not None:
                add_difference_product(total, mine, others, has_bias=bias)
                continue
            at_centre = centre[layer.name]
            add_exact_product(total, mine[0], others[0], centre=at_centre, has_bias=bias)

    def _blocks(self, group: Group, first: int = 0) -> Iterator[tuple[int, int]]:
        """Ranges of columns: all of them where they fit, else as many as two blocks allow."""
        # a product needs two blocks
        bytes_a_column = group.floats * self.point.element_size()
        fits = self.column_bytes // bytes_a_column
        block = self.size
        if fits < self.size:
            block = max(1, fits // 2)
        for start in range(first, self.size, block):
            last = min(start + block, self.size)
            yield start, last

    # ---- what is held at once

    @functools.cached_property
    def chunk(self) -> int:
        """Columns per pass."""
        # what passes through the modules that have none inside
        leaves: dict[str, list[Tensor]] = {}
        for name, each in self.module.named_modules():
            if not any(each.children()):
                leaves[name] = []
        state = state_of(self.module)
        _, seen = trace(self.module, state, self.point[None], leaves)

        # how many numbers that is, beside the input
        activity = self.size
        for uses in seen.values():
            for each in uses:
                if isinstance(each, Tensor):
                    activity += each.numel()
        return column_chunk(activity, self.point.device)

    @functools.cached_property
    def groups(self) -> list[Group]:
        """All parameters, in groups whose columns fit."""
        exact = self.step is None
        # what layers have by their factors is not taken as it is
        layers = self._factored_layers()
        covered: set[str] = set()
        for layer in layers:
            covered.update(layer.parameters())

        # parameters first, then layers by their factors
        pieces = []
        for name, value in self.module.named_parameters():
            if name not in covered:
                pieces.append(Group((), (name,), value.numel()))
        for layer in layers:
            pieces.append(Group((layer,), (), layer.floats(exact=exact)))

        bytes_a_number = self.size * self.point.element_size()  # in all columns
        return _packed(pieces, self.column_bytes // bytes_a_number)

    def _factored_layers(self) -> list[Layer]:
        """Layers whose factors are smaller than their weights; with a step, of one position."""
        exact = self.step is None
        sizes = {name: value.numel() for name, value in self.module.named_parameters()}
        layers = []
        for layer in find_layers(self.module, self.point):
            possible = exact or layer.rows == 1
            # numbers per column in either form
            weights = sum(sizes[name] for name in layer.parameters())
            factors = layer.floats(exact=exact)
            if possible and factors < weights:
                layers.append(layer)
        return layers

    # ---- columns

    def _factors(self, state: State, group: Group) -> dict[str, Factors]:
        """Inputs and errors of the layers at the point."""
        traced = self._traced(state, group, self.point[None])
        factors = {}
        for layer in group.layers:
            factors[layer.name] = at_point(layer, traced)
        return factors

    def _traced(self, state: State, group: Group, inputs: Tensor) -> Traced:
        """What one backward pass gives of a group."""
        return trace_layers(
            self.module, state, inputs, layers=group.layers, parameters=group.parameters
        )

    def _columns(self, state: State, group: Group, first: int, last: int) -> Columns:
        """Columns first..last, from as many passes as chunks."""
        take = self._exact_columns
        if self.step is not None:
            take = self._difference_columns
        chunks = list(take(state, group, first, last))

        # chunks of columns one after another
        layers = {}
        for layer in group.layers:
            pieces = [chunk.layers[layer.name] for chunk in chunks]
            kinds = zip(*pieces)
            layers[layer.name] = tuple(joined(kind, dim=0) for kind in kinds)
        numbers = [chunk.numbers for chunk in chunks]
        return Columns(layers, torch.cat(numbers))

    def _exact_columns(
        self, state: State, group: Group, first: int, last: int
    ) -> Iterator[Columns]:
        """Derivatives along e_i of everything a backward pass gives."""

        def backward_pass(x: Tensor) -> tuple[object, ...]:
            batch = x[None]
            return tuple(self._traced(state, group, batch))

        def along(v: Tensor) -> Traced:
            derivatives: Traced = jvp(backward_pass, (self.point,), (v,))[1]
            return derivatives

        for _, rows in self._units(first, last):
            units = rows.reshape(-1, *self.point.shape)
            traced = Traced(*vmap(along)(units))
            # position by position for layers, as they are for single parameters
            layers: dict[str, tuple[Factors, ...]] = {}
            for layer in group.layers:
                layers[layer.name] = (positions(layer, traced.of(layer)),)
            yield Columns(layers, _flat(traced.gradients, group, rows))

    def _difference_columns(
        self, state: State, group: Group, first: int, last: int
    ) -> Iterator[Columns]:
        """Factors, and gradients, of both sides of each displacement."""
        by_factors = group._replace(parameters=())
        as_they_are = group._replace(layers=())

        def gradients_at(x: Tensor) -> dict[str, Tensor]:
            traced = self._traced(state, as_they_are, x[None])
            return traced.gradients

        for _, inputs in self._displaced(first, last):
            traced = self._traced(state, by_factors, inputs)
            layers: dict[str, tuple[Factors, ...]] = {}
            for layer in group.layers:
                # a batch of one for each displaced input
                uses = []
                for h, d in traced.of(layer):
                    uses.append((h[:, None], d[:, None]))
                both = positions(layer, uses)
                layers[layer.name] = both_sides(both, self._h)

            # other parameters: a gradient at each displaced input
            gradients = {}
            if group.parameters:
                gradients = vmap(gradients_at)(inputs)
            forward, backward = _flat(gradients, group, inputs).chunk(2)
            distance = 2 * self._h
            yield Columns(layers, (forward - backward) / distance)

    # ---- inputs and outputs

    def _split(self, state: State) -> tuple[dict[str, Tensor], Output]:
        """Parameters, and the output (batch,) as a function of them and of a batch of inputs."""
        parameters = {name: state[name] for name in self.names}
        buffers = {name: value for name, value in state.items() if name not in self.names}

        def output(given: State, inputs: Tensor) -> Tensor:
            whole = {**buffers, **given}
            outputs = functional_call(self.module, whole, (inputs,))
            return first_output(outputs)

        return parameters, output

    def _displaced(self, first: int, last: int) -> Iterator[tuple[int, Tensor]]:
        """(i, batch): x + h e_i, x + h e_(i+1), ..., then x - h e_i, ..., in chunks."""
        shape = self.point.shape
        centre = self.point.flatten()
        for start, rows in self._units(first, last):
            forward = centre + self._h * rows
            backward = centre - self._h * rows
            batch = torch.cat([forward, backward])
            yield start, batch.reshape(-1, *shape)

    def _units(self, first: int, last: int) -> Iterator[tuple[int, Tensor]]:
        """(i, rows e_i, e_(i+1), ...), in chunks."""
        for start in range(first, last, self.chunk):
            count = min(self.chunk, last - start)
            rows = torch.zeros(count, self.size, device=self.point.device, dtype=self.point.dtype)
            # a one in each
            numbers = torch.arange(count, device=rows.device)
            rows[numbers, start + numbers] = 1
            yield start, rows


def _parameter_gradient(output: Output) -> Callable[[State, Tensor], State]:
    """The gradient in the parameters of the output at one input."""

    def at_one(parameters: State, x: Tensor) -> Tensor:
        outputs = output(parameters, x[None])
        return outputs[0]

    return grad(at_one)


def _swapped(output: Output) -> Callable[[Tensor, State], Tensor]:
    """The output as a function of inputs first: what is fixed comes first in a partial."""

    def swapped(inputs: Tensor, parameters: State) -> Tensor:
        return output(parameters, inputs)

    return swapped


def _flat(gradients: Mapping[str, Tensor], group: Group, rows: Tensor) -> Tensor:
    """Gradients of single parameters side by side, (rows, numbers)."""
    # what comes from a pass has one row per column
    count = len(rows)
    pieces = [gradients[name].reshape(count, -1) for name in group.parameters]
    if not pieces:
        return torch.zeros(count, 0, device=rows.device, dtype=rows.dtype)
    return torch.cat(pieces, dim=1)


def _packed(pieces: list[Group], limit: int) -> list[Group]:
    """Neighbours together as long as they fit."""
    packed: list[Group] = []
    for piece in pieces:
        if packed and packed[-1].floats + piece.floats <= limit:
            # it joins the one before it
            last = packed.pop()
            piece = Group(
                last.layers + piece.layers,
                last.parameters + piece.parameters,
                last.floats + piece.floats,
            )
        packed.append(piece)
    return packed
