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

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from penchant_numerics import Refusal
from torch import Tensor

ACCEPTANCE = 0.65  # share of steps that are accepted; a little above where chains move fastest
SHORTEST = 5.0  # a step takes a share e^-u of the size, u uniform up to this
_INTERVAL = 64  # steps after which chains that are not finite end the sampling

# weights (chains, parameters) to L(w) - L(w*) as (halves, chains): one row where all samples are
# used, two where a batch is split into independent halves; and its gradient,
# which the next call may overwrite
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
        excess: L(w) - L(w*) (halves, steps, chains).
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
    slope: Tensor  # (chains, parameters), grad U / s
    excess: Tensor  # (halves, chains)
    squares: Tensor  # (chains,), |w - w*|^2
    virial: Tensor  # (chains,), <w - w*, grad U>
    steepness: Tensor  # (chains,), |grad U|^2 / s^2
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
        raise Refusal("a step size is found by acceptance: expected one, or corrected steps")
    centre = density.centre
    # beyond the width of the Gaussian no step is of use
    first = 1.0 / density.localisation if step_size is None else step_size
    pace = _Pace(first, warmup)
    walk = _Walk(density, chains, generator)
    accepted = torch.zeros(chains, device=centre.device, dtype=torch.float64)
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    for number in range(warmup + steps):
        size = pace.size
        if adapts:
            size = size * _random_share(generator)
        chance, moved = walk.step(size, corrected=corrected)
        if number < warmup:
            if adapts:
                pace.adapt(chance, number)
            continue
        accepted += moved
        state = walk.state
        seen.append((state.excess, state.virial, state.squares))
        # reading waits for a device, so it is done now and then
        if number % _INTERVAL == 0 and not bool(torch.isfinite(state.potential).all()):
            break
    excess, virials, squares = (_stacked(list(each)) for each in zip(*seen))
    return Chains(
        excess=excess.movedim(1, 0),
        virial=virials,
        distances=squares,
        acceptance=(accepted / len(seen)).cpu(),
        step_size=pace.size,
    )


def _stacked(values: list[Tensor]) -> Tensor:
    return torch.stack(values).to("cpu", torch.float64)


class _Pace:
    """A step size that follows the acceptance of all chains during the warm-up."""

    def __init__(self, size: float, warmup: int) -> None:
        self.size = size
        self._warmup = warmup
        self._logs = 0.0
        self._count = 0

    def adapt(self, chance: Tensor, number: int) -> None:
        """Robbins and Monro's step towards the acceptance; the second half is averaged."""
        gain = (1 + number / 10) ** -0.6
        self.size *= math.exp(gain * (float(chance.mean()) - ACCEPTANCE))
        if 2 * number >= self._warmup:
            self._logs += math.log(self.size)
            self._count += 1
        if number == self._warmup - 1:
            self.size = math.exp(self._logs / self._count)


def _random_share(generator: torch.Generator) -> float:
    """What a step takes of the step size."""
    uniform = torch.rand((), generator=generator, device="cpu", dtype=torch.float64)
    return math.exp(-SHORTEST * float(uniform))


class _Walk:
    """Chains on their way; memory for rows of all parameters is taken once, not in every step."""

    def __init__(self, density: Density, chains: int, generator: torch.Generator) -> None:
        centre = density.centre
        shape = (chains, len(centre))
        self._density = density
        self._generator = generator
        # sampled on the CPU: the same for every device
        self._noise = torch.empty(shape, device="cpu", dtype=centre.dtype)
        self._work = torch.empty(shape, device=centre.device, dtype=centre.dtype)
        self._spare = torch.empty_like(self._work), torch.empty_like(self._work)
        shift = torch.zeros_like(self._work)
        self.state = self._at(shift, torch.empty_like(self._work))

    def step(self, size: float, *, corrected: bool) -> tuple[Tensor, Tensor]:
        """Go on; the chance of each chain's step to be accepted, and whether it was."""
        state, scale = self.state, self._density.scale
        drift = size * scale / 2
        noise = self._noise.normal_(std=math.sqrt(size), generator=self._generator)
        move = noise.to(state.shift.device).sub_(state.slope, alpha=drift)
        shift, slope = self._spare
        proposed = self._at(torch.add(state.shift, move, out=shift), slope)
        self._spare = state.shift, state.slope
        self.state = proposed
        if not corrected:
            certain = torch.ones(len(shift), device=shift.device, dtype=torch.float64)
            return certain, certain

        # log of U(w) - U(w') and of the chances of the two moves: with g, g' the gradients and d
        # the move, |d + e g / 2|^2 - |d - e g' / 2|^2 = e <d, g + g'> + e^2 (|g|^2 - |g'|^2) / 4
        both = self._dot(move, state.slope) + self._dot(move, proposed.slope)
        lengths = state.steepness - proposed.steepness
        moves = scale / 2 * (both + drift / 2 * lengths)
        log_chance = (state.potential - proposed.potential + moves).double()
        # what is not finite is refused
        chance = log_chance.nan_to_num(nan=-torch.inf, posinf=-torch.inf).clamp(max=0).exp()
        uniform = torch.rand(
            len(shift), generator=self._generator, device="cpu", dtype=torch.float64
        )
        moved = uniform.to(shift.device) < chance
        _refuse(proposed, state, torch.nonzero(~moved)[:, 0])
        return chance, moved.double()

    def _at(self, shift: Tensor, slope: Tensor) -> _State:
        """What is met at w* + shift; the slope is written."""
        scale, localisation = self._density.scale, self._density.localisation
        weights = torch.add(self._density.centre, shift, out=self._work)
        excess, gradient = self._density.energy(weights)
        # in units of the loss, which saves a pass over the gradient
        torch.add(gradient, shift, alpha=localisation / scale, out=slope)
        squares = self._dot(shift, shift)
        potential = scale * excess.mean(0) + localisation / 2 * squares
        virial = scale * self._dot(shift, slope)
        return _State(shift, slope, excess, squares, virial, self._dot(slope, slope), potential)

    def _dot(self, first: Tensor, second: Tensor) -> Tensor:
        """Products (chains,) of rows."""
        return torch.mul(first, second, out=self._work).sum(1)


def _refuse(proposed: _State, state: _State, refused: Tensor) -> None:
    """Write the old state of chains that were refused into the proposed one."""
    for new, old in zip(proposed, state):
        axis = 1 if new is proposed.excess else 0
        new.index_copy_(axis, refused, old.index_select(axis, refused))
