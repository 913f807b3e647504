"""Makes a network safe to differentiate twice. Changes modules, because timm's own switches are global."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class TwiceDifferentiableHardsigmoid(nn.Module):
    """`nn.Hardsigmoid`, whose backward pass PyTorch cannot differentiate, in terms of relu6, whose it can."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu6(x + 3) / 6


class ForgetfulCache(dict[str, Any]):
    """A cache that forgets what it hands out.

    Some models keep a function of their parameters while they evaluate. What they keep belongs to one set of parameters and one
    graph: with other parameters it is wrong, and a second backward pass through it fails.
    """

    def __getitem__(self, key: str) -> Any:
        return self.pop(key)


class ContiguousGradient(torch.autograd.Function):
    """The identity, whose gradient is laid out in memory as usual.

    PyTorch's batch-norm on the CPU gives wrong gradients, first ones included, for a single image whose gradient arrives
    transposed, as it does where feature maps become tokens (seen in torch 2.13).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone()  # not a view: some models add to it in place

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        """Nothing has to be remembered."""

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.contiguous()

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent.clone()


def _with_contiguous_gradient(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    return ContiguousGradient.apply(output)


def make_twice_differentiable(network: nn.Module) -> None:
    """Switch off fused attention, in-place activations and caches of parameters; mend what PyTorch differentiates wrongly."""
    for module in list(network.modules()):
        for switch in ("fused_attn", "inplace"):
            if getattr(module, switch, False):
                setattr(module, switch, False)
        if isinstance(getattr(module, "attention_bias_cache", None), dict):
            module.attention_bias_cache = ForgetfulCache()
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.register_forward_hook(_with_contiguous_gradient)
        for name, child in module.named_children():
            if isinstance(child, nn.Hardsigmoid):
                setattr(module, name, TwiceDifferentiableHardsigmoid())
