"""Compiled inner loops: the same computation every step, in fewer and larger kernels.

On CUDA a step of a small network is mostly the launching of kernels, and `torch.compile` fuses
them. Numbers are equal up to rounding. On a CPU steps stay as they are: a compiled step of a
small network is slower there (`bench_nad.py`).
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ParamSpec

import torch
from penchant_numerics.device.vectorisation import NotVectorisedWarning, lacks_batching
from torch import Tensor

WORTHWHILE = 1000  # steps from which compiling, about half a minute, is won back

P = ParamSpec("P")


class NotCompiledWarning(NotVectorisedWarning):
    """Steps are made without a compiler, which takes longer."""


_device_types: ContextVar[tuple[str, ...]] = ContextVar("devices", default=("cuda",))


@contextlib.contextmanager
def compiling(*device_types: str) -> Iterator[None]:
    """Compile on these types of devices instead, such as `cpu`; without any, nowhere.

    >>> with compiling():
    ...     compiled(torch.neg, torch.device("cuda"), steps=10**6) is torch.neg
    True
    """
    token = _device_types.set(device_types)
    try:
        yield
    finally:
        _device_types.reset(token)


def compiled(
    function: Callable[P, Tensor], device: torch.device, *, steps: int
) -> Callable[P, Tensor]:
    """A function that is called in every step, compiled where that is worthwhile.

    Where torch cannot compile it, at once or for the shapes of a later call, a warning says so and
    the function is called as it is.

    Args:
        function: Of tensors of the same shapes in nearly every call.
        device: Where they are.
        steps: How often it will be called.

    Returns:
        A function that gives the same numbers up to rounding.

    >>> compiled(torch.neg, torch.device("cpu"), steps=10**6) is torch.neg  # too little to gain
    True
    """
    if device.type not in _device_types.get() or steps < WORTHWHILE:
        return function
    fast: Callable[P, Tensor] = torch.compile(function, options=_options())

    def call(*args: P.args, **named: P.kwargs) -> Tensor:
        nonlocal fast
        try:
            return fast(*args, **named)
        except Exception as error:
            # smaller batches mend a shortage of memory, and nothing mends a failing device
            lacking = not isinstance(error, RuntimeError) or lacks_batching(error)
            if fast is function or not lacking:
                raise
            reason = str(error).strip().partition("\n")[0]
            warnings.warn(
                f"steps are not compiled: {type(error).__name__}: {reason}",
                NotCompiledWarning,
                stacklevel=2,
            )
        # from now on; an error of the function itself is raised again here
        fast = function
        return function(*args, **named)

    return call


def _options() -> dict[str, str | int | bool | Callable[..., object]]:
    """Layers draw as they do without a compiler, and no kernel is chosen by timing it.

    What a timing chooses may differ between runs, and with it the last bits.
    """
    import torch._inductor

    names = ("fallback_random", "deterministic")
    known = torch._inductor.list_options()
    return {name: True for name in names if name in known}  # older versions have only one
