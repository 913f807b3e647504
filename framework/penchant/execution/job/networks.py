"""Networks as an architecture builds them, and whether they fit what they are given."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs
from penchant.components.component import Architecture
from penchant.components.output import ONE_POSITION, described
from penchant.components.targets import check_parameters, resolve
from penchant.errors import Error
from penchant.seeds import derive

if TYPE_CHECKING:
    from torch import Tensor, nn

SAMPLES = 4  # that show whether a network is a function of one sample
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
        check_parameters(function, self.component.target_parameters, what)
        return function

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Say which architecture cannot be measured."""
        from penchant_numerics.device import UnsuitableNetworkError

        try:
            yield
        except UnsuitableNetworkError as error:
            raise Error(f"architecture {self.label!r}: {error}") from None

    def build(self, seed: int) -> nn.Module:
        """Construct a network in a forked random state."""
        import torch
        from penchant_numerics.device import check_kind, use_dense_gradients

        # On the host, whatever device the caller has made the default. Only the host's random
        # numbers are seeded: `torch.manual_seed` would seed those of every device, for good.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            shape = self.shape if self.built_for is None else self.built_for
            network = self._function(self.component, shape, self.outputs)
        with self._named():
            check_kind(network)
        use_dense_gradients(network)
        return network.float().eval()

    def check(
        self,
        why: str = "",
        *,
        example: Tensor | None = None,
        positions: int | None = None,
        shape_hint: str = "",
        samples: Tensor | None = None,
        batch_statistics: bool = False,
    ) -> None:
        """A few forward passes: a network that cannot be measured is refused before all else.

        Args:
            why: Why it must have this number of outputs, for the message.
            example: One input (1, *shape) of whole numbers, such as tokens; None: zeros.
            positions: Positions of a sequence, each of which has outputs; None: one per sample.
            shape_hint: What to do about another shape, for the message.
            samples: A few inputs (n, *shape); None: random numbers.
            batch_statistics: Whether batch normalisation may take the statistics of the batch.
        """
        import torch
        from penchant_numerics.device import check_evaluated, check_values

        network = self(0)
        what = f"architecture {self.label!r}"
        size = " x ".join(map(str, self.shape))
        if next(network.parameters(), None) is None:
            raise Error(f"{what} has no parameters, expected at least one")
        for name, parameter in network.named_parameters():
            if hasattr(parameter, "device_mesh"):
                found = f"the parameter {name} is a DTensor"
                hint = "give it whole, with full_tensor(): networks are measured on one device each"
                raise Error(f"{what} is spread over several processes ({found}); {hint}")
        # Does it take such an input?
        with self._named():
            check_values(network)
        given = torch.zeros(1, *self.shape, device="cpu") if example is None else example.cpu()
        try:
            with torch.no_grad():
                outputs = network(given)
        except Error as error:  # already a message of the kernel
            raise Error(f"{what}: {error}") from error
        except Exception as error:  # whatever a network raises, it does not fit
            with self._named():
                check_evaluated(network, batch_statistics=batch_statistics)
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
        self._check_function(network, samples, batch_statistics=batch_statistics)

    def _check_function(
        self, network: nn.Module, samples: Tensor | None, *, batch_statistics: bool
    ) -> None:
        """Refuse what is no function of one sample: what every probe assumes."""
        import torch
        from penchant_numerics.device import check_evaluated, check_function
        from penchant_numerics.inputs import normal

        if samples is None:
            generator = torch.Generator(device="cpu").manual_seed(self.seed)
            samples = normal((SAMPLES, *self.shape), generator, torch.device("cpu"))
        try:
            with self._named():
                check_evaluated(network, batch_statistics=batch_statistics)
                check_function(network, samples, batch_statistics=batch_statistics)
        except Error:
            raise
        except Exception as error:  # whatever a network raises: it takes one sample, not several
            line, _, _ = str(error).partition("\n")
            several = f"takes one sample, and not {len(samples)} at once"
            raise Error(f"architecture {self.label!r} {several}: {line}") from error


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
