"""How a network uses its linear layers: is the first axis the sample, and how often are they used?

Factored gradients (`layer_features`) take a layer's inputs and errors sample by sample. That means
nothing where windows are folded into the batch (Swin), sequences come before samples (torch's own
transformer layers by default), or experts are given some samples only. Passes over two and over
three samples tell such layers from others, and how much of each layer a sample needs.
"""

from dataclasses import dataclass

import torch
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers.linear_layers import See, is_transposed, watched, weight_matrix
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

_TRIED = (2, 3)  # a first axis that is as long as both batches is that of samples


@dataclass
class LayerUse:
    """What a forward pass does with one linear or convolutional layer, all its uses together."""

    units: int  # outputs at a position
    width: int  # inputs, or numbers of a patch, at a position
    positions: int = 0  # of a sample
    sample_first: bool = True


def layer_uses(outputs: Outputs, inputs: Tensor) -> dict[str, LayerUse]:
    """Uses of every linear and convolutional layer that is called, by its name.

    >>> network = nn.Sequential(nn.Flatten(0, 1), nn.Linear(3, 2), nn.Unflatten(0, (-1, 4)))
    >>> folded = nn.Sequential(network, nn.Flatten(), nn.Linear(8, 1))
    >>> uses = layer_uses(Outputs(folded), torch.zeros(5, 4, 3, device="cpu"))
    >>> uses["0.1"].sample_first, uses["2"].sample_first
    (False, True)
    """
    # also those that do not go by factors
    layers = {}
    for name, module in outputs.network.named_modules():
        if isinstance(module, nn.Linear | _ConvNd) or is_transposed(module):
            layers[name] = module

    # the sizes are those of the last pass; the first axis must be right in all
    uses: dict[str, LayerUse] = {}
    for count in _TRIED:
        seen: dict[str, LayerUse] = {}
        note = _noting(layers, seen, count)
        with watched(layers, note), torch.no_grad():
            numbers = torch.arange(count, device=inputs.device)
            chosen = numbers % len(inputs)
            outputs(outputs.values, inputs[chosen])
        for name, use in seen.items():
            if name in uses:
                before = uses[name].sample_first
                use.sample_first = use.sample_first and before
            uses[name] = use
    return uses


def _noting(layers: dict[str, nn.Module], seen: dict[str, LayerUse], count: int) -> See:
    """What notes each use of a layer while `count` samples pass."""

    def note(name: str, given: Tensor, made: Tensor) -> Tensor:
        """Note one use, and let its output go on."""
        # its size is known at its first use
        if name not in seen:
            units, width = weight_matrix(layers[name]).shape
            seen[name] = LayerUse(units=units, width=width)
        use = seen[name]

        # a module used twice has the positions of both uses
        use.positions += made.numel() // (count * use.units)
        if given.shape[0] != count:
            use.sample_first = False
        return made

    return note
