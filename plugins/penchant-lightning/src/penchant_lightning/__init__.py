"""Lightning callbacks: checkpoints that a trajectory reads, and probes that run while training."""

from typing import Any

__all__ = ["Measure", "StoreCheckpoints"]


def __getattr__(name: str) -> Any:
    # Lightning takes seconds to import: not before a callback is used.
    if name in __all__:
        from penchant_lightning import callbacks

        return getattr(callbacks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
