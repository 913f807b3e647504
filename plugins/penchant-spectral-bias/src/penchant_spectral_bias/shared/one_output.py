"""Networks of one output, which is what a function of a target is."""

from __future__ import annotations

import penchant
import torch
from torch import nn


def network_of_one_output(context: penchant.Context, index: int = 0) -> nn.Module:
    """Network number `index` with one output; a network of the user's own may have others."""
    network = context.network(index, outputs=1)
    shape = context.architecture.shape
    probe = torch.zeros(2, *shape, device=context.device, dtype=context.dtype)
    training = network.training
    with torch.no_grad():
        output = network.eval()(probe)
    network.train(training)
    if output[0].numel() != 1:
        label = context.architecture.label
        raise penchant.Error(
            f"architecture {label!r} gives {output[0].numel()} outputs where one was requested, "
            "expected 1: a target has one value; choose one output of a network of your own, such "
            "as unit = 0"
        )
    return network
