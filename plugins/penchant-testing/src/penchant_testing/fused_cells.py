"""Recurrent cells that torch has for CUDA only, written out for the emulated device.

With cuDNN off, recurrent layers on CUDA call these: they have no tangents, and their second
derivatives come from other formulas of torch than on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _lstm_cell(
    of_input: Tensor,
    of_hidden: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """New hidden state, new cell, and the gates (n, 4h) for the backward pass."""
    gates = of_input + of_hidden
    for bias in (input_bias, hidden_bias):
        gates = gates if bias is None else gates + bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    gates: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients in the gates before their activations, in the old cell and in a bias."""
    i, f, g, o = gates.chunk(4, 1)
    of_hidden = torch.zeros_like(cx) if grad_hy is None else grad_hy
    bent = cy.tanh()
    of_cell = of_hidden * o * (1 - bent**2)
    if grad_cy is not None:
        of_cell = of_cell + grad_cy
    gradients = [
        of_cell * g * i * (1 - i),
        of_cell * cx * f * (1 - f),
        of_cell * i * (1 - g**2),
        of_hidden * bent * o * (1 - o),
    ]
    grad = torch.cat(gradients, 1)
    return grad, of_cell * f, grad.sum(0)


def _gru_cell(
    of_input: Tensor,
    of_hidden: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """New hidden state, and five tensors (n, 5h) for the backward pass."""
    if input_bias is not None:
        of_input = of_input + input_bias
    if hidden_bias is not None:
        of_hidden = of_hidden + hidden_bias
    input_r, input_z, input_n = of_input.chunk(3, 1)
    hidden_r, hidden_z, hidden_n = of_hidden.chunk(3, 1)
    r = (input_r + hidden_r).sigmoid()
    z = (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hidden_n], 1)


def _gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients in both gates before their activations, in the old state and in both biases."""
    r, z, n, hx, hidden_n = workspace.chunk(5, 1)
    of_n = grad_hy * (1 - z) * (1 - n**2)
    of_z = grad_hy * (hx - n) * z * (1 - z)
    of_r = of_n * hidden_n * r * (1 - r)
    of_input = torch.cat([of_r, of_z, of_n], 1)
    of_hidden = torch.cat([of_r, of_z, of_n * r], 1)
    return of_input, of_hidden, grad_hy * z, of_input.sum(0), of_hidden.sum(0)


FUSED: dict[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_gru_cell_backward": _gru_cell_backward,
}
