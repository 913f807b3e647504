"""Networks as an architecture builds them, and whether they fit what they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
from penchant.components.component import Architecture
from penchant.components.output import ONE_POSITION, described
from penchant.components.targets import check_parameters, resolve
from penchant.errors import Error
from penchant.seeds import derive

if TYPE_CHECKING:
    from torch import Tensor, nn

FROM_EMBEDDING = "measure from the embedding on: inputs_from = 'name of the embedding layer'"


@attrs.frozen(eq=False)
class BoundArchitecture:
    """An architecture with its shape and outputs: a callable index -> module.

    `built_for` is the shape that networks are built for, where they begin at a layer and `shape` is
    that of the layer's outputs.

    Modules are made on the CPU, in single precision. Network i comes from (seed, "network", i)
    alone, whatever device, precision, worker or estimator asks for it; `first` shifts all numbers.
    """

    component: Architecture
    label: str
    shape: tuple[int, ...]
    outputs: int
    seed: int
    first: int = 0
    built_for: tuple[int, ...] | None = None

    def __call__(self, index: int = 0) -> nn.Module:
        """Network number `index`."""
        return self.build(self.seed_of(index))

    def seed_of(self, index: int) -> int:
        """What the random state is seeded with before network `index` is built."""
        return derive(self.seed, "network", self.first + index)

    def with_seed(self, seed: int) -> BoundArchitecture:
        """The same architecture with networks of another seed."""
        return attrs.evolve(self, seed=seed)

    @functools.cached_property
    def _function(self) -> Callable[..., nn.Module]:
        what = f"architecture {self.label!r}"
        function = resolve(self.component.target, what)
        check_parameters(function, self.component.parameters, what)
        return function

    def build(self, seed: int) -> nn.Module:
        """Construct a network in a forked random state."""
        import torch

        # On the host, whatever device the caller has made the default. Only the host's random
        # numbers are seeded: `torch.manual_seed` would seed those of every device, for good.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            shape = self.shape if self.built_for is None else self.built_for
            network = self._function(self.component, shape, self.outputs)
        return network.float().eval()

    def check(
        self,
        why: str = "",
        *,
        example: Tensor | None = None,
        positions: int | None = None,
        shape_hint: str = "",
    ) -> None:
        """One forward pass: a network that does not fit is refused before all else.

        Args:
            why: Why it must have this number of outputs, for the message.
            example: One input (1, *shape) of whole numbers, such as tokens; None: zeros.
            positions: Positions of a sequence, each of which has outputs; None: one per sample.
            shape_hint: What to do about another shape, for the message.
        """
        import torch

        network = self(0)
        what = f"architecture {self.label!r}"
        size = " x ".join(map(str, self.shape))
        if next(network.parameters(), None) is None:
            raise Error(f"{what} has no parameters, expected at least one")
        # Does it take such an input?
        given = torch.zeros(1, *self.shape, device="cpu") if example is None else example.cpu()
        try:
            with torch.no_grad():
                outputs = network(given)
        except Error as error:  # already a message of the kernel
            raise Error(f"{what}: {error}") from error
        except Exception as error:  # whatever a network raises, it does not fit
            line, _, _ = str(error).partition("\n")
            text = line or type(error).__name__
            hint = _other_type(network, given) or shape_hint
            raise Error(f"{what} does not take inputs of shape {size}: {text}{hint}") from error
        # Does it give what is expected of it?
        if not isinstance(outputs, torch.Tensor):
            raise Error(f"{what} returns {described(outputs)}")
        expected = (1, self.outputs) if positions is None else (1, positions, self.outputs)
        if outputs.shape != expected:
            found = " x ".join(map(str, outputs.shape)) or "a single number"
            sizes = " x ".join(map(str, expected))
            reason = f"; {why}" if why else ""
            if positions is None and outputs.ndim == len(expected) + 1:
                reason += f"; {ONE_POSITION}"
            given_to = f"for one input of shape {size}"
            raise Error(f"{what} gives {found} {given_to}, expected {sizes}{reason}")
        if not torch.isfinite(outputs).all():
            some = outputs.flatten()[:3].tolist()
            of = "an input of zeros" if example is None else "the first sample"
            raise Error(f"{what} gives {some} for {of}, expected finite numbers")


def _other_type(network: nn.Module, given: Tensor) -> str:
    """A hint where the network takes the same input as whole numbers, or as floating-point ones."""
    import torch

    floating = given.is_floating_point()
    other = given.long() if floating else given.float()
    try:
        with torch.no_grad():
            network(other)
    except Exception:  # then the type was not what is wrong
        return ""
    if floating:
        return f"; it takes whole numbers, such as tokens: {FROM_EMBEDDING}"
    return "; it takes floating-point numbers: give inputs.float()"
