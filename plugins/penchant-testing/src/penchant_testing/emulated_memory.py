"""Memory of the emulated device: bytes that live there, the most there were, and a limit."""

from __future__ import annotations

import collections
import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch

_OF_CUDNN = "FIND was unable to find an engine to execute this computation"
_OF_CUBLAS = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


class Memory:
    """Bytes of the storages that tensors of the device hold.

    Args:
        limit: Bytes of each device; None: as many as the host has.
        hidden: Whether convolutions and products that find no room raise the errors of cuDNN and
            cuBLAS, which are no `torch.OutOfMemoryError`.
    """

    def __init__(self, limit: int | None = None, *, hidden: bool = False) -> None:
        self.total = limit
        self.limit = limit
        self.hidden = hidden
        self._peaks: collections.Counter[int] = collections.Counter()
        self._live: collections.Counter[int] = collections.Counter()
        self._holders: collections.Counter[tuple[int, int]] = collections.Counter()
        self._references: dict[int, Any] = {}
        self._backward = 0  # passes that run, one inside another
        self._late: torch.OutOfMemoryError | None = None

    @property
    def peak(self) -> int:
        """The most bytes that any device held."""
        return max(self._peaks.values(), default=0)

    def peak_of(self, device: int) -> int:
        """The most bytes that a device held."""
        return self._peaks[device]

    def live(self, device: int) -> int:
        """Bytes that a device holds."""
        return self._live[device]

    def reset_peak(self, device: int = 0) -> None:
        """Count the most bytes of a device from here on."""
        self._peaks[device] = self._live[device]

    @contextlib.contextmanager
    def backward_pass(self) -> Iterator[None]:
        """Errors wait for the end of a pass: torch aborts where one of Python leaves a device's."""
        self._backward += 1
        try:
            yield
        finally:
            self._backward -= 1
        if not self._backward and self._late is not None:
            raise self.error_of("mm", self._take_late())

    def _take_late(self) -> torch.OutOfMemoryError:
        late, self._late = self._late, None
        assert late is not None
        return late

    def hold(self, tensor: Any) -> None:
        """Count a tensor's storage for as long as the tensor lives."""
        storage = tensor.held.untyped_storage()
        key = (tensor.device.index, storage._cdata)
        count = storage.nbytes()
        if not self._holders[key]:
            self._make_room(tensor.device.index, count)
        self._holders[key] += 1
        references = self._references
        number = id(tensor)

        def release(_: Any) -> None:
            references.pop(number, None)
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self._live[key[0]] -= count

        references[number] = weakref.ref(tensor, release)

    def _make_room(self, device: int, count: int) -> None:
        live = self._live[device] + count
        if self.limit is not None and live > self.limit:
            # No local name for the error: its frames would keep their tensors alive.
            if not self._backward:
                raise self._shortage(device, count)
            self._late = self._late or self._shortage(device, count)
        self._live[device] = live
        if self._late is None:
            self._peaks[device] = max(self._peaks[device], live)

    def _shortage(self, device: int, count: int) -> torch.OutOfMemoryError:
        return torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {count} bytes. The emulated device has "
            f"{self.limit} bytes, of which {self._live[device]} are in use."
        )

    def error_of(self, name: str, error: torch.OutOfMemoryError) -> RuntimeError:
        """What an operator that found no room raises."""
        if not self.hidden:
            return error
        if name.startswith("conv"):
            return RuntimeError(_OF_CUDNN)
        if name in ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul"):
            return RuntimeError(_OF_CUBLAS)
        return error
