"""Has anybody written to these tensors? torch's own counts, and digests of their content."""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

_CHUNK = 2**24  # bytes that are hashed at a time


def versions(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """How often each tensor was written to, as torch counts it; numpy writes uncounted.

    Streamed inputs, which are read anew every time, count as 0.
    """
    return tuple(getattr(tensor, "_version", 0) for tensor in tensors)


def digest(tensors: Iterable[Tensor]) -> str:
    """A digest that changes where numbers do: a hash of every byte on the host.

    On a device it is one of sums: a change that keeps the sum and the norm of a tensor is missed
    there, but nothing is copied, neither to the host nor in another precision. Streamed inputs are
    left out.
    """
    total = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        if not hasattr(tensor, "_version"):
            continue
        if tensor.device.type == "cpu":
            view = tensor.detach().contiguous().numpy().data.cast("B")
            for start in range(0, len(view), _CHUNK):
                total.update(view[start : start + _CHUNK])
        else:
            total.update(str(_sums(tensor)).encode())
    return total.hexdigest()


def _sums(tensor: Tensor) -> tuple[float, float]:
    """Sum and norm in double precision, which torch accumulates without a copy of the tensor."""
    values = tensor.detach()
    total = values.sum(dtype=torch.float64)
    # A norm is defined for floating point only; whole numbers are labels, and few.
    floating = values if values.is_floating_point() else values.double()
    norm = torch.linalg.vector_norm(floating, dtype=torch.float64)
    return float(total), float(norm)
