"""What CUDA and its libraries do otherwise than the CPU, for the emulated device.

Operators without a deterministic kernel are those of which `torch.use_deterministic_algorithms`
says so. cuSOLVER solves least squares for matrices of full rank only. cuDNN differentiates
recurrent layers in training mode only. TF32 shortens what is multiplied. And sums are added up in
another order, so that the last bits differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Operators whose CUDA kernels add up in any order.
_UNORDERED = set(
    "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward "
    "avg_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward "
    "max_unpool2d max_unpool3d upsample_linear1d_backward upsample_bilinear2d_backward "
    "upsample_bicubic2d_backward upsample_trilinear3d_backward "
    "_upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward "
    "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
    "nll_loss2d_forward nll_loss2d_backward _ctc_loss_backward put_ put histc kthvalue "
    "grid_sampler_2d_backward grid_sampler_3d_backward".split()
)
# Operators that have no such kernel for some arguments.
_MEDIANS = ("median", "nanmedian")  # those with indices, which are those along an axis
_RECURRENT = frozenset({torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu})
# Operators that add up, whose last bits depend on the order.
_PRODUCTS = set("mm addmm bmm baddbmm linear matmul".split())
_SUMMING = set(
    "mm addmm bmm baddbmm linear matmul mv addmv dot vdot conv1d conv2d conv3d convolution "
    "convolution_backward "
    "sum mean linalg_vector_norm var var_mean native_batch_norm".split()
)


def is_unordered(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Has an operator no deterministic kernel on CUDA for these arguments?"""
    if name in _UNORDERED:
        return True
    if name in ("cumsum", "cumsum_"):
        dtype = kwargs.get("dtype") or args[0].dtype
        return bool(dtype.is_floating_point or dtype.is_complex)
    if name == "bincount":
        return len(args) > 1 and args[1] is not None
    if name in _MEDIANS:
        return len(args) > 1
    return name in ("scatter_reduce", "scatter_reduce_") and "prod" in args


def refuse_lstsq(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse least squares that `gels`, the only driver on CUDA, cannot solve."""
    driver = kwargs.get("driver")
    if driver not in (None, "gels"):
        raise RuntimeError(f"torch.linalg.lstsq: CUDA has the driver gels, found {driver!r}")
    matrix = args[0]
    full = min(matrix.shape[-2:])
    least = int(torch.linalg.matrix_rank(matrix.double()).min())
    if least < full:
        raise RuntimeError(
            f"torch.linalg.lstsq: gels needs a matrix of full rank {full}, found rank {least}"
        )


def as_tf32(name: str, values: Any) -> Any:
    """The arguments of a matrix product as TF32 has them, where that is switched on: 10 bits."""
    if name not in _PRODUCTS or torch.backends.cuda.matmul.fp32_precision != "tf32":
        return values
    return type(values)(_shortened(each) for each in values)


def _shortened(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    # Of 23 bits behind the point 13 go; half of the last that stays is added, to round.
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def rounded(name: str, result: Any, ulps: int) -> Any:
    """The result of an operator that adds up, wrong by `ulps` units in the last place."""
    if not ulps or name not in _SUMMING:
        return result
    if isinstance(result, (tuple, list)):
        return type(result)(_perturbed(each, ulps) for each in result)
    return _perturbed(result, ulps)


def _perturbed(tensor: Any, ulps: int) -> Any:
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return tensor
    # The same at every call, because a real device gives the same bits twice.
    numbers = torch.arange(tensor.numel(), dtype=tensor.dtype, device="cpu")
    noise = (numbers * 12.9898 + 1).sin_().view(tensor.shape)
    other = tensor * (1 + ulps * torch.finfo(tensor.dtype).eps * noise)
    # Sums of whole numbers are exact in any order.
    return torch.where(tensor == tensor.round(), tensor, other)


class RecurrentLayersOfCudnn(TorchFunctionMode):
    """Refuses recurrent layers in evaluation mode whose derivatives are taken.

    Args:
        device: The type of device whose layers are cuDNN's.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """What the function gives."""
        if func in _RECURRENT and torch.backends.cudnn.enabled:
            self._refuse_evaluation(args)
        return func(*args, **(kwargs or {}))

    def _refuse_evaluation(self, args: tuple[Any, ...]) -> None:
        tensors = [each for each in _flat(args) if isinstance(each, torch.Tensor)]
        # Whether there are biases, whether it trains, and more.
        _, training, *_ = [each for each in args if isinstance(each, bool)]
        tracked = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        on_device = any(each.device.type == self._device for each in tensors)
        if on_device and tracked and not training:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for each in values:
        if isinstance(each, (tuple, list)):
            yield from _flat(each)
        else:
            yield each
