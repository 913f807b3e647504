"""Input gradients of many networks, each at points of its own.

Networks and the inputs at which they are probed: each network has a stream of its own.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import penchant
import torch
from penchant_numerics.device import TensorOptions, memory, safe
from penchant_numerics.inputs import first_output
from penchant_numerics.training import Ensemble, State, draw_ahead, parameter_count
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp

_SHARE = 0.25  # of the budget, for stacked parameters: 256 MiB on a CPU
_VECTORS = 2**15  # numbers of one shard's gradients: 32 networks of 1024 inputs
_MOST_A_SHARD = 1024  # networks


def shard_size(size: int, inputs: int) -> int:
    """Networks per shard.

    Its gradients stay far smaller than the matrix they are merged into, and small inputs do not
    make many shards.
    """
    vectors = max(32, _VECTORS // size)
    networks = vectors // inputs
    return max(1, min(_MOST_A_SHARD, networks))


def networks_at_once(parameters: int, device: torch.device | str) -> int:
    """How many networks of a number of parameters in single precision are stacked, at least one.

    Args:
        parameters: Parameters of a network.
        device: Where they are.
    """
    a_network = 4 * parameters  # bytes
    return memory.fitting(a_network, device, share=_SHARE)


def probed_gradients(ensemble: Ensemble, points: Tensor, *, rows_mix: bool = False) -> Tensor:
    """Gradients of f by its own input, network n at points[n].

    Args:
        ensemble: The networks.
        points: Inputs (networks, inputs, *shape).
        rows_mix: Whether an output depends on the other inputs of its batch, as it does with
            batch statistics; costs a backward pass an input.

    Returns:
        Gradients (networks, inputs, D).
    """

    def outputs(state: State, x: Tensor) -> Tensor:
        values = functional_call(ensemble.module, state, (x,))
        return first_output(values)

    def total(state: State, x: Tensor) -> Tensor:
        # Rows do not mix: the gradient of the sum is that of each.
        return outputs(state, x).sum()

    def own(state: State, x: Tensor) -> Tensor:
        # One backward pass per output; of each only the gradient by its own input is used.
        values, pull, *_ = vjp(lambda inputs: outputs(state, inputs), x)
        unit = torch.eye(len(values), device=x.device, dtype=x.dtype)
        each = torch.vmap(pull)(unit)[0]  # (outputs, inputs, *shape)
        gradients: Tensor = each.diagonal().movedim(-1, 0)
        return gradients

    # All networks at once.
    function = own if rows_mix else grad(total, argnums=1)
    gradients: Tensor = torch.vmap(function, randomness="error")(ensemble.state, points).flatten(2)
    return gradients


OUTPUTS = {1: "the only one", 2: "second logit minus first"}
BATCH_NORM = {
    "running": "running statistics",
    "batch": "statistics of the batch of probing inputs",
    "calibrated": "calibrated statistics",
}
CALIBRATION = 256  # inputs over which batch-norm statistics are calibrated
NO_LIMIT = 2**30


def scalar_outputs(context: penchant.Context) -> int:
    """Outputs of a network for G: as it would be trained with if that is one or two, else one."""
    outputs = context.architecture.outputs
    return outputs if outputs <= 2 else 1


def fresh_networks(
    context: penchant.Context,
    indices: range,
    *,
    largest: int = NO_LIMIT,
    batch_norm: str = "running",
    calibration: Callable[[int], Tensor] | None = None,
) -> Iterator[tuple[Ensemble, range]]:
    """Networks stacked, as many at a time as their parameters allow.

    Args:
        context: Its architecture is sampled from.
        indices: Numbers of the networks.
        largest: The most that are stacked.
        batch_norm: `running`, `batch` or `calibrated`.
        calibration: For `calibrated`: inputs for the network of a number.

    Yields:
        The networks on the device, and their numbers.
    """
    blocks = list(stacks(context, indices, largest=largest))
    if calibration is not None:
        for some in blocks:
            yield _calibrated(context, some, calibration), some
        return
    prepare = functools.partial(safe, batch_norm=batch_norm)
    # The next networks are sampled while the device works on some.
    sampled = draw_ahead(context.architecture, blocks, prepare=prepare)
    for some, networks in zip(blocks, sampled, strict=True):
        yield _as_prepared(networks).to(context.device, context.dtype), some


def _as_prepared(networks: Ensemble) -> Ensemble:
    """The same networks without tensors that their prepared module has no more.

    Running statistics handed to a module that is to use those of its batch would be used.
    """
    module = networks.module
    named = [*module.named_parameters(), *module.named_buffers()]
    known = {name for name, _ in named}
    state = {}
    for name, tensor in networks.state.items():
        if name in known:
            state[name] = tensor
    return Ensemble(module, state, networks.sampler)


def stacks(
    context: penchant.Context, indices: range, *, largest: int = NO_LIMIT
) -> Iterator[range]:
    """Numbers of networks, as many together as their parameters allow to stack."""
    parameters = parameter_count(context.architecture, indices[0])
    fitting = networks_at_once(parameters, context.device)
    step = min(fitting, largest)
    for start in range(0, len(indices), step):
        yield indices[start : start + step]


def _calibrated(
    context: penchant.Context, indices: range, calibration: Callable[[int], Tensor]
) -> Ensemble:
    """Networks whose batch-norm statistics are those of the calibration inputs, one by one."""
    # Statistics differ from network to network, so each is calibrated by itself.
    states = []
    for index in indices:
        network = safe(
            context.network(index), batch_norm="calibrated", calibration=calibration(index)
        )
        states.append(tensors_of(network))
    return stacked(network, states)


def probing_points(
    context: penchant.Context, indices: range, *, inputs: int, probing: str, scale: float
) -> Tensor:
    """Probing inputs (networks, inputs, *shape); each network's come from a stream of its own.

    Args:
        context: Gives the streams, the shape, and the data.
        indices: Numbers of the networks.
        inputs: How many inputs per network.
        probing: `gaussian`, `zero` or `data`.
        scale: Standard deviation of normal inputs.
    """
    # Networks are numbered from `first` on; so are their streams.
    first = context.architecture.first
    streams = [context.generator("probing", first + index) for index in indices]
    return _points(context, streams, inputs, probing, scale)


def calibration_points(
    context: penchant.Context, index: int, *, probing: str, scale: float
) -> Tensor:
    """Inputs (CALIBRATION, *shape) of the probing law for the statistics of one network."""
    # Not the stream of its probing inputs: those are the same with and without calibration.
    number = context.architecture.first + index
    stream = context.generator("calibration", number)
    points = _points(context, [stream], CALIBRATION, probing, scale)
    return points[0]


def _points(
    context: penchant.Context,
    streams: list[torch.Generator],
    inputs: int,
    probing: str,
    scale: float,
) -> Tensor:
    # Sampled on the CPU: the same inputs on every device.
    shape = context.architecture.shape
    device_and_dtype: TensorOptions = {"device": context.device, "dtype": context.dtype}
    if probing == "zero":
        return torch.zeros(len(streams), inputs, *shape, **device_and_dtype)
    if probing == "data":
        known = context.data.train.inputs
        chosen = [
            torch.randint(len(known), (inputs,), generator=stream, device="cpu")
            for stream in streams
        ]
        return known[torch.stack(chosen).to(known.device)]
    points = [torch.randn(inputs, *shape, generator=stream, device="cpu") for stream in streams]
    return (scale * torch.stack(points)).to(**device_and_dtype)


class ProbingLaw(NamedTuple):
    """The law of probing inputs: `gaussian`, `zero` or `data`, and the scale of normal ones."""

    probing: str
    scale: float


def probing_law(context: penchant.Context) -> ProbingLaw:
    """The law of the estimator of G, with the probe's own scale where it has one.

    G is compared with G_t and with Delta, so all are probed alike.
    """
    estimator = context.estimator("directions").options
    probing = getattr(estimator, "probing", "gaussian")
    scale = context.options.probing_scale
    if scale is None:
        return ProbingLaw(probing, getattr(estimator, "scale", 1.0))
    if probing != "gaussian":
        raise penchant.Error(
            f"probing_scale is that of normal inputs, found {scale:g} and probing {probing} in "
            "the estimator of G"
        )
    return ProbingLaw(probing, scale)


def refuse_statistics_at_zero(law: ProbingLaw, batch_norm: str) -> None:
    """Probing inputs that are all zero have no statistics to normalise by."""
    if law.probing == "zero":
        raise penchant.Error(f"at zero there are no statistics, found batch_norm {batch_norm}")


def with_statistics(network: nn.Module, batch_norm: str, inputs: Tensor) -> nn.Module:
    """A trained network that can be differentiated twice, with these batch-norm statistics.

    Args:
        network: The network; it is not changed.
        batch_norm: `running`, `batch` or `calibrated`.
        inputs: Training inputs; the first of them are for calibration.
    """
    some = inputs[:CALIBRATION]
    return safe(network, batch_norm=batch_norm, calibration=some)


def stacked(module: nn.Module, states: list[State]) -> Ensemble:
    """Networks of one architecture, given by their tensors, as an ensemble."""
    state = {}
    for name in states[0]:
        state[name] = torch.stack([each[name] for each in states])
    prepared = safe(module).requires_grad_(False)
    return Ensemble(prepared, state, "trained")


def tensors_of(network: nn.Module) -> State:
    """A copy of the parameters and buffers of a network."""
    # Buffers too: batch-norm statistics are among them.
    named = [*network.named_parameters(), *network.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in named}
