"""What a probe must not change: global state, and the choice of a device."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

_FACTORIES = (
    "arange empty eye full linspace logspace ones rand randn randint randperm tensor zeros "
    "scalar_tensor tril_indices triu_indices as_tensor hann_window hamming_window"
).split()
OWN_PACKAGES = ("penchant", "penchant_numerics")


@contextlib.contextmanager
def no_trace() -> Iterator[None]:
    """What runs inside changes neither random state, default precision, threads nor gradients."""
    before = _global_state()
    yield
    for name, now in _global_state().items():
        assert now == before[name], f"the global {name} was changed"


def _global_state() -> dict[str, Any]:
    import torch

    return {
        "random state": torch.random.get_rng_state().tolist(),
        "default dtype": torch.get_default_dtype(),
        "number of threads": torch.get_num_threads(),
        "gradient mode": torch.is_grad_enabled(),
        "determinism": torch.are_deterministic_algorithms_enabled(),
    }


@contextlib.contextmanager
def strict_devices(*packages: str) -> Iterator[None]:
    """Refuse tensor factories that leave the device to chance, as they would break on a GPU.

    Args:
        *packages: Top-level packages the rule is for, besides this project's own; libraries answer
            for themselves. Without any, code of every package whose name begins with "penchant".
    """
    import torch
    from torch.overrides import TorchFunctionMode

    factories = {getattr(torch, name) for name in _FACTORIES}

    class Strict(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func in factories and kwargs.get("device") is None:
                # as_tensor of a tensor keeps its device.
                keeps = func is torch.as_tensor and args and isinstance(args[0], torch.Tensor)
                if not keeps:
                    _refuse(func, packages)
            return func(*args, **kwargs)

    with Strict():
        yield


def _refuse(func: Any, packages: tuple[str, ...]) -> None:
    # Two frames up: the code that called torch, behind the mode that caught the call.
    caller = sys._getframe(2)
    module = caller.f_globals.get("__name__", "")
    package, _, _ = module.partition(".")
    ours = package in (*OWN_PACKAGES, *packages)
    if not packages:
        ours = package.startswith("penchant")
    if ours:
        file = caller.f_code.co_filename
        location = f"{file}:{caller.f_lineno}"
        raise AssertionError(f"torch.{func.__name__} without device= at {location}")
