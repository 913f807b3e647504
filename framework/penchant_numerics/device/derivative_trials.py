"""Which derivatives a network has: each is tried on a few samples, and compared with differences.

What a network lacks shows as an error in the words of torch, somewhere in a measurement, or as a
wrong number without a word. Here each kind of derivative is taken once, for its own sake.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

SAMPLES = 3  # that derivatives are tried on
STEP = 1e-6  # of differences, in double precision
TOLERANCE = 1e-4  # relative
NOTHING = 1e-8  # numbers below it are those of rounding
POINTS = 3  # where a derivative may be wrong: differences are, where they cross a kink
LONGEST = 120  # characters of what torch says
COARSER = 10.0  # times the step: a difference across a kink is as much smaller
SECOND = "second derivatives"
KINK = "works, but not at the points that were tried: activations are exactly at their kinks there"

# the derivative that torch gives, and by differences of a step
Trial: TypeAlias = "Callable[[nn.Module, Tensor, float], tuple[float, float]]"

# What torch says, and what a user can do about it.
_HINTS = {
    "inplace operation": "let forward write x = torch.relu(x) for relu_(x), and x = x + y for x "
    "+= y",
    "checkpoint": "switch the checkpointing of activations off: call the block itself",
    "Recomputed values": "switch the checkpointing of activations off: call the block itself",
    "require grad": "let forward not detach, leave torch, or compute under no_grad",
    "not have been used": "let forward not detach, leave torch, or compute under no_grad",
    "setup_context": "give its torch.autograd.Function a setup_context and "
    "generate_vmap_rule = True",
    "once_differentiable": "write its backward pass of operations that have derivatives",
    "data-dependent": "let forward not branch on values: torch.where chooses between two",
    ".item()": "let forward not turn values into numbers: torch.where chooses between two",
}


def problem_of(trial: Trial, network: nn.Module, points: Iterable[Tensor]) -> str:
    """What goes wrong with a derivative; empty where it works and its number is right.

    Args:
        trial: One of `TRIALS`.
        network: The network; it is copied.
        points: Samples to try it on; one good point is enough.

    Returns:
        A sentence; `KINK` where differences say that there is no derivative at any of them.
    """
    problem = ""
    kinks = 0
    tried = 0
    for inputs in points:
        tried += 1
        try:
            value, expected = trial(_precise(network), inputs, STEP)
            if math.isclose(value, expected, rel_tol=TOLERANCE, abs_tol=NOTHING):
                return ""
            _, coarser = trial(_precise(network), inputs, COARSER * STEP)
        except Exception as error:  # torch says in many ways that it cannot
            return f"{type(error).__name__}: {shortened(str(error))}"
        kinks += _crosses_a_kink(value, expected, coarser)
        # torch gives some second derivatives without a word, and wrong.
        problem = f"wrong, and torch does not say so: {value:.6g}, by differences {expected:.6g}"
    return KINK if kinks == tried else problem


def _crosses_a_kink(value: float, expected: float, coarser: float) -> bool:
    """Does the difference grow as its step shrinks? Where a slope jumps, it is jump / step."""
    jump, coarser_jump = abs(expected - value), abs(coarser - value)
    return jump > 0.5 * COARSER * coarser_jump


def why_not(network: nn.Module, inputs: Tensor) -> str:
    """The first derivative that this network does not have, and what to do; empty: it has all.

    Args:
        network: A network that is safe for second derivatives; it is copied.
        inputs: A few samples, in double precision or whole numbers.

    Returns:
        A sentence without its subject, such as "has no second derivatives: ...".
    """
    for what, trial in trials(inputs).items():
        try:
            # what a library warns of was said by the measurement
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trial(_precise(network), inputs, STEP)
        except Exception as error:  # torch says in many ways that it cannot
            said = f"{type(error).__name__}: {shortened(str(error))}"
            return f"has no {what}: {said}{hint_for(str(error))}"
    return ""


def hint_for(message: str) -> str:
    """What a user can do about what torch says; empty where nothing is known."""
    hints = (hint for sign, hint in _HINTS.items() if sign in message)
    hint = next(hints, "")
    return f"; {hint}" if hint else ""


def shortened(text: str) -> str:
    r"""The first sentence of what a library says.

    >>> shortened("derivative for aten::x is not implemented\nmore lines")
    'derivative for aten::x is not implemented'
    """
    line, _, _ = text.strip().partition("\n")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def random_points(shape: Sequence[int]) -> list[Tensor]:
    """Samples (n, *shape) in double precision, with seeds of their own.

    >>> points = random_points((3, 8, 8))
    >>> points[0].shape[1:], torch.equal(points[0], random_points((3, 8, 8))[0])
    (torch.Size([3, 8, 8]), True)
    """
    points = []
    for seed in range(POINTS):
        generator = torch.Generator(device="cpu").manual_seed(seed)
        size = (SAMPLES, *shape)
        points.append(torch.randn(size, generator=generator, device="cpu", dtype=torch.float64))
    return points


def _precise(network: nn.Module) -> nn.Module:
    """A copy in double precision: what is tried leaves nothing behind."""
    return copy.deepcopy(network).double()


def _loss(network: nn.Module, inputs: Tensor) -> Tensor:
    outputs: Tensor = network(inputs)
    return outputs.square().sum()


def _in_inputs(network: nn.Module, inputs: Tensor, step: float) -> tuple[float, float]:
    """The derivative along a direction of the inputs."""
    leaf = inputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(_loss(network, leaf), leaf)
    return float(gradient.sum()), _difference(network, inputs, step)


def _difference(network: nn.Module, inputs: Tensor, step: float) -> float:
    """The same by differences."""
    with torch.no_grad():
        above = _loss(network, inputs + step)
        below = _loss(network, inputs - step)
    return float(above - below) / (2 * step)


def _forward_mode(network: nn.Module, inputs: Tensor, step: float) -> tuple[float, float]:
    """The same in forward mode."""
    direction = torch.ones_like(inputs)
    outputs, tangent = torch.func.jvp(network, (inputs,), (direction,))[:2]
    slope = 2 * (outputs * tangent).sum().detach()
    return float(slope), _difference(network, inputs, step)


def _in_parameters(network: nn.Module, inputs: Tensor, step: float) -> tuple[float, float]:
    """The slope along a direction of all parameters, of length one."""
    parameters = list(network.requires_grad_().parameters())
    share = _share(parameters)
    value = float(_slope(network, inputs, parameters, create_graph=False))
    losses = []
    for move in (step, -2 * step):
        _move(parameters, move * share)
        with torch.no_grad():
            losses.append(float(_loss(network, inputs)))
    return value, (losses[0] - losses[1]) / (2 * step)


def _double_backward(network: nn.Module, inputs: Tensor, step: float) -> tuple[float, float]:
    """The curvature along a direction of the parameters, of length one."""
    parameters = [each for each in network.parameters() if each.requires_grad]
    share = _share(parameters)
    slope = _slope(network, inputs, parameters, create_graph=True)
    seconds = torch.autograd.grad(slope, parameters, allow_unused=True)
    derivative = share * sum(float(second.sum()) for second in seconds if second is not None)
    # The slope a little further along, and a little before.
    slopes = []
    for move in (step, -2 * step):
        _move(parameters, move * share)
        slopes.append(float(_slope(network, inputs, parameters, create_graph=False)))
    return derivative, (slopes[0] - slopes[1]) / (2 * step)


def _share(parameters: Sequence[Tensor]) -> float:
    """How far each parameter moves: a little, so that few kinks are near enough."""
    return 1.0 / math.sqrt(sum(each.numel() for each in parameters))


def _move(parameters: Sequence[Tensor], distance: float) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter += distance


def _slope(
    network: nn.Module, inputs: Tensor, parameters: Sequence[Tensor], *, create_graph: bool
) -> Tensor:
    gradients = torch.autograd.grad(
        _loss(network, inputs), parameters, create_graph=create_graph, allow_unused=True
    )
    total = sum(gradient.sum() for gradient in gradients if gradient is not None)
    return _share(parameters) * torch.as_tensor(total)


def _vmapped(network: nn.Module, inputs: Tensor, step: float) -> tuple[float, float]:
    """Gradients of every sample at once, beside one by one."""
    parameters = {name: each.detach() for name, each in network.named_parameters()}

    def slope(values: dict[str, Tensor], sample: Tensor) -> Tensor:
        outputs: Tensor = torch.func.functional_call(network, values, (sample[None],))
        return outputs.square().sum()

    gradient = torch.func.grad(slope)
    together = torch.func.vmap(gradient, in_dims=(None, 0))(parameters, inputs)
    total = sum(float(each.sum()) for each in together.values())
    expected = 0.0
    for sample in inputs:
        expected += sum(float(each.sum()) for each in gradient(parameters, sample).values())
    return total, expected


TRIALS: dict[str, Trial] = {
    "gradients": _in_inputs,
    SECOND: _double_backward,
    "forward mode": _forward_mode,
    "samples side by side (vmap)": _vmapped,
}


def trials(inputs: Tensor) -> dict[str, Trial]:
    """Those that a failing measurement may lack; tokens have no derivatives in the input."""
    parameters: dict[str, Trial] = {"gradients in its parameters": _in_parameters}
    if not inputs.is_floating_point():
        return {**parameters, SECOND: _double_backward}
    named = {"gradients in its inputs": _in_inputs, SECOND: _double_backward}
    return {**parameters, **named, "gradients of single samples (vmap)": _vmapped}
