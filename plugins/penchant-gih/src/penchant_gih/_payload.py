"""Matrices as text, for items of a map: a quarter of the size of their decimal digits, in single precision."""

from __future__ import annotations

import base64

import torch
from torch import Tensor


def packed(matrix: Tensor) -> dict[str, object]:
    """Shape and base64 of the numbers."""
    numbers = matrix.to("cpu", torch.float32).contiguous().numpy()
    return {
        "shape": list(matrix.shape),
        "data": base64.b64encode(numbers.tobytes()).decode("ascii"),
    }


def unpacked(item: dict[str, object]) -> Tensor:
    """The matrix, on the CPU in single precision."""
    numbers = bytearray(base64.b64decode(str(item["data"])))
    return torch.frombuffer(numbers, dtype=torch.float32).reshape(item["shape"])
