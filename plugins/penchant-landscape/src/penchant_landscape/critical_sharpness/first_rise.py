r"""Where the loss along a direction first rises above where it began, by forward passes only.

Along a unit direction u let D(t) = L(w + t u) - L(w), s = -D'(0) the descent and r the least t > 0
with D(t) = 0. A gradient step of rate eta is t = eta s, so that the critical rate is r / s, and

.. math:: \lambda = \frac{2}{r / s} = \frac{2 s}{r}

is the critical sharpness. For a quadratic loss D(t) = -s t + u^T H u t^2 / 2, so that it is
u^T H u: g^T H g / g^T g along the gradient, and at most the largest eigenvalue of H along any
direction.

D(t) / t is a line in t for a quadratic loss. So the search is a secant on it, which ends after two
passes where the loss is quadratic, with a bracket where it is not. The descent is D at a small
share of r, where truncation and rounding are equal. What samples contribute to both gives the
standard error, to first order.

Reference: Kalra et al., A Scalable Measure of Loss Landscape Curvature for Analyzing the Training
Dynamics of LLMs, arXiv 2601.16979, 2026, which searches by doubling and bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from penchant_numerics import Refusal
from torch import Tensor

SHARES = (1e-4, 1 / 16)  # of the critical distance, between which the descent is measured
TOLERANCE = 0.01  # relative distance to the root at which the search ends
_GROWTH = (1.2, 4.0, 16.0)  # of a distance that is too short: at least, without a guess, at most
_AWAY = 0.1  # share of a bracket, in logarithms, that a guess stays from its ends
_ROUNDINGS = 8  # of the loss: a descent below this many is not seen
_FEWEST = 5  # passes: two ends of a bracket, the root, the descent, and the beginning

Losses = Callable[[float], Tensor]  # a distance to the losses (n,) there, in double precision


class FirstRise(NamedTuple):
    """A critical distance and what follows; numbers that do not exist are nan.

    Attributes:
        sharpness: 2 s / r.
        stderr: Its standard error over samples.
        distance: r, in the units of the direction.
        distance_stderr: Its standard error over samples.
        descent: s.
        passes: How many passes over all samples were taken.
        influences: What samples add to the sharpness, to first order (n,), with mean 0.
        problem: Why there is no number; empty where there is one.
    """

    sharpness: float
    stderr: float
    distance: float
    distance_stderr: float
    descent: float
    passes: int
    influences: Tensor
    problem: str


class _Point(NamedTuple):
    """A distance, the rise D(t) of each sample (n,) there, and D(t) / t of their mean."""

    distance: float
    rises: Tensor
    chord: float


def first_rise(losses: Losses, start: float, *, eps: float, passes: int = 12) -> FirstRise:
    """Search along a direction.

    Args:
        losses: Losses (n,) of samples at a distance.
        start: The distance that is tried first, above 0.
        eps: The relative rounding of losses.
        passes: Calls of `losses` at most.

    Returns:
        The critical distance and the sharpness, or why there are none.

    >>> curvature = torch.tensor([3.0, 5.0], device="cpu", dtype=torch.float64)
    >>> rise = first_rise(lambda t: 2 - t + curvature * t**2 / 2, 1.0, eps=1e-16)
    >>> round(rise.sharpness, 9), round(rise.stderr, 9), round(rise.distance, 9)
    (4.0, 1.0, 0.5)
    """
    if passes < _FEWEST:
        raise Refusal(f"a search needs at least {_FEWEST} passes, found {passes}")
    here = losses(0.0)
    line = _Line(losses, here)
    while line.count < passes - 2 and not line.converged():
        line.add(line.guess(start))
    taken = 1 + line.count
    if line.low is None or line.high is None:
        return _without(taken, here, line.one_sided())
    distance = line.root()
    rounding = eps * float(here.abs().mean())
    # a shorter step is nearer to the slope, and rounds more
    share = math.sqrt(rounding / line.scale())
    small = line.at(min(max(share, SHARES[0]), SHARES[1]) * distance)
    taken += 1
    descent = -float(small.rises.mean())
    # a descent that is rounded away is none
    least = _ROUNDINGS * rounding
    if not descent > least:
        return _without(
            taken,
            here,
            f"the loss falls by {descent:.2g} before it rises, expected more than {least:.2g}, "
            "its rounding: the network is at a minimum of this direction, or the loss needs "
            "double precision",
        )
    return _measured(line, small, distance, taken)


def _without(passes: int, here: Tensor, problem: str) -> FirstRise:
    return FirstRise(
        sharpness=math.nan,
        stderr=math.nan,
        distance=math.nan,
        distance_stderr=math.nan,
        descent=math.nan,
        passes=passes,
        influences=torch.full_like(here, math.nan),
        problem=problem,
    )


def _measured(line: _Line, small: _Point, distance: float, passes: int) -> FirstRise:
    """The numbers, with errors from what samples contribute."""
    gap = distance - small.distance
    fall = float(small.rises.mean())
    sharpness = -2 * fall / (small.distance * gap)
    # D(r) moves the root by -D(r) / D'(r)
    near = line.nearest()
    shifts = -(near.rises - near.rises.mean()) / (distance * line.bend())
    influences = sharpness * (small.rises / fall - 1 - shifts / gap)
    unsure = 0.0 if line.converged() else line.width() / 2
    return FirstRise(
        sharpness,
        math.hypot(_stderr(influences), sharpness * unsure / gap),
        distance,
        math.hypot(_stderr(shifts), unsure),
        sharpness * distance / 2,
        passes,
        influences,
        "",
    )


def _stderr(influences: Tensor) -> float:
    return float(influences.std()) / math.sqrt(len(influences))


class _Line:
    """Points along a direction: the last before the loss has risen, and the first after."""

    def __init__(self, losses: Losses, here: Tensor) -> None:
        self._losses = losses
        self._here = here
        self._points: list[_Point] = []
        self.low: _Point | None = None
        self.high: _Point | None = None

    @property
    def count(self) -> int:
        """How many points there are."""
        return len(self._points)

    def at(self, distance: float) -> _Point:
        """The rise at a distance."""
        rises = self._losses(distance) - self._here
        return _Point(distance, rises, float(rises.mean()) / distance)

    def add(self, distance: float) -> None:
        """Measure there; what is not finite has risen."""
        point = self.at(distance)
        self._points.append(point)
        if point.chord <= 0:
            if self.low is None or distance > self.low.distance:
                self.low = point
        elif self.high is None or distance < self.high.distance:
            self.high = point

    def guess(self, start: float) -> float:
        """The distance to try next."""
        if not self._points:
            return start
        if self.low is None:
            return self._shorter()
        if self.high is None:
            return self._longer()
        low, high = self.low.distance, self.high.distance
        if not math.isfinite(self.high.chord) or self._stale():
            return math.sqrt(low * high)
        # far from both ends, one of which may be very steep
        away: float = (high / low) ** _AWAY
        return min(max(self.root(), low * away), high / away)

    def _shorter(self) -> float:
        """Every point has risen."""
        assert self.high is not None
        least, usual, most = _GROWTH
        distance = self.high.distance
        crossing = self._extrapolated()
        if crossing is None or not 0 < crossing < distance / least:
            factor = usual if math.isfinite(self.high.chord) else most
            return distance / factor
        return max(0.95 * crossing, distance / most**2)

    def _longer(self) -> float:
        """No point has risen."""
        assert self.low is not None
        least, usual, most = _GROWTH
        distance = self.low.distance
        crossing = self._extrapolated()
        if crossing is None or crossing <= distance:
            return usual * distance
        return min(max(1.05 * crossing, least * distance), most * distance)

    def _extrapolated(self) -> float | None:
        """Where the line through the last two chords crosses zero; None where it does not rise."""
        if self.count < 2:
            return None
        first, second = self._points[-2:]
        steps = second.distance - first.distance
        bend = (second.chord - first.chord) / steps if steps else math.nan
        if not bend > 0 or not math.isfinite(bend):
            return None
        return second.distance - second.chord / bend

    def _stale(self) -> bool:
        """Whether the last two points moved the same end, so that a secant is slow."""
        last = [point.chord <= 0 for point in self._points[-3:]]
        return len(last) == 3 and len(set(last)) == 1

    def bend(self) -> float:
        """The slope of the chord between both ends; half the curvature where it is constant."""
        assert self.low is not None and self.high is not None
        steps = self.high.distance - self.low.distance
        return (self.high.chord - self.low.chord) / steps

    def root(self) -> float:
        """Where the chord between both ends is zero."""
        assert self.low is not None
        if self.high is not None and not math.isfinite(self.high.chord):
            return self.low.distance
        return self.low.distance - self.low.chord / self.bend()

    def scale(self) -> float:
        """The product s r, of the parabola with this root: four times as far as the loss falls."""
        assert self.low is not None
        root = self.root()
        return max(-self.low.chord * root / max(1 - self.low.distance / root, TOLERANCE), 1e-300)

    def width(self) -> float:
        """How far apart the ends are."""
        assert self.low is not None and self.high is not None
        return self.high.distance - self.low.distance

    def nearest(self) -> _Point:
        """The end that is nearer to the root."""
        assert self.low is not None and self.high is not None
        return min(self.low, self.high, key=lambda point: abs(point.chord))

    def converged(self) -> bool:
        """Whether an end is as near to the root as it needs to be."""
        if self.low is None or self.high is None or not math.isfinite(self.high.chord):
            return False
        near = self.nearest()
        # a chord that is nearly level, and a secant that ends there
        steepest = max(-point.chord for point in self._points)
        level = abs(near.chord) <= TOLERANCE * steepest
        return level and abs(self.root() - near.distance) <= TOLERANCE * self.root()

    def one_sided(self) -> str:
        """Why there is no bracket."""
        if self.low is None:
            assert self.high is not None
            return (
                f"the loss rises at once: at a distance of {self.high.distance:.2g} it is higher "
                "than where it began; expected a direction along which it falls"
            )
        return (
            f"the loss has not risen at a distance of {self.low.distance:.2g}, the last of "
            f"{self.count} that were tried"
        )
