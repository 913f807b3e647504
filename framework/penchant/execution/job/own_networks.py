"""Networks of the user's: one with its weights, or the states of its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import attrs
from penchant.errors import Error
from penchant.execution.job.runtime import Runtime
from penchant.extras import extra

if TYPE_CHECKING:
    from penchant_numerics.data import Data
    from torch import nn


@attrs.frozen(eq=False)
class OwnNetworks:
    """The networks that the experiment's architecture stands for, in the scope of a context."""

    runtime: Runtime

    @property
    def kind(self) -> str:
        """What the architecture stands for: "fresh" networks, one "trained", a "trajectory".

        Where a trajectory is measured state by state, each state is one "trained" network. A
        network that is trained further is "fresh": it begins with weights of the user's.
        """
        own = self.runtime.architecture
        if own is None or self.runtime.job.probe.trains_further:
            return "fresh"
        return "trained" if self.runtime.scope.state is not None else own.network_kind

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps of the trajectory; empty where there is none."""
        bound = self.runtime.job.architecture
        weights = bound.weights if bound is not None else None
        return weights.steps or () if weights is not None else ()

    @property
    def begins_at(self) -> str | None:
        """The layer at which networks begin; None where they are whole."""
        own = self.runtime.architecture
        if own is None or self.runtime.job.dataset is None:
            return None
        return getattr(own.component, "inputs_from", None)

    def embedded(self, data: Data, layer: str) -> Data:
        """Samples as the outputs of the layer at which networks begin."""
        if self.kind == "trajectory":
            raise Error("inputs_from needs one network, found a trajectory that is followed")
        runtime = self.runtime
        network = runtime.on_device(runtime.bind(data.shape, data.outputs)(0))
        network = self.fill(network, runtime.scope.state or 0)
        text = f"outputs of the layer {layer!r} for the dataset's inputs"
        own = runtime.architecture
        drawn = own is not None and own.network_kind == "fresh"
        runtime.notes.conventions["inputs"] = text + ", in the first network" * drawn
        embed = cast("Callable[[Data], Data]", network.embed)
        return embed(data)

    def fill(self, network: nn.Module, number: int) -> nn.Module:
        """The network with the weights of the user's file `number`, where she gave any."""
        bound, link = self.runtime.job.architecture, self.runtime.link
        if bound is not None and bound.weights is not None:
            path = Path(bound.weights.files[number])
            path = link.file(path) if link else path
            fill = extra("load weights")
            unused = fill(network, path, bound.label, strict=bound.weights.strict)
            if unused:
                self.runtime.notes.conventions["weights"] = unused
            _check_weights(network, path)
        return network

    def states(
        self, draw: Callable[[], nn.Module], steps: Sequence[int] | None
    ) -> Iterator[tuple[int, nn.Module]]:
        """Yield the network as step 0, or the states of its training at these steps.

        `draw` gives the network that weights are written to.
        """
        conventions = self.runtime.notes.conventions
        conventions["network"] = "the user's own, as it is: not trained"
        for step, number in self._numbered(steps):
            network = self.fill(draw(), number)
            if not all(each.requires_grad for each in network.parameters()):
                conventions["frozen parameters"] = "count as if they were not frozen"
            yield step, network

    def _numbered(self, steps: Sequence[int] | None) -> Iterator[tuple[int, int]]:
        """Steps, and the numbers of their files."""
        if not self.steps:
            yield 0, 0
            return
        chosen = self.steps if steps is None else sorted(set(steps))
        if self.runtime.scope.state is not None:
            chosen = [self.steps[self.runtime.scope.state]]
        for step in chosen:
            if step not in self.steps:
                listed = ", ".join(map(str, self.steps))
                raise Error(f"the trajectory has no step {step}; there are {listed}")
            yield step, self.steps.index(step)

    def last(self, draw: Callable[[], nn.Module]) -> nn.Module:
        """The network, or the last state of its training."""
        ((_, number),) = self._numbered(self.steps[-1:] or None)
        return self.fill(draw(), number)


def _check_weights(network: nn.Module, path: Path) -> None:
    """Refuse a file with weights that are not finite."""
    from penchant_numerics.device import UnsuitableNetworkError, check_values

    try:
        check_values(network)
    except UnsuitableNetworkError as error:
        raise Error(f"{path.name}: {error}") from None
