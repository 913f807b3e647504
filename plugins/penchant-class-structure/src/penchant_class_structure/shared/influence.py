"""What a sample contributes to a number of G's, to first order; from these come standard errors.

A statistic T of n samples that weigh 1/n each has an influence of each sample, its derivative in
that sample's weight. With f_i = T + influence the mean of f is T and the standard error of T is
std(f) / sqrt(n): the infinitesimal jackknife. Other samples would be of the same classes, so
differences between classes do not add to the spread.

- An eigenvalue lambda of G, with the unit eigenvector y of K: f_i = n lambda |y_i|^2, where y_i are
  the C entries of sample i. It holds for G less one of its components, too, because y is outside of
  the component, where the means are at a minimum of the squared distance.
- w |g|^2 of a weighted mean g = sum_i w_i g_i / w: f_i = n (2 w_i <g_i, g> - w_i |g|^2).

Reference: Efron, The jackknife, the bootstrap and other resampling plans, 1982, chapter 6.
"""

import torch
from torch import Tensor

from penchant_class_structure.shared.decomposition import Decomposition


def of_eigenvalues(values: Tensor, vectors: Tensor, classes: int) -> Tensor:
    """Contributions (k, n) to eigenvalues (k,) of K.

    Args:
        values: Eigenvalues (k,).
        vectors: Unit eigenvectors as columns (n C, k).
        classes: Entries C of a sample.
    """
    squares = vectors.T.double().square().cpu()

    # a sample has an entry for each class
    shape = (len(values), -1, classes)
    by_sample = squares.reshape(shape).sum(2)
    samples = by_sample.shape[1]
    scale = samples * values[:, None]
    return scale * by_sample


def of_ratio(above: Tensor, below: Tensor) -> Tensor:
    """Contributions (n,) to a ratio of two numbers, from theirs (n,)."""
    top = above.mean()
    bottom = below.mean()
    ratio = top / bottom
    change = above / top - below / bottom
    return ratio * (1 + change)


def of_components(decomposition: Decomposition, images: Tensor, M: Tensor) -> dict[str, Tensor]:
    """Contributions (n,) of samples to the traces of all components.

    Args:
        decomposition: Of G, with K as a matrix.
        images: K a_{c,c'} (C^2, n C), by `pair_images`.
        M: Inner products (C^2, C^2) of the means.

    Returns:
        By component: `class`, `cross`, `within`, `diagonal`, `total`.
    """
    toward = _toward_means(decomposition, images)
    pairs = _of_pairs(decomposition, toward, M)
    of_class = _of_classes(decomposition, toward, M)
    labels = decomposition.labels.cpu()
    diagonal = pairs.gather(1, labels[:, None])[:, 0]
    total = decomposition.space.traces
    return {
        "class": of_class,
        "cross": pairs.sum(1) - diagonal - of_class,
        "diagonal": diagonal,
        "within": total - pairs.sum(1),
        "total": total,
    }


def _toward_means(decomposition: Decomposition, images: Tensor) -> Tensor:
    """Entries of sample i in K a_{y_i,c'} (n, C, C): its columns times the means of its class."""
    labels = decomposition.labels.cpu()
    C = decomposition.classes
    count = len(labels)

    # of each sample the rows of its own class
    by_pair = images.double().cpu().reshape(C, C, count, C)
    numbers = torch.arange(count, device="cpu")
    return by_pair[labels, :, numbers]


def _of_pairs(decomposition: Decomposition, toward: Tensor, M: Tensor) -> Tensor:
    """Contributions (n, C) to w_{c,c'} |g_{c,c'}|^2 of a sample's class c."""
    labels = decomposition.labels.cpu()
    C = decomposition.classes
    roots = decomposition.within.double().cpu()  # (n, C), sqrt(pi_{i,c,c'})
    own = torch.diagonal(toward, dim1=1, dim2=2)  # (n, C)
    lengths = M.diagonal().reshape(C, C)  # (C, C), w |g|^2

    # 2 w_i <g_i, g> - w_i |g|^2
    toward_own = 2 * roots * own
    shares = roots.square()
    change = toward_own - shares * lengths[labels]
    return len(labels) * change


def _of_classes(decomposition: Decomposition, toward: Tensor, M: Tensor) -> Tensor:
    """Contributions (n,) to w_c |g_c|^2 of a sample's class c."""
    labels = decomposition.labels.cpu()
    C = decomposition.classes
    across = decomposition.across.double().cpu()  # (C, C), sqrt(pi_{c,c'})
    of_sample = across[labels]  # (n, C)

    # entries of the class vector, and of what K makes of it
    entries = decomposition.within.double().cpu() * of_sample
    along = torch.einsum("nk,nkc->nc", of_sample, toward)

    # |sqrt(w_c) g_c|^2 from products of the means of one class
    numbers = torch.arange(C, device="cpu")
    inside = M.reshape(C, C, C, C)[numbers, :, numbers]  # (C, C, C)
    squares = torch.einsum("ck,ckl,cl->c", across, inside, across)[labels]
    shares = entries.square().sum(1)
    toward_class = 2 * (entries * along).sum(1)
    change = toward_class - shares * squares
    return len(labels) * change
