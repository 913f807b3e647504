"""G of fewer gradients than inputs, known by the gradients: no D x D matrix is formed.

The groups are those of `geometry`: network i belongs to group i mod GROUPS. All that probes ask of
groups, their inner products, traces and spectra with one of them left out, follows from the inner
products of gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from penchant_numerics.inputs import Corr, eigenpairs, gram, group_products, spectrum
from penchant_numerics.roles import Directions
from torch import Tensor

from penchant_gih.shared.geometry import GROUPS


def members(networks: int, vectors: int, *, device: torch.device) -> list[Tensor] | None:
    """Numbers of the gradients of each group; None where a group has no network.

    Args:
        networks: How many networks there are.
        vectors: How many gradients there are, as many of each network.
        device: Where the numbers are.
    """
    if networks < GROUPS:
        return None
    # Gradients come network by network.
    a_network = vectors // networks
    owners = torch.arange(vectors, device=device) // a_network
    groups = owners % GROUPS
    return [torch.nonzero(groups == group)[:, 0] for group in range(GROUPS)]


def directions(
    rows: Tensor, *, networks: int, conventions: Mapping[str, str] | None = None
) -> Directions:
    """The answer of an estimator, from gradients (vectors, D) in the order of networks.

    Args:
        rows: The gradients, as many of each network.
        networks: How many networks there are.
        conventions: What makes one G incomparable with another.
    """
    products = gram(rows)
    eigenvalues, vectors = eigenpairs(rows, products, rank=len(rows))
    # Inputs of one network are not independent, networks are.
    squared = products.diagonal().clone()
    norms = squared.reshape(networks, -1).mean(1)
    stderr = norms.std() / math.sqrt(networks)
    one_vector = len(rows) == networks
    groups = members(networks, len(rows), device=rows.device)
    return Directions(
        eigenvalues,
        vectors,
        trace=float(norms.mean()),
        trace_stderr=float(stderr),
        networks=networks,
        squared_norms=squared if one_vector else None,
        jackknife=None if groups is None else left_out_spectra(products, groups),
        rows=rows,
        conventions=dict(conventions or {}),
    )


def left_out_weights(groups: list[Tensor], *, like: Tensor) -> Tensor:
    """Weights (groups, vectors) of every gradient in the mean of all groups but one.

    Args:
        groups: Numbers of the gradients of each group.
        like: A vector (vectors,) of the device and precision to use.
    """
    count = len(groups)
    weights = torch.zeros(count, len(like), device=like.device, dtype=like.dtype)
    # Groups weigh the same, however many gradients they have.
    for left_out in range(count):
        for number, own in enumerate(groups):
            if number != left_out:
                together = len(own) * (count - 1)
                weights[left_out, own] = 1 / together
    return weights


def left_out_spectra(products: Tensor, groups: list[Tensor]) -> Tensor:
    """Eigenvalues (groups, vectors), descending, of the mean of all groups but one."""
    weights = left_out_weights(groups, like=products[0])
    spectra = [spectrum(products, each) for each in weights]
    return torch.stack(spectra)


def table_and_traces(rows: Tensor, networks: int) -> tuple[Tensor, Tensor]:
    """<G_i, G_j> (groups, groups) and Tr G_i (groups,) of the groups, on the CPU.

    Args:
        rows: The gradients (vectors, D).
        networks: How many networks they are of.
    """
    groups = members(networks, len(rows), device=rows.device)
    if groups is None:
        raise ValueError(f"expected at least {GROUPS} networks, found {networks}")
    products = gram(rows)
    norms = products.diagonal()
    means = [norms[own].mean() for own in groups]
    traces = torch.stack(means)
    table = group_products(products, groups)
    return table.cpu(), traces.cpu()


def corr_isotropic(rows: Tensor) -> Corr:
    """Corr(G, I) of independent gradients (vectors, D), by the jackknife over single ones.

    |G|^2 is the mean of <g, h>^2 over pairs of different gradients, so it has no bias and does not
    depend on their order.
    """
    squares = gram(rows).square()
    norms = squares.diagonal().sqrt()
    count = len(norms)
    own = squares.sum(1) - squares.diagonal()  # each gradient with all others
    total, pairs = own.sum(), count * (count - 1)
    fewer = (count - 1) * (count - 2)
    size = rows.shape[1]
    whole = norms.mean() / (size * total / pairs).sqrt()
    without_norms = (norms.sum() - norms) / (count - 1)
    without = without_norms / (size * (total - 2 * own) / fewer).sqrt()
    mean = without.mean()
    # the bias of order 1/count is taken away
    value = count * whole - (count - 1) * mean
    variance = (count - 1) / count * (without - mean).square().sum()
    return Corr(float(value), float(variance.sqrt()))


def matrices(rows: Tensor, networks: int) -> Tensor | None:
    """The moments (groups, D, D) themselves, for inputs that are not too large."""
    groups = members(networks, len(rows), device=rows.device)
    if groups is None:
        return None
    moments = []
    for own in groups:
        some = rows[own].to(torch.float64)
        moments.append(some.T @ some / len(some))
    return torch.stack(moments)
