"""Initialisation of weights: in place, from the global generator, in construction order."""

import math
from collections.abc import Callable

import torch
from torch import nn

from penchant_architectures.declarations.layered import LayeredNetwork

WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d)
Rule = Callable[[nn.Module], None]


def initialise(
    network: nn.Module, options: LayeredNetwork, default: Rule | None = None
) -> nn.Module:
    """Initialise linear and convolution layers as `options.initialization` says.

    Args:
        network: A network as PyTorch drew it.
        options: Options with `initialization` and `weight_std`.
        default: Draws one layer by the architecture's own rule; left out, what PyTorch drew stays.

    Returns:
        The same network.
    """
    rule = default
    if options.initialization == "gaussian":
        rule = normal(options.weight_std or 1.0)
    # Modules initialise themselves; here those with weights are initialised again.
    if rule is None:
        return network
    for layer in network.modules():
        if isinstance(layer, WEIGHTED):
            rule(layer)
    return network


def _weight(layer: nn.Module) -> nn.Parameter:
    """The weight of a linear layer or a convolution."""
    return layer.get_parameter("weight")


def normal(std: float) -> Rule:
    """Weights N(0, std^2), biases zero."""

    def draw(layer: nn.Module) -> None:
        nn.init.normal_(_weight(layer), 0.0, std)
        _clear_bias(layer)

    return draw


def convolutions_by_fan_out(layer: nn.Module) -> None:
    """Convolutions N(0, 2 / (kernel area * outputs)), biases zero; linear layers as they are."""
    if isinstance(layer, nn.Linear):
        return
    nn.init.kaiming_normal_(_weight(layer), mode="fan_out", nonlinearity="relu")
    _clear_bias(layer)


def kaiming_normal(layer: nn.Module) -> None:
    """Weights N(0, 2 / inputs of a unit), biases zero."""
    nn.init.kaiming_normal_(_weight(layer), mode="fan_in", nonlinearity="relu")
    _clear_bias(layer)


def glorot_uniform(layer: nn.Module) -> None:
    """Weights U(+-sqrt(6 / (inputs + outputs))), biases zero; a convolution is that of one patch.

    Not `nn.init.xavier_uniform_`, which counts the outputs of a kernel once for each of its
    positions: right for kernels that overlap, not for patches that do not.
    """
    # A weight has the axes (outputs, inputs, ...); behind the first lies one patch.
    weight = _weight(layer)
    outputs = len(weight)
    inputs = weight[0].numel()
    squared = 6 / (inputs + outputs)
    bound = math.sqrt(squared)
    nn.init.uniform_(weight, -bound, bound)
    _clear_bias(layer)


def _clear_bias(layer: nn.Module) -> None:
    if isinstance(layer.bias, torch.Tensor):
        nn.init.zeros_(layer.bias)
