"""In which precision products are taken, and what agreement two computations can then show.

| name | measurements | trainings |
|---|---|---|
| `float32` | single precision | single precision |
| `tf32` | on a GPU products of 10 bits, sums in single precision | the same |
| `bfloat16-training` | single precision | forward passes under autocast to bfloat16 |

Choose one with `chosen`; without a choice it is `float32`. Checks that
compare two routes to the same numbers ask `agreement` how much these may differ.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TypedDict

import torch
from penchant_numerics.refusal import Refusal


class TensorOptions(TypedDict):
    """Device and type of numbers of a new tensor: `torch.zeros(3, **HOST)`.

    >>> torch.zeros(3, **HOST).dtype
    torch.float64
    """

    device: torch.device | str
    dtype: torch.dtype


HOST: TensorOptions = {"device": "cpu", "dtype": torch.float64}

CHOICES = ("float32", "tf32", "bfloat16-training")
_SLACK = 32  # roundings of a product of few bits that two routes may differ by
_TF32 = 2.0**-11  # half the spacing of numbers of 10 bits after the point
_current: contextvars.ContextVar[str] = contextvars.ContextVar("precision", default="float32")


@contextlib.contextmanager
def chosen(name: str) -> Iterator[None]:
    """Let computations inside have this precision.

    Args:
        name: One of `CHOICES`.
    """
    if name not in CHOICES:
        known = ", ".join(CHOICES)
        raise Refusal(f"precision must be one of {known}, found {name!r}")
    before = _current.set(name)
    try:
        yield
    finally:
        _current.reset(before)


def current() -> str:
    """The precision that was chosen."""
    return _current.get()


def agreement(single: float) -> float:
    """How much two routes to the same numbers may differ, relative to their size.

    Args:
        single: How much they may differ in single precision.

    >>> agreement(1e-3)
    0.001
    >>> with chosen("tf32"):
    ...     agreement(1e-3)
    0.015625
    """
    if current() != "tf32":
        return single
    return max(single, _SLACK * _TF32)


def training_cast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """What a training's forward pass runs in: autocast to bfloat16 where that was chosen.

    Args:
        device: Where the training runs.

    >>> linear = torch.nn.Linear(2, 1, device="cpu")
    >>> with chosen("bfloat16-training"), training_cast(torch.device("cpu")):
    ...     linear(torch.ones(1, 2, device="cpu")).dtype
    torch.bfloat16
    """
    if current() != "bfloat16-training":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """Double precision where the device has it.

    >>> accumulation_dtype(torch.device("cpu")), accumulation_dtype(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    if device.type == "mps":
        return torch.float32
    return torch.float64
