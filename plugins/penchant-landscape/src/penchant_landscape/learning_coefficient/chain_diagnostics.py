r"""How far chains agree, and how much they know: split R-hat, effective samples, autocorrelation.

Reference: Vehtari, Gelman, Simpson, Carpenter, Bürkner, Rank-normalization, folding, and
localization: an improved R-hat, 2021, sections 3 and 4 (without ranks: the mean is estimated).
"""

import torch
from torch import Tensor


def split_chains(series: Tensor) -> Tensor:
    """Both halves of every chain (steps // 2, 2 chains); an odd step in the middle is left out."""
    half = len(series) // 2
    return torch.cat([series[:half], series[-half:]], dim=1)


def split_r_hat(series: Tensor) -> float:
    r"""Split R-hat: the spread over all halves of chains against the spread inside of them.

    .. math:: \hat R = \sqrt{(W (N - 1) / N + B) / W}

    Args:
        series: Values (steps, chains), at least 4 steps.

    Returns:
        1 where chains agree and none drifts; infinite where chains stand still apart.

    >>> apart = torch.tensor([[0.0, 9.0], [1.0, 8.0], [0.0, 9.0], [1.0, 8.0]], device="cpu")
    >>> round(split_r_hat(apart), 1)
    6.6
    """
    within, total = _variances(split_chains(series.double()))
    return float((total / within).sqrt())


def autocorrelations(series: Tensor) -> Tensor:
    """Autocorrelation (steps,) at lags 0, 1, ..., including the spread between chains.

    Args:
        series: Values (steps, chains).

    Returns:
        1 at lag 0; chains that disagree are correlated at every lag.
    """
    series = series.double()
    steps = len(series)
    centred = series - series.mean(0)
    # by the Fourier transform, padded so that the ends do not meet
    transformed = torch.fft.rfft(centred, n=2 * steps, dim=0)
    products: Tensor = (
        torch.fft.irfft(transformed.abs().square(), n=2 * steps, dim=0)[:steps] / steps
    )
    within, total = _variances(series)
    own = products.mean(1)  # covariance inside of chains
    return 1 - (within - own * steps / (steps - 1)) / total


def effective_samples(series: Tensor) -> float:
    """How many independent values would know the mean as well; from halves of chains.

    Autocorrelations are summed up to where a pair of them is negative (Geyer's initial positive
    sequence), made monotone.

    Args:
        series: Values (steps, chains).

    Returns:
        At most the number of values times its logarithm to base 10; not a number where no chain
        moves.
    """
    halves = split_chains(series.double())
    steps, chains = halves.shape
    correlations = autocorrelations(halves)
    pairs = correlations[: 2 * (steps // 2)].reshape(-1, 2).sum(1)
    negative = torch.nonzero(pairs <= 0)
    last = int(negative[0]) if len(negative) else len(pairs)
    monotone = pairs[:last].cummin(0).values
    time = float(-1 + 2 * monotone.sum())
    count = steps * chains
    most = count * torch.log10(torch.tensor(float(count), device="cpu"))
    return min(count / max(time, 1e-9), float(most))


def _variances(series: Tensor) -> tuple[Tensor, Tensor]:
    """The variance inside of chains, and that of all values."""
    steps = len(series)
    within = series.var(0).mean()
    between = series.mean(0).var()
    return within, within * (steps - 1) / steps + between
