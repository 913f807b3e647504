"""Exact traces of what single samples contribute to the Gauss-Newton matrix.

A sample contributes J^T L L^T J, with the Hessian L L^T of the loss in the outputs. The trace is
the sum over the columns l of L of |J^T l|^2: so a batch passes forth once and back once per
column, and what arrives at a layer becomes one number per sample at once: only one column and one
layer at a time take more memory. No gradient of a linear layer is formed where pairs of positions
are cheaper: |sum_t delta_t h_t^T|^2 = sum_ts (h_t . h_s)(delta_t . delta_s).
"""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from penchant_numerics.curvature.losses import closed_form
from penchant_numerics.device import batch_size, fitting_batch, lacks_batching, warn_not_vectorised
from penchant_numerics.device import memory as bytes_allowed
from penchant_numerics.jacobians import Outputs, floating_inputs
from penchant_numerics.layers import (
    KernelLayers,
    LayerPass,
    errors_at_positions,
    layer_pass,
    seen_at_positions,
    weight_matrix,
)
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn
from torch.func import grad, vmap

_TRIED = 2  # samples on which layers are tried: each alone has weights of its own


def sample_traces(
    network: nn.Module,
    inputs: Tensor,
    *,
    loss: str = "cross-entropy",
    parameters: str | Sequence[str] | None = None,
    batch: int | None = None,
    memory: int | None = None,
) -> Tensor:
    """The trace of each sample's contribution J^T H J to the Gauss-Newton matrix, exactly.

    Args:
        network: A network with outputs (samples, C), in evaluation mode.
        inputs: Samples (n, ...).
        loss: `cross-entropy` or `squared-error`.
        parameters: Names or patterns of parameters; all by default.
        batch: Samples per pass; fewer where memory says so.
        memory: Bytes that passes may take; the budget by default.

    Returns:
        The traces (n,); their mean is the trace of G.

    >>> x = torch.tensor([[1.0], [2.0]], device="cpu")
    >>> sample_traces(nn.Linear(1, 1), x, loss="squared-error").tolist()  # x^2 + 1
    [2.0, 5.0]
    """
    outputs = Outputs(network, parameters)
    shape = outputs.sample_shape(inputs)
    if len(shape) == 2:
        raise Refusal(
            f"expected outputs (samples, classes), found {shape[0]} x {shape[1]} of a sequence; "
            "give `sequence_columns.gauss_newton_columns` of the network instead"
        )
    requested = batch or batch_size(inputs.device)
    given: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if memory is not None:
        given = bytes_allowed.budget(memory)
    with given, floating_inputs(network, inputs, outputs.layout.dtype) as floating:
        passes = _Passes(outputs, floating[:_TRIED], loss)
        size = fitting_batch(passes.measured, floating, largest=requested)

        def work(samples: int) -> Tensor:
            traces = [passes.traces(chunk) for chunk in floating.split(samples)]
            return torch.cat(traces)

        return bytes_allowed.halving(work, size, what="samples per pass of traces")


class _Passes:
    """Passes of a network: linear layers by what they see and hear, others by gradients.

    Args:
        outputs: The network as a function of the parameters that count.
        sample: Inputs on which layers are tried.
        loss: `cross-entropy` or `squared-error`.
    """

    def __init__(self, outputs: Outputs, sample: Tensor, loss: str) -> None:
        self.outputs = outputs
        self.loss = loss
        # linear layers that see samples one by one
        tried = KernelLayers(outputs, sample)
        tried.warn()
        self.layers = {name: outputs.network.get_submodule(name) for name in tried.factored}

        # everything else has its gradients taken as they are
        covered = set()
        for name in self.layers:
            covered.add(_parameter(name, "weight"))
            covered.add(_parameter(name, "bias"))
        names = outputs.layout.names
        others = [name for name in names if name not in covered]
        self.rest = Outputs(outputs.network, others) if others else None
        self._vectorised = True

    def traces(self, inputs: Tensor, *, first: int | None = None) -> Tensor:
        """Traces (n,) of a batch; with `first`, of this many columns only."""
        total = torch.zeros(len(inputs), device=inputs.device, dtype=inputs.dtype)
        # the graph of the layers' pass is gone when other parameters have theirs
        outputs = self._add_layers(total, inputs, first)
        if self.rest is not None:
            for column in _columns(outputs, self.loss, first):
                total += self._rest_squares(self.rest, inputs, column)
        return total

    def measured(self, inputs: Tensor) -> None:
        """Two columns take as much memory as all: each replaces the one before."""
        self.traces(inputs, first=2)

    def _add_layers(self, total: Tensor, inputs: Tensor, first: int | None) -> Tensor:
        """Add squared norms of linear layers' gradients to `total` (n,); gives the outputs."""
        passed = layer_pass(self.outputs, inputs, self.layers)
        products = {}
        for name in passed.layers:
            products[name] = _products(self.layers[name], passed.inputs(name))
        for column in _columns(passed.outputs, self.loss, first):
            if passed.layers:
                errors = passed.errors(column)
            for name in passed.layers:
                total += self._squares(name, passed, errors.pop(name), products[name])
        return passed.outputs

    def _squares(
        self, name: str, passed: LayerPass, errors: list[Tensor | None], products: Tensor | None
    ) -> Tensor:
        """|gradient|^2 (n,) of a layer towards one column."""
        module = self.layers[name]
        with torch.no_grad():
            delta = errors_at_positions(module, passed.inputs(name), errors)
            # by pairs of positions, or by the gradient itself
            if products is not None:
                squares = (products * (delta @ delta.mT)).sum((1, 2))
            else:
                gradients = delta.mT @ seen_at_positions(module, passed.inputs(name))
                squares = gradients.square().sum((1, 2))
            if _parameter(name, "bias") in self.outputs.layout.slices:
                squares = squares + delta.sum(1).square().sum(1)
        return squares

    def _rest_squares(self, rest: Outputs, inputs: Tensor, column: Tensor) -> Tensor:
        """|gradient|^2 (n,) of all other parameters towards one column."""
        if self._vectorised:
            try:
                return self._vectorised_squares(rest, inputs, column)
            except RuntimeError as error:  # an operation without a rule for batches
                if not lacks_batching(error):
                    raise
                warn_not_vectorised(error, "gradients of samples")
                self._vectorised = False
        squares = []
        for x, weights in zip(inputs, column):
            leaves = rest.leaves()
            with torch.enable_grad():
                made = rest(leaves, x[None])[0]
                value = (made * weights).sum()
            gradients = torch.autograd.grad(value, leaves, materialize_grads=True)
            squares.append(_square_sum(gradients))
        return torch.stack(squares)

    @torch.no_grad()
    def _vectorised_squares(self, outputs: Outputs, inputs: Tensor, column: Tensor) -> Tensor:
        """|gradient|^2 (n,) of all samples at once."""

        def square(x: Tensor, weights: Tensor) -> Tensor:
            def value(values: Sequence[Tensor]) -> Tensor:
                made = outputs(values, x[None])[0]
                return (made * weights).sum()

            gradients = grad(value)(list(outputs.values))
            return _square_sum(gradients)

        return vmap(square)(inputs, column)


def _parameter(layer: str, kind: str) -> str:
    """The name of a layer's parameter; the network itself has an empty name."""
    if not layer:
        return kind
    return f"{layer}.{kind}"


def _square_sum(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of all squares."""
    first, *others = [each.square().sum() for each in tensors]
    return sum(others, start=first)


@torch.no_grad()
def _products(module: nn.Module, inputs: Sequence[Tensor]) -> Tensor | None:
    """h_t . h_s (n, t, t), where pairs of positions cost less than gradients; None elsewhere."""
    h = seen_at_positions(module, inputs)
    positions, width = h.shape[1:]
    units = len(weight_matrix(module))
    # one position has one pair
    pairs = positions * (width + units)
    gradients = width * units
    if positions > 1 and pairs >= gradients:
        return None
    return h @ h.mT


def _columns(outputs: Tensor, loss: str, first: int | None) -> Iterator[Tensor]:
    """The first columns (n, C) of L at outputs (n, C), or all, one after another."""
    count = outputs.shape[1]
    if first is not None:
        count = min(first, count)
    for number in range(count):
        unit = torch.zeros_like(outputs)
        unit[:, number] = 1
        yield closed_form(loss).factor_times(outputs, unit)
