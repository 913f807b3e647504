r"""The local learning coefficient from chains around w*, with an error and reasons to refuse it.

.. math:: \hat\lambda = n \beta \, (E_w[L_n(w)] - L_n(w^*)), \quad \beta = 1 / \log n

The expectation is over the density of `langevin`. The target is the limit of large n, lambda;
at finite n the localisation contributes, and where the multiplicity m of the pole is above 1 the
approach is slow: D = lambda - lambda-hat = (m - 1) / (log n beta + c). How far there is to go shows
in the slope

.. math::
    s = \frac{d \hat\lambda}{d \log n\beta} = \hat\lambda - Var_w[x],
    \quad x = n \beta \, (L_n - L_n(w^*)),

which vanishes in the limit (there x has a Gamma distribution of shape lambda, whose variance is its
mean). Stein's identity, with the field x (w - w*), gives a second estimate from the same draws,

.. math::
    s = -E[r] + Cov[x, r + \gamma |w - w^*|^2 / 2],
    \quad r = \langle w - w^*, \nabla x \rangle / 2 - x,

whose noise is another: r vanishes for a quadratic loss. The weight of the two is the one with the
least jackknife variance.

A power of n leaves D = s (its first), a pole of multiplicity m leaves D = sqrt((m - 1) s), which is
about (m - 1) / log(n beta / gamma); m is at most the number of parameters, and 3 is the highest
that is allowed for. So D lies between 0 and the sum of both; m is unknown, so the estimate of the
limit is in the middle, and its error takes both ends to be equally likely.

References: Lau, Furman, Wang, Murfet, Wei, The local learning coefficient: a singularity-aware
complexity measure, 2023 (arXiv 2308.12108); Watanabe, A widely applicable Bayesian information
criterion, 2013.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from penchant_landscape.learning_coefficient.chain_diagnostics import effective_samples, split_r_hat
from penchant_landscape.learning_coefficient.langevin import Chains

R_HAT = 1.1  # above it chains disagree
FEWEST = 5.0  # effective samples of a chain below which nothing is known of its mean
_UNBALANCED = 0.25  # how far from 1 Stein's identity may be
STEEPEST = 0.2  # share of the value above which a slope says that the limit is out of reach
_MULTIPLICITY = 3  # highest multiplicity of the pole that the error allows for
_WIDE = 6.0  # standard deviations of a squared distance beyond which a chain has left


class Coefficient(NamedTuple):
    """The estimate and what it rests on; numbers that do not exist are nan.

    Attributes:
        value: lambda-hat at this n beta and localisation.
        stderr: Its standard error, from the spread between chains.
        slope: d lambda-hat / d log(n beta).
        slope_stderr: Its standard error, by leaving out one chain at a time.
        lowest: The least that the limit of large n may be above the value.
        highest: The most.
        step_bias: What Stein's identity says of the step size where steps are not corrected.
        effective: Effective samples of all chains together.
        r_hat: Split R-hat.
        virial: <w - w*, grad U> over the number of parameters, 1 for exact sampling.
        virial_stderr: Its standard error, from the spread between chains.
        by_chain: lambda-hat of each chain (chains,).
        problems: Why the number must not be used; empty where it may.
    """

    value: float
    stderr: float
    slope: float
    slope_stderr: float
    lowest: float
    highest: float
    step_bias: float
    effective: float
    r_hat: float
    virial: float
    virial_stderr: float
    by_chain: Tensor
    problems: tuple[str, ...]

    @property
    def within_reach(self) -> bool:
        """Whether the limit is known: where the slope is steep, the value is about this n."""
        return not self.problems and abs(self.slope) <= STEEPEST * self.value

    @property
    def limit(self) -> float:
        """The estimate of lambda itself, in the middle of where it may be."""
        return self.value + (self.lowest + self.highest) / 2

    @property
    def limit_stderr(self) -> float:
        """Its error: of the chains, and of the distance to the limit, at one end or the other."""
        return math.hypot(self.stderr, (self.highest - self.lowest) / 2, self.step_bias)

    @property
    def limit_df(self) -> float:
        """Degrees of freedom of that error (Welch and Satterthwaite)."""
        return (len(self.by_chain) - 1) * (self.limit_stderr / self.stderr) ** 4


def learning_coefficient(
    chains: Chains, *, scale: float, localisation: float, parameters: int, corrected: bool
) -> Coefficient:
    """Estimate the coefficient, and say why not where chains do not allow it.

    Args:
        chains: What was sampled.
        scale: n beta.
        localisation: gamma.
        parameters: How many there are.
        corrected: Whether steps were accepted or refused.

    Returns:
        The estimate; `problems` are its reasons for not being one.
    """
    halves = scale * chains.excess  # (halves, steps, chains)
    series = halves.mean(0)
    by_chain = series.mean(0)
    finite = torch.isfinite(series).all(0) & torch.isfinite(chains.virial).all(0)
    if not bool(finite.all()):
        which = _listed(~finite)
        problem = f"{which} diverged: the loss is not finite after {len(series)} steps"
        return _unknown(by_chain, (problem,))

    count = series.shape[1]
    value = float(series.mean())
    stderr = float(by_chain.std()) / math.sqrt(count)
    slope, slope_stderr = _slope(halves, chains, localisation, corrected)
    lowest, highest = _distance(slope, slope_stderr, scale / localisation, parameters)
    virials = chains.virial.mean(0) / parameters
    virial = float(virials.mean())
    virial_stderr = float(virials.std()) / math.sqrt(count)
    # of a quadratic loss this is the energy that the step size and batches add
    step_bias = 0.0 if corrected else (virial - 1) * parameters / 2
    effective = effective_samples(series)
    r_hat = split_r_hat(series)
    problems = [
        *_disagreement(r_hat, effective, count),
        *_departures(chains, by_chain, localisation, parameters),
        *_bad_steps(chains, virial, virial_stderr, corrected),
    ]
    return Coefficient(
        value,
        stderr,
        slope,
        slope_stderr,
        lowest,
        highest,
        step_bias,
        effective,
        r_hat,
        virial,
        virial_stderr,
        by_chain,
        tuple(problems),
    )


def _unknown(by_chain: Tensor, problems: tuple[str, ...]) -> Coefficient:
    numbers = dict.fromkeys(Coefficient._fields[:11], math.nan)
    return Coefficient(**numbers, by_chain=by_chain, problems=problems)


def _slope(
    halves: Tensor, chains: Chains, localisation: float, corrected: bool
) -> tuple[float, float]:
    """The slope in log(n beta) and its jackknife error over chains.

    Without each chain the weight of both estimates is chosen again: chosen once, from the few
    numbers that it makes equal, it would make the error too small.
    """
    widths = localisation * chains.distances
    every = range(halves.shape[2])

    def both(*left: int) -> tuple[float, float]:
        chosen = [one for one in every if one not in left]
        own = halves[:, :, chosen]
        direct = _slope_of(own)
        # Stein's identity holds for exact sampling only
        if not corrected:
            return direct, direct
        return direct, _slope_by_stein(own[0], chains.virial[:, chosen], widths[:, chosen])

    without = [both(one) for one in every]
    slope = _weighted(both(), without)
    slopes = torch.tensor(
        [
            _weighted(without[left], [both(left, other) for other in every if other != left])
            for left in every
        ],
        device="cpu",
        dtype=torch.float64,
    )
    return slope, math.sqrt((len(every) - 1) * float(slopes.var(correction=0)))


def _weighted(estimates: tuple[float, float], without: list[tuple[float, float]]) -> float:
    """The mean of two estimates that varies least where one chain is left out.

    Two chains, or fewer, always agree at some weight: then the first estimate is taken.
    """
    if len(without) < 3:
        return estimates[0]
    first, second = torch.tensor(without, device="cpu", dtype=torch.float64).T
    weight = _best_weight(first, second)
    return (1 - weight) * estimates[0] + weight * estimates[1]


def _slope_of(halves: Tensor) -> float:
    """Mean less variance; halves of batches share their variance and not their noise."""
    mean = halves.mean()
    deviations = halves - halves.mean((1, 2), keepdim=True)
    variance = (deviations[0] * deviations[-1]).mean()
    return float(mean - variance)


def _slope_by_stein(x: Tensor, virial: Tensor, widths: Tensor) -> float:
    """The same by Stein's identity; all (steps, chains), widths are gamma |w - w*|^2."""
    r = (virial - widths) / 2 - x
    rest = r + widths / 2
    covariance = ((x - x.mean()) * (rest - rest.mean())).mean()
    return float(covariance - r.mean())


def _best_weight(first: Tensor, second: Tensor) -> float:
    """The weight of the second, from 0 to 1, with which their mean varies least."""
    difference = second - second.mean() - (first - first.mean())
    squares = float(difference.square().sum())
    if squares == 0:
        return 0.0
    products = float((difference * (first - first.mean())).sum())
    return min(max(-products / squares, 0.0), 1.0)


def _distance(slope: float, stderr: float, reach: float, parameters: int) -> tuple[float, float]:
    """The least and the most that the limit may be above the value."""
    most = max(slope, 0.0) + stderr
    orders = min(parameters, _MULTIPLICITY) - 1
    logarithm = max(math.log(reach), 1.0)
    slow = min(orders / logarithm, math.sqrt(orders * most))
    return min(slope, 0.0), most + slow


def _disagreement(r_hat: float, effective: float, count: int) -> list[str]:
    """Chains that do not tell the same."""
    problems = []
    if not r_hat <= R_HAT:
        problems.append(f"chains disagree: split R-hat is {r_hat:.2f}, expected at most {R_HAT}")
    if not effective >= FEWEST * count:
        problems.append(
            f"chains hardly move: {effective:.0f} effective samples, expected at least "
            f"{FEWEST * count:.0f}; more steps are needed"
        )
    return problems


def _departures(
    chains: Chains, by_chain: Tensor, localisation: float, parameters: int
) -> list[str]:
    """Chains that left the neighbourhood of w*."""
    problems = []
    below = by_chain < 0
    if bool(below.any()):
        lowest = float(by_chain.min())
        problems.append(
            f"{_listed(below)} found a lower loss than that of the network (lowest value "
            f"{lowest:.3g}): the network is not at a minimum, or they left its neighbourhood"
        )
    # a loss that holds them makes chains narrower than the Gaussian alone, never wider
    squares = localisation * chains.distances.mean(0) / parameters
    most = 1 + _WIDE * math.sqrt(2 / (parameters * FEWEST))
    outside = squares > most
    if bool(outside.any()):
        problems.append(
            f"{_listed(outside)} left the neighbourhood: mean squared distance up to "
            f"{float(squares.max()):.3g} times that of the localisation alone"
        )
    return problems


def _bad_steps(chains: Chains, virial: float, stderr: float, corrected: bool) -> list[str]:
    """Steps that are refused nearly always, or chains that have another distribution."""
    problems = []
    stuck = chains.acceptance < 0.1
    if bool(stuck.any()):
        problems.append(f"{_listed(stuck)} accepted fewer than 10 % of their steps")
    far = abs(virial - 1) > max(_UNBALANCED, 4 * stderr)
    if far:
        why = "chains have not spread to where they belong; more steps are needed"
        if virial > 1:
            why = "chains have not settled" if corrected else "the step size is too large"
        problems.append(
            f"<w - w*, grad U> is {virial:.3g} times the number of parameters, expected 1: {why}"
        )
    return problems


def _listed(which: Tensor) -> str:
    """Numbers of chains, as in a sentence."""
    numbers = torch.nonzero(which)[:, 0].tolist()
    return "chains " + ", ".join(str(number + 1) for number in numbers)
