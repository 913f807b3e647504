"""Bytes of tensors that a computation makes and something still holds.

What autograd saves for a backward pass cannot be read off the graph: saved tensors, tangents, and
buffers of operations are all hidden in it. But everything passes through the dispatcher, so that
storages can be noted when they are made, and checked later for whether they are still alive.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class LiveBytes(TorchDispatchMode):
    """Notes the storages that operations make while it is active; older ones are not counted.

    Args:
        peaks: Whether `peak` is followed, which takes longer.

    >>> import torch
    >>> with LiveBytes(peaks=True) as live:
    ...     total = torch.ones(10, device="cpu")
    ...     total = total + torch.ones(10, device="cpu")
    >>> live.alive(), live.peak
    (40, 120)
    """

    def __init__(self, *, peaks: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.peaks = peaks
        self.peak = 0
        self._at_most = 0  # bytes that may be alive
        self._older: dict[int, StorageWeakRef] = {}
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # before the operation, so that what it changes in place is not taken for new
        kwargs = kwargs or {}
        for given in _tensors([*args, *kwargs.values()]):
            self._pass_over(given.untyped_storage())
        made = func(*args, **kwargs)
        # what it gives is new, if it is no view
        for value in _tensors([made]):
            self._note(value.untyped_storage())

        # they are counted only where they could be more than ever before
        if self.peaks and self._at_most > self.peak:
            self.peak = max(self.peak, self.alive())
        return made

    def _pass_over(self, storage: UntypedStorage) -> None:
        """What is given before it was made here is older."""
        # a weak reference keeps the address from being used again
        if self._is_new(storage):
            self._older[storage._cdata] = StorageWeakRef(storage)

    def _note(self, storage: UntypedStorage) -> None:
        """What an operation gives may be a view of what it was given."""
        if self._is_new(storage):
            reference = StorageWeakRef(storage)
            size = storage.nbytes()
            self._made[storage._cdata] = (reference, size)
            self._at_most += size

    def _is_new(self, storage: UntypedStorage) -> bool:
        """Whether a storage was not seen before."""
        address = storage._cdata
        return address not in self._made and address not in self._older

    def alive(self) -> int:
        """Bytes of the noted storages that still exist."""
        total = 0
        for address, (reference, size) in list(self._made.items()):
            if reference.expired():
                del self._made[address]
            else:
                total += size
        self._at_most = total
        return total


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    """The tensors among what an operation takes or gives, lists of them included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
