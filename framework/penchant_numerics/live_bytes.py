"""Bytes of tensors that a computation makes and something still holds.

What autograd keeps for a backward pass cannot be read off the graph: saved tensors, tangents, and
buffers of operations are all hidden in it. But everything passes through the dispatcher, so that
storages can be noted when they are made, and asked later whether they are still alive.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Notes the storages that operations make while it is active; older ones are not counted.

    Args:
        peaks: Whether `peak` is followed, which takes longer.

    >>> import torch
    >>> with LiveBytes(peaks=True) as live:
    ...     kept = torch.ones(10, device="cpu")
    ...     kept = kept + torch.ones(10, device="cpu")
    >>> live.alive(), live.peak
    (40, 120)
    """

    def __init__(self, *, peaks: bool = False) -> None:
        super().__init__()
        self.peaks = peaks
        self.peak = 0
        self._older: dict[int, StorageWeakRef] = {}
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # before the operation, so that what it changes in place is not taken for new
        kwargs = kwargs or {}
        for given in tree_leaves((args, kwargs)):
            if isinstance(given, Tensor):
                self._pass_over(given.untyped_storage())
        made = func(*args, **kwargs)
        for value in tree_leaves(made):
            if isinstance(value, Tensor):
                self._note(value.untyped_storage())
        if self.peaks:
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
            self._made[storage._cdata] = (reference, storage.nbytes())

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
        return total
