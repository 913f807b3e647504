"""Have statistics networks learnt what correlations alone say of x and z?

With many samples errors are small, and networks may be short of the truth by more than that. For
normal variables the best score follows from canonical correlations. Any score gives a lower bound,
so that one replaces a part of the networks' scores: where that raises it, they had missed it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from penchant_mine.shared.information.bounds import Bound, log_mean_exp
from penchant_mine.shared.information.unlearnt_lengths import best_gain

SHARES = (0.25, 0.5, 0.75, 1.0)  # of the scores that are replaced
LARGEST = 0.999  # correlation: more is a function, not noise
LEAST = 1e-6  # of the largest variance: what varies less is rounding
MOST = 256  # dimensions of x or z


def gain_of_correlations(
    bound: Bound,
    scores: tuple[Tensor, Tensor],
    normal: tuple[Tensor, Tensor],
    shifts: Sequence[int],
) -> tuple[float, float]:
    """How much the scores of normal variables raise the bound, where they replace a part.

    Args:
        bound: The bound.
        scores: The networks' scores (networks, samples) of pairs and (networks, shifts, samples).
        normal: Those of normal variables with the same correlations.
        shifts: By how much z was moved on.

    Returns:
        The gain, mean over networks, and its standard error over samples.
    """
    joint, marginal = scores
    # A constant is no information, but not all bounds ignore it.
    constant = log_mean_exp(marginal) - log_mean_exp(normal[1])
    to_joint = normal[0] + constant[:, None] - joint
    to_marginal = normal[1] + constant[:, None, None] - marginal
    others = ((joint + share * to_joint, marginal + share * to_marginal) for share in SHARES)
    return best_gain(bound, scores, others, shifts)


def normal_ratio(
    fitted: tuple[Tensor, Tensor], pairs: tuple[Tensor, Tensor], shifts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Log ratio of densities, if x and z were normal with the correlations of other samples.

    Args:
        fitted: x and z (samples, size) that give the correlations.
        pairs: x and z (samples, size) that are scored.
        shifts: By how much z is moved on for pairs that do not belong together.

    Returns:
        Scores (samples,) of the pairs, and (shifts, samples) of those that were moved.
    """
    (x, z), (whiten_x, whiten_z) = fitted, map(_whitening, fitted)
    left = (x - x.mean(0)).double() @ whiten_x
    right = (z - z.mean(0)).double() @ whiten_z
    turn, correlations, other_turn = torch.linalg.svd(left.T @ right / len(x), full_matrices=False)
    rho = correlations.clamp(max=LARGEST)
    u = (pairs[0] - x.mean(0)).double() @ whiten_x @ turn
    v = (pairs[1] - z.mean(0)).double() @ whiten_z @ other_turn.T

    # of each pair of variates: (rho u v - rho^2 (u^2 + v^2) / 2) / (1 - rho^2), and a constant
    left_over = 1 - rho.square()
    both = u * (rho / left_over)
    own = -0.5 * rho.square() / left_over
    of_x, of_z = u.square() @ own, v.square() @ own
    moved = [(both * v.roll(-shift, 0)).sum(1) + of_x + of_z.roll(-shift) for shift in (0, *shifts)]
    scores = torch.stack(moved) - 0.5 * left_over.log().sum()
    return scores[0], scores[1:]


def _whitening(values: Tensor) -> Tensor:
    """The matrix (size, rank) that makes values (samples, size) uncorrelated, of variance 1."""
    centred = (values - values.mean(0)).double()
    variances, axes = torch.linalg.eigh(centred.T @ centred / len(values))
    varies = variances > LEAST * variances[-1]
    scaled: Tensor = axes[:, varies] / variances[varies].sqrt()
    return scaled
