"""Gradients sample by sample, of any network: the dense route where structure does not help.

Output y of sample i has one gradient in every parameter. `torch.func` gives them all in one
vectorised pass; a network that cannot be vectorised (an LSTM, a custom autograd function) is
passed sample by sample.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from penchant_numerics.device import accumulation_dtype, lacks_batching, warn_not_vectorised
from penchant_numerics.jacobians.linearisation import Outputs
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn
from torch.func import vjp, vmap


def sample_gradients(outputs: Outputs, inputs: Tensor) -> dict[str, Tensor]:
    """Gradients (n, C, *shape) of every output of every sample, by name of the parameter.

    >>> network = nn.Linear(2, 1)
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="cpu")
    >>> sample_gradients(Outputs(network), x)["weight"].tolist()
    [[[[1.0, 2.0]]], [[[3.0, 4.0]]]]
    """
    try:
        columns = _vectorised(outputs, inputs)
    except RuntimeError as error:  # an operation without a rule for batches
        if not lacks_batching(error):
            raise
        warn_not_vectorised(error, "gradients of samples")
        columns = _one_by_one(outputs, inputs)
    return dict(zip(outputs.layout.names, columns))


@torch.no_grad()
def _vectorised(outputs: Outputs, inputs: Tensor) -> tuple[Tensor, ...]:
    """All at once: vectorised over samples, and over outputs inside them."""

    def jacobian(x: Tensor) -> tuple[Tensor, ...]:
        """Gradients (C, *shape) of one sample."""

        def of_parameters(*values: Tensor) -> Tensor:
            return outputs(values, x[None])[0]

        # a backward pass an output, all of them at once
        made, pull = vjp(of_parameters, *outputs.values)[:2]
        units = torch.eye(len(made), device=made.device, dtype=made.dtype)
        rows: tuple[Tensor, ...] = vmap(pull)(units)
        return rows

    return vmap(jacobian)(inputs)


def _one_by_one(outputs: Outputs, inputs: Tensor) -> tuple[Tensor, ...]:
    """A backward pass for each output of each sample."""
    rows = []
    for x in inputs:
        leaves = outputs.leaves()
        # one forward pass per sample, and one backward pass per output
        with torch.enable_grad():
            made = outputs(leaves, x[None])[0]
        for value in made:
            gradient = torch.autograd.grad(value, leaves, retain_graph=True, materialize_grads=True)
            rows.append(gradient)

    # by parameter, (n, C, *shape)
    shape = (len(inputs), -1)
    columns = [torch.stack(column) for column in zip(*rows)]
    return tuple(column.unflatten(0, shape) for column in columns)


@contextmanager
def floating_inputs(network: nn.Module, inputs: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
    """Tokens and other whole numbers as floating-point numbers; the network gets them back whole.

    What differentiates a network may then take all inputs for floating; the network itself sees
    the whole numbers it was made for. Nothing is changed where inputs are floating already.

    Args:
        network: The network; it has a hook for that time.
        inputs: Its inputs (n, ...).
        dtype: The precision of its parameters.

    Yields:
        The inputs to use instead.

    >>> network, tokens = nn.Embedding(5, 2), torch.tensor([[1, 4]], device="cpu")
    >>> with floating_inputs(network, tokens, torch.float32) as inputs:
    ...     inputs.dtype, torch.equal(network(inputs), network.weight[tokens])
    (torch.float32, True)
    """
    if inputs.is_floating_point():
        yield inputs
        return
    floating = inputs.to(dtype)
    if not torch.equal(floating.to(inputs.dtype), inputs):
        # single precision rounds from 2^24 on
        floating = inputs.to(accumulation_dtype(inputs.device))
    if not torch.equal(floating.to(inputs.dtype), inputs):
        largest = int(inputs.max())
        raise Refusal(f"whole numbers up to {largest} are not exact in {floating.dtype}")

    def restore(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What the network is given, whole again."""
        first, *others = given
        whole = first.to(inputs.dtype)
        return (whole, *others)

    handle = network.register_forward_pre_hook(restore)
    try:
        yield floating
    finally:
        handle.remove()
