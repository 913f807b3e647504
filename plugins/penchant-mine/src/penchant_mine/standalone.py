"""Mutual information of two arrays, without experiment and run: `mutual_information(x, z)`."""

from __future__ import annotations

import hashlib
import importlib
import warnings
from typing import Any

import attrs
import penchant
import torch
from penchant_numerics.roles import EstimatorContext, Information
from penchant_numerics.training import constructed
from torch import Generator, nn

from penchant_mine.declarations.estimators import ARCHITECTURES, ESTIMATORS


def mutual_information(
    x: Any, z: Any, *, estimator: str = "ksg", seed: int = 0, **options: Any
) -> Information:
    """Mutual information of x and z in nats, with its standard error and that of shuffled pairs.

    Args:
        x: Samples (pairs,) or (pairs, ...) of the first variable, an array or a tensor.
        z: Samples of the second.
        estimator: `ksg`, for few dimensions; `gaussian`; `binned`; or one that trains networks,
            for many: `mine`, `mine-f`, `nwj`, `info-nce`, `smile`.
        seed: Seed of all random numbers.
        **options: Options of the estimator, as `penchant explain` lists them.

    Returns:
        `value`, `stderr`, `null`, and `warnings` that say why the value may be far off.

    >>> x = torch.randn(500, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    >>> found = mutual_information(x, x.square(), shuffles=1)
    >>> found.value > found.null
    True
    """
    known = {cls.name: cls for cls in ESTIMATORS}
    if estimator not in known:
        listed = ", ".join(sorted(known))
        raise penchant.Error(f"estimator must be one of {listed}, found {estimator!r}")
    chosen = known[estimator].bind(options, "mutual_information")
    module, _, function = chosen.target.partition(":")
    estimate = getattr(importlib.import_module(module), function)
    context: EstimatorContext = _StandaloneContext(seed)
    information: Information = estimate(chosen, context, torch.as_tensor(x), torch.as_tensor(z))
    return information


@attrs.frozen
class _StandaloneContext:
    """What estimators ask of a context where there is none: random numbers and networks."""

    seed: int
    architecture: _Networks | None = None
    device: torch.device = torch.device("cpu")
    dtype: torch.dtype = torch.float32

    def warn(self, text: str) -> None:
        """Show a warning."""
        warnings.warn(text, stacklevel=2)

    def generator(self, *keys: object) -> Generator:
        """Random numbers of the seed and the keys."""
        text = repr((self.seed, *keys))
        digest = hashlib.sha256(text.encode()).digest()
        number = int.from_bytes(digest[:7], "little")
        generator = torch.Generator(device="cpu")
        return generator.manual_seed(number)

    def scope(
        self, *, architecture: str, shape: tuple[int, ...], outputs: int
    ) -> _StandaloneContext:
        """The same with networks of this architecture."""
        for cls in ARCHITECTURES:
            if cls.name == architecture:
                networks = _Networks(cls(), shape, outputs)
                return _StandaloneContext(self.seed, networks)
        listed = ", ".join(cls.name for cls in ARCHITECTURES)
        hint = "penchant.measure takes any architecture"
        raise penchant.Error(f"network must be one of {listed}, found {architecture!r}; {hint}")


@attrs.frozen
class _Networks:
    """Statistics networks by their numbers, as `training.ensembles` draws them."""

    component: Any
    shape: tuple[int, ...]
    outputs: int
    seed: int = 0

    def with_seed(self, seed: int) -> _Networks:
        return attrs.evolve(self, seed=seed)

    def seed_of(self, index: int) -> int:
        return self.seed + index

    def build(self, seed: int) -> nn.Module:
        module, _, function = self.component.target.partition(":")
        make = getattr(importlib.import_module(module), function)

        def network() -> nn.Module:
            made: nn.Module = make(self.component, self.shape, self.outputs)
            return made

        return constructed(network, seed).eval()

    def check(self) -> None:
        """Refuse an input that the network does not take."""
        zeros = torch.zeros(1, *self.shape, device="cpu")
        with torch.no_grad():
            self.build(self.seed)(zeros)
