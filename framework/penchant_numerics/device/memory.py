"""How many bytes a computation may hold, and what to do when the device has fewer.

A budget is a number of bytes, not a reading of free memory: batch sizes, cached activations, bases
and blocks follow from it and from the measured bytes of a sample, so numbers stay the same whatever
else runs on the machine. Set it with `budget`; without one it depends
only on the device's type.

A device that runs out of memory all the same halves what it does at once, and says so: only then
may last bits differ.
"""

import contextlib
import contextvars
import os
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from penchant_numerics.refusal import Refusal

DEFAULT_BYTES = {"cpu": 2**30, "cuda": 2**33}
_DEFAULT_SHARE = 0.6  # of what a GPU has, at most
# what libraries of CUDA say where memory is short, instead of an `OutOfMemoryError`: cuDNN finds no
# engine whose workspace fits, cuBLAS and cuSOLVER cannot allocate theirs
_SHORTAGES = ("out of memory", "unable to find an engine", "ALLOC_FAILED")
_given: contextvars.ContextVar[int | None] = contextvars.ContextVar("memory", default=None)
_sharing: contextvars.ContextVar[int] = contextvars.ContextVar("sharing", default=1)
Answer = TypeVar("Answer")


class MemoryWarning(UserWarning):
    """The device ran out of memory, and less is done at once."""


@contextlib.contextmanager
def budget(limit: int | None, *, per_device: int = 1) -> Iterator[None]:
    """Let computations inside hold this many bytes.

    Args:
        limit: Bytes; None for the default of the device's type.
        per_device: Processes that share a GPU, for the default.
    """
    before = _given.set(limit)
    sharing = _sharing.set(per_device)
    try:
        yield
    finally:
        _sharing.reset(sharing)
        _given.reset(before)


def given() -> int | None:
    """The budget that was set; None where the device's type decides."""
    return _given.get()


def available(device: torch.device | str) -> int:
    """Bytes that a computation on a device may hold beside its inputs and outputs."""
    budgeted = given()
    if budgeted is not None:
        return budgeted
    kind = torch.device(device).type
    if kind == "cuda" and torch.cuda.is_available():
        return _default_of_gpu(device)
    # A device we do not know is an accelerator.
    return DEFAULT_BYTES.get(kind, DEFAULT_BYTES["cuda"])


def _default_of_gpu(device: torch.device | str) -> int:
    """A power of two that leaves room: cards of one size have the same default."""
    room = int(_DEFAULT_SHARE * capacity(device)) // _sharing.get()
    power: int = 2 ** (room.bit_length() - 1)
    return min(DEFAULT_BYTES["cuda"], power)


def fitting(each: int, device: torch.device | str, *, share: float = 1.0) -> int:
    """How many things of `each` bytes fit into a share of the budget, at least one.

    Args:
        each: Bytes of one of them.
        device: Where they live.
        share: Share of the budget they may take.

    Returns:
        A number that depends on the budget, never on what is free.
    """
    bytes_allowed = int(share * available(device))
    bytes_each = max(1, each)
    count = bytes_allowed // bytes_each
    return max(1, count)


def capacity(device: torch.device | str) -> int:
    """Bytes that a device has in all; those of the host where it does not tell."""
    device = torch.device(device)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return int(properties.total_memory)
    if not hasattr(os, "sysconf"):  # not on Windows, where nothing is refused
        return 2**63
    # what the host has
    pages = os.sysconf("SC_PHYS_PAGES")
    bytes_a_page = os.sysconf("SC_PAGE_SIZE")
    return pages * bytes_a_page


def limit(device: torch.device | str) -> int:
    """Bytes beyond which nothing is begun: the budget that was set, else all that there are."""
    budgeted = given()
    return capacity(device) if budgeted is None else budgeted


def require(needed: int, device: torch.device | str, *, what: str, hint: str) -> None:
    """Refuse what no device of this size can hold, before the allocator does.

    Args:
        needed: Bytes that are needed at once.
        device: Where.
        what: What takes them, for the message.
        hint: The way out.

    Raises:
        Refusal: Where they are more than the device has in all.
    """
    there = capacity(device)
    if needed <= there:
        return
    # in GiB, as people know the size of a device
    takes = needed / 2**30
    has = there / 2**30
    raise Refusal(f"{what} takes {takes:.3g} GiB, the device has {has:.3g} GiB: {hint}")


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that the device ran out of memory.

    >>> is_shortage(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"))
    True
    """
    if isinstance(error, torch.OutOfMemoryError):
        return True
    # an error of the device itself does not pass with less work
    if isinstance(error, torch.AcceleratorError) or not isinstance(error, RuntimeError):
        return False
    text = str(error)
    return any(each in text for each in _SHORTAGES)


def halving(work: Callable[[int], Answer], size: int, *, what: str) -> Answer:
    """Call `work(size)`, with half the size as often as the device runs out of memory.

    Args:
        work: Does everything in pieces of the size it is given, from the beginning.
        size: How much is done at once.
        what: What is counted by it, for the warning ("samples per batch").

    Returns:
        What `work` returned.
    """
    while True:
        try:
            return work(size)
        except RuntimeError as error:
            if size <= 1 or not is_shortage(error):
                raise
        # Outside of `except`: the exception holds the frames whose tensors must go.
        size //= 2
        _give_back()
        text = f"out of memory: {size} {what} instead of {2 * size}"
        advice = "a smaller setting `memory` chooses this from the start"
        warnings.warn(f"{text}; {advice}", MemoryWarning, stacklevel=2)


def fits(work: Callable[[], object], *, what: str) -> bool:
    """Keep what saves time; False, with a warning, where the device runs out of memory.

    Args:
        work: Keeps something that can be computed again.
        what: What is cached, for the warning ("recorded gradients").
    """
    try:
        work()
        return True
    except RuntimeError as error:
        if not is_shortage(error):
            raise
    _give_back()
    text = f"out of memory: {what} are not cached, which takes longer"
    advice = "a smaller setting `memory` chooses this from the start"
    warnings.warn(f"{text}; {advice}", MemoryWarning, stacklevel=2)
    return False


def _give_back() -> None:
    """Return cached blocks, so that smaller pieces find room."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
