"""Functions of torch written out, where their own derivatives are wrong or missing in some order.

A second derivative can be taken in four orders: reverse or forward mode, over reverse or forward
mode. In torch 2.13 the tangents of `layer_norm`, of `instance_norm` and of `batch_norm` with the
statistics of the batch have wrong derivatives: mean and scale are taken for constants. Weight norm
has no tangent, and that of `glu` no derivative. Made of elementary steps, all are right in every
order, and their values are the same to rounding.

Recurrent layers run without cuDNN, whose kernels have no backward pass in evaluation mode and no
second derivatives, and without oneDNN, whose kernel of an LSTM in single precision has no tangent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class PlainFunctions(TorchFunctionMode):
    """Inside this context the functions of `WRITTEN_OUT` are made of elementary steps.

    Only calls from Python are seen, so that code compiled by TorchScript keeps torch's own.

    >>> x = torch.tensor([[1.0, 3.0]], device="cpu")
    >>> with PlainFunctions():
    ...     functional.layer_norm(x, (2,), eps=0.0).tolist()
    [[-1.0, 1.0]]
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the function gives."""
        given = kwargs or {}
        if func in RECURRENT:
            return _by_plain_kernel(func, *args, **given)
        written_out: Callable[..., object] = WRITTEN_OUT.get(func, func)
        return written_out(*args, **given)


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """`torch.nn.functional.layer_norm`."""
    axes = tuple(range(-len(normalized_shape), 0))
    normalized = _standardised(x, axes, eps)
    return _scaled(normalized, weight, bias)


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm`; torch's own is right with running statistics."""
    if not training:
        return functional.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    # torch refuses what it refuses, and updates running statistics
    functional.batch_norm(x.detach(), running_mean, running_var, training=True, momentum=momentum)
    axes = (0, *range(2, x.dim()))
    normalized = _standardised(x, axes, eps)
    return _scaled(normalized, _by_channel(weight, x), _by_channel(bias, x))


def _instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.instance_norm`; torch's own is right with running statistics."""
    if not use_input_stats:
        return functional.instance_norm(
            x, running_mean, running_var, weight, bias, use_input_stats=False, eps=eps
        )
    # torch refuses what it refuses, and updates running statistics
    functional.instance_norm(
        x.detach(), running_mean, running_var, use_input_stats=True, momentum=momentum
    )
    axes = tuple(range(2, x.dim()))
    normalized = _standardised(x, axes, eps)
    return _scaled(normalized, _by_channel(weight, x), _by_channel(bias, x))


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """`torch._weight_norm`: g v / |v|, norms over all axes but one, over all for dim = -1."""
    axes = [axis for axis in range(v.dim()) if axis != dim]
    return g * (v / v.square().sum(axes, keepdim=True).sqrt())


def _glu(x: Tensor, dim: int = -1) -> Tensor:
    """`torch.nn.functional.glu`."""
    left, right = x.chunk(2, dim)
    return left * right.sigmoid()


def _standardised(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """The values with mean 0 and variance 1 over some axes."""
    centred = x - x.mean(axes, keepdim=True)
    variance = centred.square().mean(axes, keepdim=True)
    return centred * (variance + eps).rsqrt()


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """What an affine normalisation does last."""
    if weight is not None:
        x = x * weight
    if bias is not None:
        x = x + bias
    return x


def _by_channel(value: Tensor | None, x: Tensor) -> Tensor | None:
    """A value per channel, shaped for the second axis of x."""
    if value is None:
        return None
    behind = [1] * (x.dim() - 2)
    return value.reshape(-1, *behind)


def _by_plain_kernel(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a recurrent kernel with cuDNN and oneDNN off."""
    backends = (torch.backends.cudnn, torch.backends.mkldnn)
    before = [backend.enabled for backend in backends]
    for backend in backends:
        backend.enabled = False  # type: ignore[attr-defined]  # torch sets it on its module
    try:
        return func(*args, **kwargs)
    finally:
        for backend, enabled in zip(backends, before):
            backend.enabled = enabled  # type: ignore[attr-defined]


WRITTEN_OUT: dict[Callable[..., object], Callable[..., Tensor]] = {
    functional.layer_norm: _layer_norm,
    torch.layer_norm: _layer_norm,
    functional.batch_norm: _batch_norm,
    functional.instance_norm: _instance_norm,
    torch._weight_norm: _weight_norm,
    functional.glu: _glu,
}
RECURRENT = frozenset({torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu})
