"""Orders of differentiation: does every operation of a network have right second derivatives?

A second derivative can be taken by two backward passes, forward over reverse or reverse over
forward. torch has separate code for each, and not all of it is right: in torch 2.13 the backward
pass of the tangent of `layer_norm` takes its mean and scale as constants. So each operation that a
network calls is tried by itself, in double precision, and compared with two backward passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

TOLERANCE = 1e-6  # relative
REVERSE_OVER_FORWARD = "reverse over forward"
FORWARD_OVER_REVERSE = "forward over reverse"


@attrs.frozen(eq=False)
class Operation:
    """A call that a network makes.

    Attributes:
        name: Of the function.
        function: The same as a function of its floating-point tensors alone.
        inputs: These tensors.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]


def wrong_operations(network: Any, inputs: Any) -> dict[str, dict[str, str]]:
    """Operations of a network whose second derivatives are wrong or missing.

    Args:
        network: The network, in double precision.
        inputs: Samples, in double precision.

    Returns:
        For each order of differentiation, names of operations and what is wrong with them.
    """
    wrong: dict[str, dict[str, str]] = {name: {} for name in ORDERS}
    for operation in operations(network, inputs):
        try:
            expected = _double_backward(operation)
        except Exception:  # the doctor tries two backward passes through the whole network
            continue
        for order, differentiate in ORDERS.items():
            problem = _difference(differentiate, operation, expected)
            if problem:
                wrong[order].setdefault(operation.name, problem)
    return wrong


def operations(network: Any, inputs: Any) -> list[Operation]:
    """Every call of torch that a network makes on samples, once for each kind of its arguments.

    Args:
        network: The network.
        inputs: Samples.

    Returns:
        The calls that give floating-point tensors.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    known: dict[tuple[Any, ...], Operation] = {}

    class Recorder(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            operation = _recorded(function, args, kwargs or {})
            output = function(*args, **(kwargs or {}))
            if operation is not None and _numbers_in(output):
                shapes = tuple(tuple(each.shape) for each in operation.inputs)
                known.setdefault((operation.name, shapes), operation)
            return output

    with torch.no_grad(), Recorder():
        network(inputs)
    return list(known.values())


def _recorded(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operation | None:
    """A call as a function of its tensors; None where it changes one or has none."""
    import torch

    name = getattr(function, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or name == "__get__" or "out" in kwargs:
        return None
    names = list(kwargs)
    values = [*args, *kwargs.values()]
    numeric = [position for position, value in enumerate(values) if _is_number(value)]
    if not numeric:
        return None

    def call(*tensors: Any) -> Any:
        given = list(values)
        for position, tensor in zip(numeric, tensors):
            given[position] = tensor
        positional = given[: len(args)]
        output = function(*positional, **dict(zip(names, given[len(args) :])))
        if isinstance(output, torch.Tensor):
            return output
        # Recurrent layers give several tensors.
        return torch.cat([each.reshape(-1) for each in _numbers_in(output)])

    tensors = tuple(torch.clone(values[position].detach()) for position in numeric)
    return Operation(name, call, tensors)


def _is_number(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _numbers_in(output: Any) -> list[Any]:
    parts = output if isinstance(output, tuple) else (output,)
    return [part for part in parts if _is_number(part)]


def _directions(operation: Operation) -> tuple[Any, ...]:
    import torch

    generator = torch.Generator(device="cpu").manual_seed(0)
    tangents = []
    for tensor in operation.inputs:
        noise = torch.randn(
            tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype
        )
        tangents.append(noise)
    return tuple(tangents)


def _weighted(output: Any) -> Any:
    """A number that depends on every entry of an output in another way."""
    import torch

    size = output.numel()
    weights = torch.cos(torch.arange(size, device=output.device, dtype=output.dtype))
    return (weights.reshape(output.shape) * output).sum()


def _double_backward(operation: Operation) -> list[Any]:
    """Derivative along the directions of the gradient, by two backward passes."""
    import torch

    leaves = tuple(tensor.clone().requires_grad_() for tensor in operation.inputs)
    with torch.enable_grad():
        first = torch.autograd.grad(
            _weighted(operation.function(*leaves)),
            leaves,
            create_graph=True,
            materialize_grads=True,
        )
        pairs = zip(first, _directions(operation))
        along = sum((gradient * direction).sum() for gradient, direction in pairs)
        # What is linear has a gradient that depends on nothing.
        if not along.requires_grad:
            return [torch.zeros_like(leaf) for leaf in leaves]
        return list(torch.autograd.grad(along, leaves, materialize_grads=True))


def _reverse_over_forward(operation: Operation) -> list[Any]:
    import torch

    def slope(*tensors: Any) -> Any:
        return _weighted(torch.func.jvp(operation.function, tensors, _directions(operation))[1])

    positions = tuple(range(len(operation.inputs)))
    return list(torch.func.grad(slope, argnums=positions)(*operation.inputs))


def _forward_over_reverse(operation: Operation) -> list[Any]:
    import torch

    positions = tuple(range(len(operation.inputs)))

    def value(*tensors: Any) -> Any:
        return _weighted(operation.function(*tensors))

    gradient = torch.func.grad(value, argnums=positions)
    return list(torch.func.jvp(gradient, operation.inputs, _directions(operation))[1])


ORDERS: dict[str, Callable[[Operation], list[Any]]] = {
    FORWARD_OVER_REVERSE: _forward_over_reverse,
    REVERSE_OVER_FORWARD: _reverse_over_forward,
}


def _difference(
    differentiate: Callable[[Operation], list[Any]], operation: Operation, expected: list[Any]
) -> str:
    """What is wrong with one order of differentiation; empty where nothing is."""
    try:
        derivatives = differentiate(operation)
    except Exception as error:  # torch says in many ways that it cannot
        line, _, _ = str(error).strip().partition("\n")
        return f"missing ({line[:80]})" if line else f"missing ({type(error).__name__})"
    scale = sum(float(each.square().sum()) for each in expected) ** 0.5
    pairs = zip(derivatives, expected)
    apart = sum(float((one - other).square().sum()) for one, other in pairs) ** 0.5
    # Below this both are rounding.
    if apart <= TOLERANCE * max(scale, 1.0):
        return ""
    share = apart / scale if scale else float("inf")
    return f"wrong by {share:.0%}"
