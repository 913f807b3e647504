r"""Langevin dynamics of several chains at once, around a point w* that a Gaussian keeps them near.

A chain samples the density proportional to exp(-U(w)) with

.. math:: U(w) = s \, (L(w) - L(w^*)) + \frac{\gamma}{2} |w - w^*|^2, \quad s = n \beta,

by steps w' = w - (e / 2) grad U(w) + sqrt(e) xi. With all samples in every gradient a step is
accepted or refused (Metropolis), so that its size changes the speed and not the distribution; with
batches (SGLD) it is not, and the distribution is that of the step size and of the batches. Where
the size is found by acceptance, every step takes a random share of it: a chain that got to where
the loss is steep would refuse large steps for very long.

Stein's identity holds for exact sampling, whatever the loss: E[<w - w*, grad U>] = parameters.

References: Welling and Teh, Bayesian learning via stochastic gradient Langevin dynamics, 2011;
Roberts and Tweedie, Exponential convergence of Langevin distributions, 1996.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import vecdot

ACCEPTANCE = 0.65  # share of steps that are accepted; a little above where chains move fastest
SHORTEST = 5.0  # a step takes a share e^-u of the size, u uniform up to this
_LOOK = 64  # steps after which chains that are not finite end the sampling

# weights (chains, parameters) to L(w) - L(w*) as (parts, chains): one part where all samples are
# used, two where a batch is split into halves that know nothing of each other; and its gradient
Energy = Callable[[Tensor], tuple[Tensor, Tensor]]


class Density(NamedTuple):
    """What is sampled.

    Attributes:
        energy: L(w) - L(w*) and its gradient.
        centre: w* (parameters,).
        scale: n beta, which multiplies the loss.
        localisation: gamma, the precision of the Gaussian around w*.
    """

    energy: Energy
    centre: Tensor
    scale: float
    localisation: float


class Chains(NamedTuple):
    """What chains have met after their warm-up, on the CPU in double precision.

    Attributes:
        excess: L(w) - L(w*) (parts, steps, chains).
        virial: <w - w*, grad U> (steps, chains), whose mean is the number of parameters.
        distances: |w - w*|^2 (steps, chains).
        acceptance: Share of accepted steps (chains,); 1 where nothing is refused.
        step_size: The size that was given or found.
    """

    excess: Tensor
    virial: Tensor
    distances: Tensor
    acceptance: Tensor
    step_size: float


class _State(NamedTuple):
    """Where chains are, and what they meet there."""

    shift: Tensor  # (chains, parameters), w - w*
    slope: Tensor  # (chains, parameters), grad U
    excess: Tensor  # (parts, chains)
    squares: Tensor  # (chains,), |w - w*|^2
    steepness: Tensor  # (chains,), |grad U|^2
    potential: Tensor  # (chains,), U


def langevin(
    density: Density,
    *,
    chains: int,
    steps: int,
    warmup: int,
    generator: torch.Generator,
    step_size: float | None = None,
    corrected: bool = True,
) -> Chains:
    """Sample a density with chains that all begin at its centre.

    Args:
        density: What is sampled.
        chains: How many chains.
        steps: Steps of each after its warm-up.
        warmup: Steps before that, which are left out; the step size is found in them.
        generator: On the CPU, for noise and acceptance.
        step_size: e; None: found so that `ACCEPTANCE` of the steps are accepted, and a random
            share of it in every step, which needs `corrected`.
        corrected: Whether steps are accepted or refused, so that the density is met exactly.

    Returns:
        What the chains have met. Where one stops being finite, the steps end there.
    """
    adapts = step_size is None
    if adapts and not corrected:
        raise ValueError("a step size is found by acceptance: expected one, or corrected steps")
    centre = density.centre
    # beyond the width of the Gaussian no step is of use
    first = 1.0 / density.localisation if step_size is None else step_size
    pace = _Pace(torch.tensor(first, device=centre.device, dtype=centre.dtype), warmup)
    state = _at(density, torch.zeros(chains, len(centre), device=centre.device, dtype=centre.dtype))
    accepted = torch.zeros(chains, device=centre.device, dtype=torch.float64)
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    for number in range(warmup + steps):
        size = pace.size
        if adapts:
            size = size * _random_share(generator)
        state, chance, moved = _step(density, state, size, generator, corrected)
        if number < warmup:
            if adapts:
                pace.adapt(chance, number)
            continue
        accepted += moved
        virial = vecdot(state.shift, state.slope)
        seen.append((state.excess, virial, state.squares))
        # reading waits for a device, so it is done now and then
        if number % _LOOK == 0 and not bool(torch.isfinite(state.potential).all()):
            break
    excess, virials, squares = (_stacked(list(each)) for each in zip(*seen))
    return Chains(
        excess=excess.movedim(1, 0),
        virial=virials,
        distances=squares,
        acceptance=(accepted / len(seen)).cpu(),
        step_size=float(pace.size),
    )


def _stacked(values: list[Tensor]) -> Tensor:
    return torch.stack(values).to("cpu", torch.float64)


class _Pace:
    """A step size that follows the acceptance of all chains during the warm-up."""

    def __init__(self, size: Tensor, warmup: int) -> None:
        self.size = size
        self._warmup = warmup
        self._logs = torch.zeros_like(size)
        self._count = 0

    def adapt(self, chance: Tensor, number: int) -> None:
        """Robbins and Monro's step towards the acceptance; the second half is averaged."""
        gain = (1 + number / 10) ** -0.6
        change = gain * (chance.mean() - ACCEPTANCE)
        self.size = self.size * change.to(self.size).exp()
        if 2 * number >= self._warmup:
            self._logs += self.size.log()
            self._count += 1
        if number == self._warmup - 1:
            self.size = (self._logs / self._count).exp()


def _random_share(generator: torch.Generator) -> float:
    """What a step takes of the step size."""
    drawn = torch.rand((), generator=generator, device="cpu", dtype=torch.float64)
    return math.exp(-SHORTEST * float(drawn))


def _at(density: Density, shift: Tensor) -> _State:
    """What is met at w* + shift."""
    excess, gradient = density.energy(density.centre + shift)
    squares = vecdot(shift, shift)
    slope = gradient.mul_(density.scale).add_(shift, alpha=density.localisation)
    potential = density.scale * excess.mean(0) + density.localisation / 2 * squares
    return _State(shift, slope, excess, squares, vecdot(slope, slope), potential)


def _step(
    density: Density,
    state: _State,
    size: Tensor,
    generator: torch.Generator,
    corrected: bool,
) -> tuple[_State, Tensor, Tensor]:
    """The next state, the chance of each step to be accepted, and whether it was."""
    shift = state.shift
    # drawn on the CPU: the same for every device
    noise = torch.randn(shift.shape, generator=generator, device="cpu", dtype=shift.dtype)
    move = noise.to(shift.device).mul_(size.sqrt()).addcmul_(size, state.slope, value=-0.5)
    proposed = _at(density, shift + move)
    if not corrected:
        certain = torch.ones(len(shift), device=shift.device, dtype=torch.float64)
        return proposed, certain, certain

    # log of U(w) - U(w') and of the chances of the two moves: with g, g' the gradients and d the
    # move, |d + e g / 2|^2 - |d - e g' / 2|^2 = e <d, g + g'> + e^2 (|g|^2 - |g'|^2) / 4
    both = vecdot(move, state.slope) + vecdot(move, proposed.slope)
    lengths = state.steepness - proposed.steepness
    moves = both / 2 + size / 8 * lengths
    log_chance = state.potential - proposed.potential + moves
    # what is not finite is refused
    chance = log_chance.double().nan_to_num(nan=-torch.inf, posinf=-torch.inf).clamp(max=0).exp()
    drawn = torch.rand(len(shift), generator=generator, device="cpu", dtype=torch.float64)
    moved = drawn.to(shift.device) < chance
    return _chosen(moved, proposed, state), chance, moved.double()


def _chosen(moved: Tensor, proposed: _State, state: _State) -> _State:
    """The proposed state of chains that moved, and the old one of others; written into proposed."""
    for name, new in proposed._asdict().items():
        mask = moved[:, None] if name in ("shift", "slope") else moved
        torch.where(mask, new, getattr(state, name), out=new)
    return proposed
