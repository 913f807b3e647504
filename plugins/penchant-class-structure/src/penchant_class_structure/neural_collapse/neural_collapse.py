r"""Measures of neural collapse of class means and within-class scatter.

With class means mu_c (their mean taken away: m_c), Sigma_B = Ave_c m_c m_c^T and Sigma_W the
covariance within classes:

- NC1, variability: tr(Sigma_W Sigma_B^+) / C;
- NC2, norms: std_c |m_c| / mean_c |m_c|; angles: the standard deviation of the cosines of pairs;
  simplex: the mean over pairs of \|cos + 1/(C - 1)\|;
- NC3, self-duality: \|W / \|W\| - M / \|M\|\|^2 with the classifier's weights W.

All of them are 0 where the means are a simplex, the classifier is a multiple of them, and samples
lie at their class means. The standard deviations are over classes or pairs, divided by their
number.

Reference: Papyan, Han and Donoho, Prevalence of neural collapse during the terminal phase of deep
learning training, PNAS 2020.
"""

import math

import torch
from torch import Generator, Tensor

MEASURES = ("nc1", "nc2-norms", "nc2-angles", "nc2-simplex")


def collapse(means: Tensor, within: Tensor) -> dict[str, float]:
    """NC1 and the three measures of NC2.

    Args:
        means: Class means (C, d).
        within: Covariance within classes (d, d).

    Returns:
        By the names of `MEASURES`; not a number where a class mean is the mean of all.

    >>> means = torch.eye(3, dtype=torch.float64, device="cpu")
    >>> found = collapse(means, torch.zeros(3, 3, dtype=torch.float64, device="cpu"))
    >>> [round(value, 12) for value in found.values()]
    [0.0, 0.0, 0.0, 0.0]
    """
    centred = means - means.mean(0)
    return {"nc1": _variability(centred, within), **geometry(means)}


def _variability(centred: Tensor, within: Tensor) -> float:
    """tr(Sigma_W Sigma_B^+) / C: the scatter along each direction of the means over theirs."""
    _, sizes, directions = torch.linalg.svd(centred, full_matrices=False)
    # centred means have one dimension less than there are of them
    sizes = sizes[: len(centred) - 1]
    nonzero = sizes > sizes.max() * max(centred.shape) * torch.finfo(sizes.dtype).eps
    if not bool(nonzero.any()):
        return math.nan
    along = directions[: len(sizes)][nonzero]
    scatter = ((along @ within) * along).sum(1)
    # rounding may make a collapsed scatter negative
    return float((scatter.clamp(min=0) / sizes[nonzero].square()).sum())


def geometry(vectors: Tensor, *, centred: bool = True) -> dict[str, float]:
    """NC2 of vectors (C, d): class means around their mean, or a classifier's rows as they are.

    Args:
        vectors: The vectors.
        centred: Whether they are taken around their mean. The paper's figures 2 to 4 take class
            means so, and the rows w_c of a classifier from the origin.
    """
    around = vectors - vectors.mean(0) if centred else vectors
    norms = around.norm(dim=1)
    # a vector at the mean of all has no direction
    scale = vectors.norm(dim=1).max() * torch.finfo(vectors.dtype).eps
    if bool((norms <= scale).any()):
        return dict.fromkeys(MEASURES[1:], math.nan)
    units = around / norms[:, None]
    count = len(vectors)
    above = torch.triu_indices(count, count, offset=1, device=vectors.device)
    cosines = (units @ units.T)[above[0], above[1]]
    return {
        "nc2-norms": float(norms.std(correction=0) / norms.mean()),
        "nc2-angles": float(cosines.std(correction=0)),
        "nc2-simplex": float((cosines + 1 / (count - 1)).abs().mean()),
    }


def self_duality(means: Tensor, weight: Tensor) -> float:
    """NC3: the squared distance of classifier (C, d) and centred class means, each of norm 1."""
    centred = means - means.mean(0)
    return float((weight / weight.norm() - centred / centred.norm()).square().sum())


def isotropic(
    counts: Tensor, dimension: int, *, generator: Generator, draws: int
) -> list[dict[str, float]]:
    """Measures of normal features N(0, I) that are independent of their classes.

    Means are N(0, I / n_c), and independent of them the scatter within classes along any direction
    is chi^2 with n - C degrees of freedom, divided by n. For n_c = n / C samples in each class and
    d > C, E NC1 = (n - C) / C (C - 1) / (d - C).

    Args:
        counts: Samples of each class (C,).
        dimension: d.
        generator: A generator on the CPU.
        draws: How many draws.

    Returns:
        The measures of each draw.
    """
    counts = counts.double().cpu()
    classes, total = len(counts), float(counts.sum())
    freedom = total - classes
    measures = []
    for _ in range(draws):
        noise = torch.randn(
            classes, dimension, generator=generator, device="cpu", dtype=torch.float64
        )
        means = noise / counts.sqrt()[:, None]
        sizes = torch.linalg.svdvals(means - means.mean(0))[: min(classes - 1, dimension)]
        # chi^2 of many degrees of freedom, by Wilson and Hilferty
        normal = torch.randn(len(sizes), generator=generator, device="cpu", dtype=torch.float64)
        term = 2 / (9 * max(freedom, 1.0))
        scatter = freedom / total * (1 - term + normal * term**0.5) ** 3
        nc1 = float((scatter / sizes.square()).sum())
        measures.append({"nc1": nc1, **geometry(means)})
    return measures
