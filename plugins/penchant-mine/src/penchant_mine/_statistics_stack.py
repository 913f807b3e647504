"""Statistics networks with stacked parameters: all repeats of an estimate are evaluated and trained as one network.

A statistics network takes the flattened x and z one after the other, (samples, size of x + size of z), and gives one score.
Plain perceptrons are multiplied out batched, with the first layer applied to x and z apart, so that shifted pairs share it; any
other module goes through `torch.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from penchant_numerics.ensembles import Ensemble, State
from torch import Tensor, nn

ROWS_TOGETHER = 256  # rows a network that are multiplied at once (`make bench`)
ROWS_SCORED = 2048  # rows of all networks that are scored at once: activations of 128 units then fit into a cache
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


class StatisticsStack:
    """Networks over pairs; `state` holds their parameters along a first axis."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.module, self.state = ensemble.module, ensemble.state
        self._layers = plain_layers(ensemble.module)

    def __len__(self) -> int:
        return len(next(iter(self.state.values())))

    def scores(
        self, x: Tensor, z: Tensor, shifts: Sequence[int] = (), *, state: State | None = None
    ) -> Tensor:
        """Scores (networks, 1 + shifts, samples) of x (networks, samples, size) with z as it is and moved on by each shift."""
        state = self.state if state is None else state
        if self._layers is not None:
            return self._perceptrons(state, x, z, shifts)
        moved = torch.stack([z, *(z.roll(-shift, 1) for shift in shifts)], 1)
        pairs = torch.cat([x[:, None].expand(-1, moved.shape[1], -1, -1), moved], -1)

        def one(own: State, rows: Tensor) -> Tensor:
            return torch.func.functional_call(self.module, own, (rows.flatten(0, 1),)).reshape(
                rows.shape[:2]
            )

        return torch.vmap(one, randomness="error")(state, pairs)

    def _perceptrons(self, state: State, x: Tensor, z: Tensor, shifts: Sequence[int]) -> Tensor:
        """A few shifts at a time, so that activations stay in the caches."""
        assert self._layers is not None
        (first, _), *_ = self._layers
        weight = state[f"{first}.weight"].transpose(
            1, 2
        )  # (networks, size of x + size of z, width)
        samples, size = x.shape[1:]
        from_x = torch.baddbmm(state[f"{first}.bias"][:, None], x, weight[:, :size])
        moved, together = (0, *shifts), max(1, ROWS_TOGETHER // samples)
        scored = []
        for start in range(0, len(moved), together):
            chosen = moved[start : start + together]
            rows = z if chosen == (0,) else torch.cat([z.roll(-shift, 1) for shift in chosen], 1)
            hidden = torch.baddbmm(
                from_x if len(chosen) == 1 else from_x.repeat(1, len(chosen), 1),
                rows,
                weight[:, size:],
            )
            scored.append(self._after_first(state, hidden).reshape(len(x), len(chosen), samples))
        return torch.cat(scored, 1)

    def _after_first(self, state: State, hidden: Tensor) -> Tensor:
        assert self._layers is not None
        for number, (name, function) in enumerate(self._layers):
            if number:
                hidden = torch.baddbmm(
                    state[f"{name}.bias"][:, None], hidden, state[f"{name}.weight"].transpose(1, 2)
                )
            if (
                function is not None
            ):  # in place where it may be: the product before it does not need its result again
                hidden = hidden.relu_() if isinstance(function, nn.ReLU) else function(hidden)
        return hidden


def plain_layers(module: nn.Module) -> list[tuple[str, Callable[[Tensor], Tensor] | None]] | None:
    """Names of linear layers with the activation that follows each, of a plain perceptron; else nothing."""
    if not isinstance(module, nn.Sequential):
        return None
    layers: list[tuple[str, Callable[[Tensor], Tensor] | None]] = []
    for name, part in module.named_children():
        if isinstance(part, nn.Linear) and part.bias is not None:
            layers.append((name, None))
        elif isinstance(part, ELEMENTWISE) and layers and layers[-1][1] is None:
            layers[-1] = (layers[-1][0], part)
        elif not (isinstance(part, nn.Flatten) and not layers):
            return None
    return layers or None


@torch.no_grad()
def held_out_scores(
    stack: StatisticsStack, state: State, x: Tensor, z: Tensor, shifts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Joint (networks, samples) and marginal scores (networks, shifts, samples) in float64, in pieces of a fixed size."""
    samples = x.shape[1]
    rows = max(1, ROWS_SCORED // len(x))
    scored = []
    for shift in (0, *shifts):
        moved = z.roll(-shift, 1) if shift else z
        pieces = [
            stack.scores(x[:, a : a + rows], moved[:, a : a + rows], state=state)[:, 0]
            for a in range(0, samples, rows)
        ]
        scored.append(torch.cat(pieces, 1).to(torch.float64))
    return scored[0], torch.stack(scored[1:], 1)
