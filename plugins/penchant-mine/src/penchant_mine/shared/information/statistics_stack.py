"""Statistics networks with stacked parameters, evaluated and trained as one network.

A statistics network takes the flattened x and z one after the other, (samples, size of x + size of
z), and gives one score. Plain perceptrons are multiplied out batched, with the first layer applied
to x and z separately, so that shifted pairs share it; any other module goes through `torch.vmap`.
"""

from collections.abc import Callable, Sequence

import torch
from penchant_numerics.device import memory
from penchant_numerics.training import Ensemble, State
from torch import Tensor, nn

# Bytes of the budget for a row: a CPU's caches then hold the activations (`make bench`).
A_ROW_TOGETHER = 2**22  # 256 rows per network are multiplied at once on a CPU
A_ROW_SCORED = 2**19  # 2048 rows of all networks are scored at once on a CPU
ELEMENTWISE = (
    nn.ReLU,
    nn.ELU,
    nn.LeakyReLU,
    nn.Tanh,
    nn.GELU,
    nn.SiLU,
    nn.Softplus,
    nn.Sigmoid,
    nn.Identity,
)

Activation = Callable[[Tensor], Tensor]
Layers = list[tuple[str, Activation | None]]


class StatisticsStack:
    """Networks over pairs; `state` holds their parameters along a first axis."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.module = ensemble.module
        self.state = ensemble.state
        self._layers = plain_layers(ensemble.module)
        device = next(iter(self.state.values())).device
        # Here, because reading the budget would split a compiled `scores` in two.
        self._rows_together = memory.fitting(A_ROW_TOGETHER, device)

    def __len__(self) -> int:
        tensors = iter(self.state.values())
        return len(next(tensors))

    def scores(
        self, x: Tensor, z: Tensor, shifts: Sequence[int] = (), *, state: State | None = None
    ) -> Tensor:
        """Scores of x with z as it is and moved on by each shift.

        Args:
            x: First members of the pairs (networks, samples, size).
            z: Second members of the pairs (networks, samples, size).
            shifts: By how much z is moved on.
            state: Parameters other than the networks' own.

        Returns:
            Scores (networks, 1 + shifts, samples).
        """
        state = self.state if state is None else state
        # The fast path, for what most estimates use.
        if self._layers is not None:
            return self._perceptrons(state, x, z, shifts)
        # Any other module sees every pair as one long row.
        moved = torch.stack([z, *(z.roll(-shift, 1) for shift in shifts)], 1)
        repeated = x[:, None].expand(-1, moved.shape[1], -1, -1)
        pairs = torch.cat([repeated, moved], -1)

        def one(own: State, rows: Tensor) -> Tensor:
            flat = rows.flatten(0, 1)
            scores = torch.func.functional_call(self.module, own, (flat,))
            by_pair: Tensor = scores.reshape(rows.shape[:2])
            return by_pair

        return torch.vmap(one, randomness="error")(state, pairs)

    def _perceptrons(self, state: State, x: Tensor, z: Tensor, shifts: Sequence[int]) -> Tensor:
        """A few shifts at a time, so that activations stay in the caches."""
        assert self._layers is not None
        first, _ = self._layers[0]
        weight = state[f"{first}.weight"].transpose(1, 2)  # (networks, sizes of x and z, width)
        samples, size = x.shape[1:]
        # What all shifts share of the first layer.
        from_x = torch.baddbmm(state[f"{first}.bias"][:, None], x, weight[:, :size])
        moved = (0, *shifts)
        together = max(1, self._rows_together // samples)
        scored = []
        for start in range(0, len(moved), together):
            chosen = moved[start : start + together]
            rows = z
            if chosen != (0,):
                rows = torch.cat([z.roll(-shift, 1) for shift in chosen], 1)
            # Several shifts are one product.
            added = from_x if len(chosen) == 1 else from_x.repeat(1, len(chosen), 1)
            hidden = torch.baddbmm(added, rows, weight[:, size:])
            scores = self._after_first(state, hidden)
            scored.append(scores.reshape(len(x), len(chosen), samples))
        return torch.cat(scored, 1)

    def _after_first(self, state: State, hidden: Tensor) -> Tensor:
        assert self._layers is not None
        for number, (name, function) in enumerate(self._layers):
            if number:
                weight = state[f"{name}.weight"].transpose(1, 2)
                hidden = torch.baddbmm(state[f"{name}.bias"][:, None], hidden, weight)
            # In place where it may be: the product before it does not need its result again.
            if isinstance(function, nn.ReLU):
                hidden = hidden.relu_()
            elif function is not None:
                hidden = function(hidden)
        return hidden


def plain_layers(module: nn.Module) -> Layers | None:
    """Names of linear layers with the activation after each, of a plain perceptron; else None."""
    if not isinstance(module, nn.Sequential):
        return None
    layers: Layers = []
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.bias is not None:
            layers.append((name, None))
        elif isinstance(child, ELEMENTWISE) and layers and layers[-1][1] is None:
            layers[-1] = (layers[-1][0], child)
        # A flattening layer before the first linear one changes nothing here.
        elif not (isinstance(child, nn.Flatten) and not layers):
            return None
    return layers or None


@torch.no_grad()
def held_out_scores(
    stack: StatisticsStack, state: State, x: Tensor, z: Tensor, shifts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Scores in float64, in pieces of a fixed size.

    Args:
        stack: The networks.
        state: Their parameters.
        x: First members of the pairs (networks, samples, size).
        z: Second members of the pairs (networks, samples, size).
        shifts: By how much z is moved on for marginal pairs.

    Returns:
        Joint (networks, samples) and marginal scores (networks, shifts, samples).
    """
    rows = max(1, memory.fitting(A_ROW_SCORED, x.device) // len(x))
    scored = []
    for shift in (0, *shifts):
        # Whole rows are moved first: pieces would pair only with their own.
        moved = z.roll(-shift, 1) if shift else z
        pieces = []
        for start in range(0, x.shape[1], rows):
            piece = slice(start, start + rows)
            scores = stack.scores(x[:, piece], moved[:, piece], state=state)
            pieces.append(scores[:, 0])
        scored.append(torch.cat(pieces, 1).to(torch.float64))
    return scored[0], torch.stack(scored[1:], 1)
