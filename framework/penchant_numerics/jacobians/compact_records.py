"""What a recorded pass stores, in its smallest form.

A tape (`tape.py`) and autograd's record of the same pass store the same constants: inputs of linear
maps, signs of what went through a ReLU, positions of maxima. Signs need one bit each, positions
32. Autograd also saves tangents, because its rules for a product save both factors; but what is
linear in a tangent does not depend on its value, so that its shape is enough.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

# a constant, as it is or packed, and what tells the same ones
# memory, offset, shape, strides and type of a tensor
Key = tuple[int, int | torch.SymInt, torch.Size, tuple[int, ...], torch.dtype]


class Packed(Protocol):
    """A tensor in a smaller form."""

    def restore(self) -> Tensor:
        """The tensor, or one that has the same effect."""


class Signs:
    """Where numbers are above zero, a bit each; restored as ones and zeros.

    >>> Signs(torch.tensor([[2.0, -1.0, 3.0]], device="cpu")).restore().tolist()
    [[1.0, 0.0, 1.0]]
    """

    def __init__(self, numbers: Tensor) -> None:
        self._shape = numbers.shape
        self._dtype = numbers.dtype

        # eight of them in a row
        above = (numbers > 0).flatten()
        missing = -len(above) % 8
        padded = torch.nn.functional.pad(above, (0, missing))
        rows = padded.view(-1, 8)

        # each at its position in a byte
        shifts = self._shifts(numbers.device)
        bytes_ = rows.to(torch.uint8) << shifts
        self._bits = bytes_.sum(1, dtype=torch.uint8)

    @staticmethod
    def _shifts(device: torch.device) -> Tensor:
        return torch.arange(8, device=device, dtype=torch.uint8)

    def restore(self) -> Tensor:
        """Ones and zeros."""
        shifts = self._shifts(self._bits.device)
        bits = (self._bits[:, None] >> shifts) & 1
        # without what filled the last byte
        count = self._shape.numel()
        unpacked = bits.flatten()[:count]
        return unpacked.view(self._shape).to(self._dtype)


class Positions:
    """Whole numbers that index a tensor; none has more than 2^31 entries here.

    >>> Positions(torch.tensor([3, 1], device="cpu")).restore()
    tensor([3, 1])
    """

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers.to(torch.int32)

    def restore(self) -> Tensor:
        """The same numbers in torch's own width."""
        return self._numbers.long()


class Shape:
    """A tensor whose values are not read."""

    def __init__(self, tensor: Tensor) -> None:
        self._shape = tensor.shape
        self._dtype = tensor.dtype
        self._device = tensor.device

    def restore(self) -> Tensor:
        """One zero, seen as a tensor of this shape."""
        zero = torch.zeros((), device=self._device, dtype=self._dtype)
        return zero.expand(self._shape)


class SavedTensors:
    """What autograd saves of a pass, so that it can be packed when the pass is over.

    Args:
        is_tangent: Tells tangents from constants.
    """

    def __init__(self, is_tangent: Callable[[Tensor], bool]) -> None:
        self._is_tangent = is_tangent
        self._stored: dict[Key, Tensor | Packed] = {}

    def hooks(self) -> torch.autograd.graph.saved_tensors_hooks:
        """To be active during the pass."""
        return torch.autograd.graph.saved_tensors_hooks(self._save, self._load)

    def _save(self, tensor: Tensor) -> Key | Shape:
        if self._is_tangent(tensor):
            return Shape(tensor)
        # the memory comes first: `pack` asks for it
        key = (
            tensor.untyped_storage()._cdata,
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
        )
        self._stored[key] = tensor.detach()
        return key

    def _load(self, saved: Key | Shape) -> Tensor:
        if isinstance(saved, Shape):
            return saved.restore()
        stored = self._stored[saved]
        if isinstance(stored, Tensor):
            return stored
        return stored.restore()

    def pack(self, smaller: dict[int, Packed]) -> None:
        """Keep the packed form of tensors that have one, by the identity of their memory."""
        for key, stored in self._stored.items():
            storage = key[0]
            if isinstance(stored, Tensor) and storage in smaller:
                self._stored[key] = smaller[storage]
