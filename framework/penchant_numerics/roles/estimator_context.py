"""What an estimator may ask of the context it is given."""

from typing import Protocol

import torch


class EstimatorContext(Protocol):
    """Random numbers, where tensors belong, and a way to warn; `penchant.Context` has all of it."""

    @property
    def device(self) -> torch.device:
        """Where tensors belong."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of networks and data."""

    def generator(self, *keys: object) -> torch.Generator:
        """A generator on the CPU of these keys."""

    def warn(self, text: str) -> None:
        """Keep a warning with the result."""
