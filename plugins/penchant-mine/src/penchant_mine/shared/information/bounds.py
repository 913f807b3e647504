"""Variational bounds on mutual information, in log space.

A statistics network T scores pairs. `joint` (networks, samples) are scores of pairs as they came,
`marginal` (networks, shifts, samples) those of pairs whose second member was moved on by a shift:
marginal[:, k, i] = T(x[i], z[(i + shift_k) mod samples]).

Every bound has `loss` (minimised by training; one number per network), `value` (nats) and
`contributions` (networks, samples): what each sample adds to the value to first order, from which
its standard error follows.

References: Donsker, Varadhan 1983; Nguyen, Wainwright, Jordan 2010; van den Oord, Li, Vinyals 2018;
Belghazi et al. 2018; Poole et al. 2019; Song, Ermon 2020.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

# Beyond it the exponential of a training loss goes on as a straight line, so that it stays finite.
LARGEST_EXPONENT = 20.0


class Bound(Protocol):
    """What the training loop needs of a bound."""

    def loss(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """What training minimises (networks,)."""

    def value(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """The bound (networks,), in nats."""

    def contributions(self, joint: Tensor, marginal: Tensor, shifts: Sequence[int]) -> Tensor:
        """What each sample adds to the value (networks, samples), to first order."""


def log_mean_exp(scores: Tensor) -> Tensor:
    """Log of the mean of exp(scores) over all but the first axis."""
    flat = scores.flatten(1)
    count = flat.shape[1]
    return torch.logsumexp(flat, 1) - math.log(count)


def both_roles(weights: Tensor, shifts: Sequence[int]) -> Tensor:
    """A sample's mean weight as first member of a pair plus that as second member.

    Args:
        weights: Weights (networks, shifts, samples) of marginal pairs.
        shifts: By how much each was moved on.

    Returns:
        The sums (networks, samples).
    """
    # Sample i is the second member of the pair that begins `shift` before it.
    as_second = []
    for number, shift in enumerate(shifts):
        as_second.append(weights[:, number].roll(shift, 1))
    sums = weights + torch.stack(as_second, 1)
    return sums.mean(1)


class DonskerVaradhan:
    """E T - log E e^T, with a moving average of E e^T in the denominator of the gradient.

    The gradient of a batch alone is biased. `ema` is the weight of the newest batch; 1 is the naive
    gradient, and the slower the average the smaller the bias. The newest batch is part of the
    average, so no ratio exceeds 1 / ema and nothing overflows.
    """

    def __init__(self, ema: float = 0.01) -> None:
        self.ema = ema
        self._log_average: Tensor | None = None

    def log_denominator(self, log_mean: Tensor) -> Tensor:
        """Log of the moving average after this batch's E e^T has entered it."""
        # The first batch is its own average.
        if self._log_average is None or self.ema == 1:
            self._log_average = log_mean
        else:
            before = math.log1p(-self.ema) + self._log_average
            newest = math.log(self.ema) + log_mean
            self._log_average = torch.logaddexp(before, newest)
        return self._log_average

    def loss(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """What training minimises (networks,)."""
        log_mean = log_mean_exp(marginal)
        # The average enters the gradient as a number.
        denominator = self.log_denominator(log_mean.detach())
        ratio = torch.exp(log_mean - denominator)
        return ratio - joint.mean(1)

    def value(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """The bound (networks,)."""
        log_mean = log_mean_exp(marginal)
        return joint.mean(1) - log_mean

    def contributions(self, joint: Tensor, marginal: Tensor, shifts: Sequence[int]) -> Tensor:
        """What each sample adds to it (networks, samples)."""
        log_mean = log_mean_exp(marginal)[:, None, None]
        return joint - both_roles(torch.exp(marginal - log_mean), shifts)


class FDivergence:
    """E T - E e^(T - 1): below Donsker-Varadhan for every T, equal where E e^(T - 1) = 1.

    Its batch gradient has no bias.
    """

    def loss(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """What training minimises (networks,)."""
        exponent = log_mean_exp(marginal) - 1
        # The exponential, continued by its tangent.
        inside = exponent.clamp(max=LARGEST_EXPONENT)
        continued = torch.exp(inside) * (1 + exponent - inside)
        return continued - joint.mean(1)

    def value(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """The bound (networks,)."""
        exponent = log_mean_exp(marginal) - 1
        return joint.mean(1) - torch.exp(exponent)

    def contributions(self, joint: Tensor, marginal: Tensor, shifts: Sequence[int]) -> Tensor:
        """What each sample adds to it (networks, samples)."""
        return joint - both_roles(torch.exp(marginal - 1), shifts)


class InfoNce:
    """E log of e^T of the pair over the mean of e^T of the pair and its contrasts.

    At most log(1 + contrasts).
    """

    def loss(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """What training minimises (networks,)."""
        return -self.value(joint, marginal)

    def value(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """The bound (networks,)."""
        pointwise = self._pointwise(joint, marginal)
        return pointwise.mean(1)

    def contributions(self, joint: Tensor, marginal: Tensor, shifts: Sequence[int]) -> Tensor:
        """What each sample adds to it (networks, samples)."""
        return self._pointwise(joint, marginal)

    def _pointwise(self, joint: Tensor, marginal: Tensor) -> Tensor:
        rows = torch.cat([joint[:, None], marginal], 1)  # (networks, 1 + shifts, samples)
        log_sum = torch.logsumexp(rows, 1)
        log_count = math.log(rows.shape[1])
        return joint - log_sum + log_count


class Smile:
    """Donsker-Varadhan with e^T kept within e^-clip and e^clip.

    T learns to tell joint from marginal pairs (logistic loss). Not a bound: the clip trades
    variance for bias.
    """

    def __init__(self, clip: float = 5.0) -> None:
        self.clip = clip

    def loss(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """What training minimises (networks,)."""
        # Logistic regression: joint pairs are one class, marginal pairs the other.
        of_joint = functional.softplus(-joint).mean(1)
        of_marginal = functional.softplus(marginal).flatten(1).mean(1)
        return of_joint + of_marginal

    def value(self, joint: Tensor, marginal: Tensor) -> Tensor:
        """The estimate (networks,)."""
        log_mean = log_mean_exp(self._clipped(marginal))
        return joint.mean(1) - log_mean

    def contributions(self, joint: Tensor, marginal: Tensor, shifts: Sequence[int]) -> Tensor:
        """What each sample adds to it (networks, samples)."""
        return DonskerVaradhan().contributions(joint, self._clipped(marginal), shifts)

    def _clipped(self, marginal: Tensor) -> Tensor:
        return marginal.clamp(-self.clip, self.clip)
