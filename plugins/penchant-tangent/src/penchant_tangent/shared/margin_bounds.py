"""Bounds of the classification error by margins and Rademacher complexity.

For classifiers f of a class F and n samples, with probability 1 - delta for all of F at once,

    P(margin < 0) <= mean of phi_gamma(margins) + 2 R + 3 sqrt(log(2 / delta) / (2 n)),

phi_gamma the ramp that falls from 1 at a margin of 0 to 0 at gamma, and R the complexity of F's
losses: at most that of F over gamma for two classes, and (c^(3/2) M / (gamma n)) sqrt(tr K) for the
ball |w| <= M of linear functions of c classes, or for the sum of M sqrt(tr K) along a way.

Reference: Baratin, thesis, appendix B.2: (38), (40), and (60) of theorem B.2.
"""

import math

from torch import Tensor

DELTA = 0.05  # how often the bound may fail


def ramp_loss(margins: Tensor, gamma: float) -> float:
    """The mean of phi_gamma(margins), (37).

    >>> import torch
    >>> ramp_loss(torch.tensor([-1.0, 0.5, 2.0, 0.0], device="cpu"), 1.0)
    0.625
    """
    return float((1 - margins.double() / gamma).clamp(0, 1).mean())


def two_class_complexity(complexity: float, gamma: float) -> float:
    """(40): the losses' complexity, from that of the functions."""
    return complexity / gamma


def multiclass_complexity(root_traces: float, *, classes: int, samples: int, gamma: float) -> float:
    """(60): the losses' complexity, from M sqrt(tr K) or its sum along a way.

    Args:
        root_traces: M sqrt(tr K), K the kernel of all outputs of all samples (n c, n c).
        classes: c.
        samples: n.
        gamma: The margin at which losses vanish.
    """
    bound: float = classes**1.5 * root_traces / (gamma * samples)
    return bound


def error_bound(loss: float, complexity: float, samples: int, delta: float = DELTA) -> float:
    """(38): the bound of the error, which says nothing where it is 1 or more.

    Args:
        loss: Mean ramp loss of the samples.
        complexity: Rademacher complexity of the losses, or a bound of it.
        samples: n.
        delta: How often it may fail.

    >>> round(error_bound(0.0, 0.1, 5000), 4)
    0.2576
    """
    return loss + 2 * complexity + 3 * math.sqrt(math.log(2 / delta) / (2 * samples))
