"""One forward pass that notes what linear layers see, and backward passes to all of them at once.

The error of a layer is the derivative of an output by what the layer gives. One backward pass gives
the errors of all layers towards one combination of outputs; nothing towards parameters is computed
or stored. What follows from inputs and errors can be reduced as they come: a layer at a time on the
way forth, a combination at a time on the way back.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers.linear_layers import (
    error_positions,
    input_positions,
    takes_batch,
    watched,
    weight_matrix,
)
from penchant_numerics.refusal import Refusal
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

# takes the name of a layer and what it is given
SeeInputs = Callable[[str, Tensor], None]


class Use(NamedTuple):
    """One use of a layer."""

    inputs: Tensor | None  # (n, ...), where they are stored
    version: int  # of the inputs, which code that follows may change
    edge: GradientEdge  # where its error arrives


class LayerPass:
    """A forward pass of a batch; `errors` may go back from it any number of times.

    Args:
        outputs: What the network gives, with its graph.
        uses: By layer, in the order of its uses.

    >>> network = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    >>> one = layer_pass(Outputs(network, None), torch.ones(5, 2, device="cpu"), {"0": network[0]})
    >>> [error.shape for error in one.errors(torch.ones(5, 3, device="cpu"))["0"]]
    [torch.Size([5, 3])]
    """

    def __init__(self, outputs: Tensor, uses: Mapping[str, Sequence[Use]]) -> None:
        self._outputs = outputs
        self._uses = uses
        self.outputs = outputs.detach()  # (n, C)

    @property
    def layers(self) -> list[str]:
        """Layers that were used."""
        return list(self._uses)

    def inputs(self, layer: str) -> list[Tensor]:
        """What a layer saw, use by use, where it was stored."""
        inputs = []
        for use in self._uses[layer]:
            if use.inputs is None:
                raise Refusal(f"the inputs of layer {layer!r} were not stored")
            if use.inputs._version != use.version:
                raise Refusal(
                    f"what layer {layer!r} was given is changed in place afterwards; expected a "
                    "network that leaves the inputs of its layers as they are"
                )
            inputs.append(use.inputs)
        return inputs

    def errors(self, cotangent: Tensor, *, last: bool = False) -> dict[str, list[Tensor | None]]:
        """Errors of all layers towards sum_ic cotangent_ic f_c(x_i), use by use.

        Args:
            cotangent: Weights (n, C) of the outputs; samples do not mix, so errors stay separate.
            last: Whether the graph may go.

        Returns:
            Errors (n, ...) of the shape of the layer's outputs; None where they are all zero.
        """
        edges = []
        for uses in self._uses.values():
            edges += [use.edge for use in uses]
        gradients = iter(
            torch.autograd.grad(
                self._outputs, edges, cotangent, retain_graph=not last, allow_unused=True
            )
        )
        # As many as a layer has uses, in the order of layers.
        by_layer: dict[str, list[Tensor | None]] = {}
        for name, uses in self._uses.items():
            by_layer[name] = list(itertools.islice(gradients, len(uses)))
        return by_layer


def layer_pass(
    outputs: Outputs,
    inputs: Tensor,
    layers: Mapping[str, nn.Module],
    *,
    see: SeeInputs | None = None,
) -> LayerPass:
    """Pass a batch through a network, and note its layers.

    Args:
        outputs: The network.
        inputs: The batch (n, ...).
        layers: Linear layers by name.
        see: Takes every input of a layer as it comes; inputs are stored where there is none.

    Returns:
        The pass; its graph leads to the outputs of layers, never to parameters.

    >>> linear = nn.Linear(2, 3)
    >>> one = layer_pass(Outputs(linear, None), torch.ones(5, 2, device="cpu"), {"": linear})
    >>> one.layers, one.inputs("")[0].shape
    ([''], torch.Size([5, 2]))
    """
    count = len(inputs)
    uses: dict[str, list[Use]] = {}

    def note(name: str, given: Tensor, made: Tensor) -> Tensor:
        if not takes_batch(layers[name], given) or len(given) != count:
            raise Refusal(
                f"layer {name!r} took samples one by one in a trial, but not in this "
                f"batch of {count}: its input is {tuple(given.shape)}"
            )
        stored = None
        if see is None:
            stored = given.detach()
        else:
            with torch.no_grad():
                see(name, given.detach())
        # the first layers follow nothing that has a graph
        goes_on = made
        if not made.requires_grad:
            made = made.detach().requires_grad_()
            goes_on = made.clone()
        edge = get_gradient_edge(made)
        uses.setdefault(name, []).append(Use(stored, given._version, edge))
        return goes_on

    with torch.enable_grad(), watched(layers, note):
        values = outputs(outputs.values, inputs)
    return LayerPass(values, uses)


def seen_at_positions(module: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
    """What a layer saw at the positions of all its uses, (n, t, d).

    Args:
        module: The layer.
        inputs: What it was given, use by use.

    >>> twice = [torch.ones(5, 2, device="cpu"), torch.zeros(5, 2, device="cpu")]
    >>> seen_at_positions(nn.Linear(2, 3), twice).shape
    torch.Size([5, 2, 2])
    """
    seen = [input_positions(module, given) for given in inputs]
    return torch.cat(seen, dim=1)


def errors_at_positions(
    module: nn.Module, inputs: Sequence[Tensor], errors: Sequence[Tensor | None]
) -> Tensor:
    """Errors of a layer at the positions of all its uses, (n, t, o).

    Args:
        module: The layer.
        inputs: What it was given, use by use.
        errors: Its errors, use by use; None where a use reaches no output.

    Returns:
        The errors, zero where a use reaches no output.

    >>> given, error = torch.ones(5, 2, device="cpu"), torch.ones(5, 3, device="cpu")
    >>> errors_at_positions(nn.Linear(2, 3), [given, given], [error, None]).sum((0, 2))
    tensor([15.,  0.])
    """
    units = len(weight_matrix(module))
    layer_errors = []
    for given, error in zip(inputs, errors):
        if error is None:
            # no error, at as many positions as there are inputs
            positions = input_positions(module, given).shape[1]
            layer_errors.append(given.new_zeros(len(given), positions, units))
        else:
            layer_errors.append(error_positions(module, error[:, None])[:, 0])
    return torch.cat(layer_errors, dim=1)
