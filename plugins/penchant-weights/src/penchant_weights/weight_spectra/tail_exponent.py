r"""The exponent of a tail x^-alpha, the window it is fitted in, and whether it is there at all.

Above x_min the likelihood is largest for alpha = 1 + n / sum log(x_i / x_min); the window begins
where the Kolmogorov distance of the n values and the law is smallest. Bootstrap samples, each with
a window of its own, give the standard error. An exponential above the same x_min has its own
likelihood; Vuong's z is the mean difference of log-likelihoods over its standard error, and a power
law is refused unless it is significantly better (z > 2.58, two-sided 1 %).

References: Clauset, Shalizi and Newman, SIAM Review 2009; Vuong, Econometrica 1989.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST = 20  # values in a window at least
BETTER = 2.576  # Vuong's z from which a power law is better than an exponential
_WINDOWS = 60  # beginnings that are tried
_BOOTSTRAPS = 60

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tail:
    """A power law fitted to the largest values."""

    exponent: float
    stderr: float | None
    begin: float  # x_min
    count: int  # values in the window
    against_exponential: float  # Vuong's z; positive: the power law is better

    @property
    def accepted(self) -> bool:
        """Is the power law significantly better than an exponential?"""
        return self.against_exponential > BETTER


def tail(values: Array, *, generator: np.random.Generator | None = None) -> Tail | None:
    """The tail of positive values; None where there are too few.

    Args:
        values: Eigenvalues in any order.
        generator: Random numbers of the bootstrap; without it the standard error is unknown.

    >>> pareto = (np.arange(1, 2001) / 2000.5) ** -1.0      # density x^-2
    >>> found = tail(pareto, generator=np.random.default_rng(0))
    >>> round(found.exponent, 1), found.accepted
    (2.0, True)
    """
    ordered = np.sort(values[values > values.max() * 1e-12])[::-1]
    if len(ordered) < FEWEST:
        return None
    count = _window(ordered)
    inside = ordered[:count]
    stderr = None
    if generator is not None:
        stderr = _bootstrap(ordered, generator)
    return Tail(
        exponent=_exponent(inside),
        stderr=stderr,
        begin=float(inside[-1]),
        count=count,
        against_exponential=_vuong(inside),
    )


def _bootstrap(ordered: Array, generator: np.random.Generator) -> float:
    """The spread of the exponent over bootstrap samples, each with a window of its own."""
    exponents = []
    for _ in range(_BOOTSTRAPS):
        sampled = np.sort(generator.choice(ordered, len(ordered)))[::-1]
        exponents.append(_exponent(sampled[: _window(sampled)]))
    return float(np.std(exponents, ddof=1))


def _exponent(inside: Array) -> float:
    """Alpha of values in descending order, of which the last is x_min."""
    logs = np.log(inside / inside[-1])
    # the last is at x_min by choice and says nothing
    return 1 + (len(inside) - 1) / max(float(logs.sum()), 1e-300)


def _window(ordered: Array) -> int:
    """How many of the largest values are nearest to a power law."""
    total = len(ordered)
    counts = np.unique(np.linspace(FEWEST, total, _WINDOWS).astype(int))
    distances = []
    for count in counts:
        inside = ordered[:count]
        logs = np.log(inside / inside[-1])
        slope = (count - 1) / max(float(logs.sum()), 1e-300)
        # the share of values above each, by the law and by counting
        law = np.exp(-slope * logs)
        ranks = np.arange(count + 1) / count
        distances.append(max(np.abs(law - ranks[1:]).max(), np.abs(law - ranks[:-1]).max()))
    return int(counts[int(np.argmin(distances))])


def _vuong(inside: Array) -> float:
    """Vuong's z of the power law against an exponential, both from x_min on."""
    begin = inside[-1]
    alpha = _exponent(inside)
    above = inside[:-1]
    rate = 1 / (above.mean() - begin)
    power = math.log((alpha - 1) / begin) - alpha * np.log(above / begin)
    exponential = math.log(rate) - rate * (above - begin)
    difference = power - exponential
    spread = difference.std(ddof=1)
    return float(difference.mean() / spread * math.sqrt(len(difference)))
