"""Networks that can be differentiated twice: no fused attention, no dropout, no in-place activation, a batch-norm policy."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

POLICIES = ("running", "batch", "calibrated")


def safe(
    network: nn.Module, *, batch_norm: str = "running", calibration: Tensor | None = None
) -> nn.Module:
    """A copy in evaluation mode whose second derivatives exist; the network itself is not changed.

    Batch normalisation uses its `running` statistics, those of the `batch` at hand, or running statistics
    `calibrated` by one pass over the calibration inputs.
    """
    if batch_norm not in POLICIES:
        raise ValueError(f"batch_norm must be one of {', '.join(POLICIES)}, found {batch_norm!r}")
    network = copy.deepcopy(network).eval()
    make_twice_differentiable(network)
    for module in network.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
    if batch_norm == "batch":
        _use_batch_statistics(network)
    elif batch_norm == "calibrated":
        if calibration is None:
            raise ValueError("batch_norm = 'calibrated' needs calibration inputs")
        calibrate(network, calibration)
    return network


def make_twice_differentiable(network: nn.Module) -> None:
    """Switch off fused attention and in-place activations, and mend what PyTorch differentiates wrongly; changes the modules."""
    for module in list(network.modules()):
        for switch in ("fused_attn", "inplace"):  # the first is timm's
            if getattr(module, switch, False):
                setattr(module, switch, False)
        if isinstance(module, nn.MultiheadAttention):  # its fast path ignores autograd's needs
            module.register_forward_pre_hook(_with_weights, with_kwargs=True)
        if isinstance(module, _BatchNorm):
            module.register_forward_hook(_with_contiguous_gradient)
        for name, child in module.named_children():
            if isinstance(child, nn.Hardsigmoid):
                setattr(module, name, TwiceDifferentiableHardsigmoid())


class TwiceDifferentiableHardsigmoid(nn.Module):
    """`nn.Hardsigmoid`, whose backward pass PyTorch cannot differentiate, in terms of relu6, whose it can."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu6(x + 3) / 6


class ContiguousGradient(torch.autograd.Function):
    """The identity, whose gradient is laid out in memory as usual.

    PyTorch's batch-norm on the CPU gives wrong gradients, first ones included, for a single image whose gradient arrives
    transposed, as it does where feature maps become tokens (seen in torch 2.13).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()  # not a view: some models add to it in place

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """Nothing has to be remembered."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.contiguous()

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent.clone()


def _with_contiguous_gradient(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return ContiguousGradient.apply(output)


def _with_weights(
    module: nn.Module, arguments: tuple[object, ...], keywords: dict[str, object]
) -> tuple[object, object]:
    return arguments, {
        **keywords,
        "need_weights": True,
    }  # the path that computes weights is plain softmax(q k) v


def _use_batch_statistics(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False


@torch.no_grad()
def calibrate(network: nn.Module, inputs: Tensor) -> None:
    """Set running statistics to those of these inputs, layer after layer as a forward pass meets them."""
    norms = [
        module
        for module in network.modules()
        if isinstance(module, _BatchNorm) and module.track_running_stats
    ]
    before = [module.momentum for module in norms]
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # a cumulative average
        module.train()
    network(inputs)
    for module, momentum in zip(norms, before):
        module.momentum = momentum
        module.eval()
