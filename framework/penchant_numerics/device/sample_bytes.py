"""Samples per pass, from the measured bytes of one sample and a budget of bytes.

One and two samples are passed, and the most bytes that were alive at a time are noted: the
difference is what a sample takes, the rest is there whatever the batch. A network decides so, and a
budget; nothing depends on what is free at the moment. Two are not passed where one takes more than
a pass may: measuring would hold more than the budget.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from penchant_numerics.device import memory
from penchant_numerics.device.peak_memory import LiveBytes
from torch import Tensor

# what one pass may take of the budget; the rest is for what stays between passes
PASS_SHARE = 0.5


class PassBytes(NamedTuple):
    """Peak bytes of a pass: some for the pass, and some for each sample."""

    fixed: int
    a_sample: int

    def of(self, samples: int) -> int:
        """Bytes of a pass of `samples` samples."""
        return self.fixed + samples * self.a_sample


def pass_bytes(work: Callable[[Tensor], object], inputs: Tensor) -> PassBytes:
    """Measure a pass on one and on two samples.

    Args:
        work: Called with a batch: the pass and everything that follows from it.
        inputs: Samples (n, ...).

    Returns:
        The peak bytes, beside what was there before.

    >>> x = torch.ones(4, 10, device="cpu")
    >>> pass_bytes(lambda batch: batch * 2, x)
    PassBytes(fixed=0, a_sample=40)
    """
    one = _peak(work, _some(inputs, 1))
    return _compared(work, inputs, one)


def _compared(work: Callable[[Tensor], object], inputs: Tensor, one: int) -> PassBytes:
    """What two samples take, beside the peak of one."""
    two = _peak(work, _some(inputs, 2))
    a_sample = max(1, two - one)
    # what is there whatever the batch
    fixed = max(0, one - a_sample)
    return PassBytes(fixed, a_sample)


def _some(inputs: Tensor, count: int) -> Tensor:
    """`count` samples, with repetition where there are fewer."""
    numbers = torch.arange(count, device=inputs.device)
    return inputs[numbers % len(inputs)]


def _peak(work: Callable[[Tensor], object], inputs: Tensor) -> int:
    """The most bytes that were alive while a batch passed."""
    with LiveBytes(peaks=True) as live:
        work(inputs)
    peak: int = live.peak
    return peak


def fitting_batch(
    work: Callable[[Tensor], object], inputs: Tensor, *, largest: int, share: float = PASS_SHARE
) -> int:
    """Samples per pass: at most `largest`, and as many as fit into a share of the budget.

    Args:
        work: Called with a batch: the pass and everything that follows from it.
        inputs: Samples (n, ...).
        largest: At most this many.
        share: Share of the budget that a pass may take.

    Returns:
        A number of samples, at least one.

    >>> x = torch.ones(4, 10, device="cpu")
    >>> with memory.budget(400):
    ...     fitting_batch(lambda batch: batch * 2, x, largest=128)
    5
    """
    if largest == 1:
        return 1
    allowed = int(share * memory.available(inputs.device))

    # where one sample takes more than that, two could take more than the whole budget
    one = _peak(work, _some(inputs, 1))
    if one > allowed:
        return 1
    taken = _compared(work, inputs, one)
    room = allowed - taken.fixed
    fitting = room // taken.a_sample
    return max(1, min(largest, fitting))


def batch_size(device: torch.device) -> int:
    """Samples per pass at most: a CPU's caches like 128, a GPU wants more (`make bench`).

    >>> batch_size(torch.device("cpu")), batch_size(torch.device("cuda"))
    (128, 1024)
    """
    if device.type == "cpu":
        return 128
    return 1024
