"""Makes a network of timm safe to differentiate twice.

Changes modules, because timm's own switches are global.
"""

from __future__ import annotations

from typing import Any

from penchant_numerics.device import safety
from torch import nn


class ForgetfulCache(dict[str, Any]):
    """A cache that forgets what it hands out.

    Some models keep a function of their parameters while they evaluate. What they keep belongs to
    one set of parameters and one graph: with other parameters it is wrong, and a second backward
    pass through it fails.
    """

    def __getitem__(self, key: str) -> Any:
        return self.pop(key)


def make_twice_differentiable(network: nn.Module) -> None:
    """What every network needs, and timm's caches of parameters emptied."""
    safety.make_twice_differentiable(network)
    for module in network.modules():
        cache = getattr(module, "attention_bias_cache", None)
        if isinstance(cache, dict):
            module.__dict__["attention_bias_cache"] = ForgetfulCache()
