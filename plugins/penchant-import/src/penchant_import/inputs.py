"""What a network is given: entries of an input by name, or what one of its layers would give.

Its `forward` is called with what it takes, so that names of its parameters stay what they are, and
hooks of the network see the inputs as they are given.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penchant import Error
from penchant.errors import suggestion

if TYPE_CHECKING:
    from penchant_numerics.data import Data, Samples

BATCH = 256  # samples that go through the first layers of a network at once


def by_name(network: Any, names: tuple[str, ...]) -> None:
    """Let a network take inputs (samples, names, ...) as one argument for each name.

    Args:
        network: The network; it is changed.
        names: Names of its arguments.
    """
    network.forward = functools.partial(_named, network.forward, names)


def _named(forward: Callable[..., Any], names: tuple[str, ...], given: Any) -> Any:
    if given.ndim < 2 or given.shape[1] != len(names):
        size = " x ".join(map(str, given.shape))
        listed = ", ".join(names)
        raise Error(f"inputs are {size}, expected samples x {len(names)} ({listed}) x positions")
    return forward(**{name: given[:, number] for number, name in enumerate(names)})


def begin_at(network: Any, name: str, shape: tuple[int, ...]) -> None:
    """Let a network begin at a layer: its inputs are what the layer would give.

    Whatever computes the layer's own input still runs, on tokens that are all 0; what it gives is
    replaced. `network.embed` gives a dataset whose inputs are the outputs of the layer for those of
    the whole network.

    Args:
        network: The network; it is changed.
        name: The layer's name, as `named_modules` has it.
        shape: The shape of one input of the whole network.
    """
    layers = dict(network.named_modules())
    if not name or name not in layers:
        raise Error(f"the network has no layer {name!r}{suggestion(name, filter(None, layers))}")
    split = _Split(shape)
    layers[name].register_forward_hook(split.replace)
    network.forward = functools.partial(split.forward, network.forward)
    network.embed = functools.partial(split.embed, network)


class _Split:
    """A network in two stages; the first is used by `embed`, the second by calls of the network."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape  # of one input of the whole network
        self.given: Any = None  # outputs of the layer that are used instead of its own
        self.embedding = False
        self.outputs: Any = None  # of the layer, while `embed` runs

    def embed(self, network: Any, data: Data) -> Data:
        """The samples of a dataset, with what the layer gives for them as inputs."""
        train, test = (self._embedded(network, samples) for samples in (data.train, data.test))
        return dataclasses.replace(data, train=train, test=test)

    def _embedded(self, network: Any, samples: Samples) -> Samples:
        import torch

        rows = [self._outputs(network, batch) for batch in samples.inputs.split(BATCH)]
        return samples._replace(inputs=torch.cat(rows))

    def _outputs(self, network: Any, tokens: Any) -> Any:
        """What the layer gives for inputs of the whole network."""
        import torch

        self.embedding = True
        try:
            with torch.no_grad():
                network(tokens)
            return self.outputs.detach()
        finally:
            self.embedding, self.outputs = False, None

    def forward(self, forward: Callable[..., Any], given: Any) -> Any:
        """Store the input of the second stage, and run the first on zeros."""
        import torch

        if self.embedding:
            return forward(given)
        self.given = given
        zeros = torch.zeros(len(given), *self.shape, dtype=torch.int64, device=given.device)
        return forward(zeros)

    def replace(self, layer: Any, args: tuple[Any, ...], outputs: Any) -> Any:
        """A hook after the layer: return the stored input instead of its outputs."""
        if self.embedding:
            self.outputs = outputs
            return outputs
        given, self.given = self.given, None
        return given
