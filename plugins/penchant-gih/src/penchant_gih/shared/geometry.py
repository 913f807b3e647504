"""The average geometry G = E[g g^T], streamed, in independent groups of the networks.

Memory: one matrix per group and a chunk of gradients, never the gradients of all networks. With
groups, norms are unbiased (products of different groups have no noise in common) and have standard
errors (the jackknife leaves out one group at a time).

G of fewer gradients than inputs, known by the gradients: no D x D matrix is formed.

The groups are those of `geometry`: network i belongs to group i mod GROUPS. All that probes ask of
groups, their inner products, traces and spectra with one of them left out, follows from the inner
products of gradients.
"""

import math
from collections.abc import Mapping

import torch
from penchant_numerics import Refusal
from penchant_numerics.inputs import Corr, SecondMoment, eigenpairs, gram, group_products, spectrum
from penchant_numerics.linear_algebra import descending_eigh
from penchant_numerics.roles import Directions, spectra_without_each
from torch import Tensor

HALVES = 2  # what G itself is summed from
GROUPS = 6  # enough to leave one out and still have four different ones, as G S G needs
LARGEST_JACKKNIFE = 2048  # inputs up to which spectra with one group left out are taken


class Groups:
    """Second moments of independent groups: network i belongs to group i mod count."""

    def __init__(self, size: int, count: int, *, device: torch.device | str) -> None:
        self.moments = [SecondMoment(size, device=device) for _ in range(count)]
        self.networks = 0

    def add(self, gradients: Tensor) -> None:
        """Add gradients (networks, inputs, D), in the order of networks."""
        # Network i goes to group i mod count, however networks are cut into shards.
        count = len(self.moments)
        for offset in range(min(count, len(gradients))):
            rows = gradients[offset::count].flatten(0, 1)
            number = (self.networks + offset) % count
            self.moments[number].add(rows)
        self.networks += len(gradients)

    def matrix(self) -> Tensor:
        """The moment (D, D) of all groups together."""
        # Groups are summed in their order: another order would round otherwise.
        total = self.moments[0].outer.clone()
        vectors = self.moments[0].count
        for moment in self.moments[1:]:
            total += moment.outer
            vectors += moment.count
        total /= vectors
        return (total + total.T) / 2

    def squared_norms(self) -> Tensor:
        """|g|^2 of every gradient, group by group."""
        norms = [moment.norms() for moment in self.moments]
        return torch.cat(norms)

    def matrices(self) -> Tensor | None:
        """The moments (groups, D, D); None where a group has no network."""
        if self.networks < len(self.moments):
            return None
        matrices = [moment.matrix() for moment in self.moments]
        return torch.stack(matrices)


class Geometry:
    """G of networks 0, 1, ..., each at `inputs` probing inputs."""

    def __init__(self, size: int, *, device: torch.device | str, inputs: int = 1) -> None:
        self.inputs = inputs
        self.halves = Groups(size, HALVES, device=device)
        self.groups = Groups(size, GROUPS, device=device)

    def add(self, gradients: Tensor) -> None:
        """Add gradients (networks, inputs, D)."""
        self.halves.add(gradients)
        self.groups.add(gradients)

    @property
    def networks(self) -> int:
        """How many networks were added."""
        return self.halves.networks

    def trace(self) -> tuple[float, float]:
        """The trace and its standard error over networks."""
        # Inputs of one network are not independent, networks are.
        squared = self.halves.squared_norms()
        norms = squared.reshape(-1, self.inputs).mean(1)
        stderr = norms.std() / math.sqrt(self.networks)
        return float(norms.mean()), float(stderr)

    def directions(self, conventions: Mapping[str, str] | None = None) -> Directions:
        """The answer of an estimator: as many directions as there are gradients mean anything."""
        # Beyond the number of gradients, eigenvectors are arbitrary.
        matrix = self.halves.matrix()
        eigenvalues, vectors = descending_eigh(matrix)
        rank = min(self.networks * self.inputs, len(matrix))
        trace, stderr = self.trace()
        groups = self.groups.matrices()
        one_vector = self.inputs == 1
        return Directions(
            eigenvalues[:rank],
            vectors[:rank],
            trace=trace,
            trace_stderr=stderr,
            networks=self.networks,
            matrix=matrix,
            squared_norms=self.halves.squared_norms() if one_vector else None,
            jackknife=None if groups is None else left_out_spectra(groups, rank),
            groups=groups,
            conventions=dict(conventions or {}),
        )


def left_out_spectra(groups: Tensor, rank: int) -> Tensor | None:
    """Eigenvalues (groups, rank), descending, of G without one group; None for large inputs."""
    if groups.shape[1] > LARGEST_JACKKNIFE:
        return None
    return spectra_without_each(groups, rank)


def flipped(matrix: Tensor) -> Tensor:
    """The matrix with its eigenvalues in reverse order on the same eigenvectors."""
    values, vectors = descending_eigh(matrix)
    scaled = vectors.T * values.flip(0)
    return scaled @ vectors


def scores(matrix: Tensor, inputs: Tensor) -> Tensor:
    """Score(x) = (x/|x|)^T G (x/|x|) of flattened inputs (samples, D), in their order.

    An input of zeros scores 0.
    """
    # Quadratic forms of all samples in one product.
    unit = unit_rows(inputs.to(matrix.dtype))
    products = unit @ matrix * unit
    return products.sum(1)


def unit_rows(rows: Tensor) -> Tensor:
    """Rows divided by their lengths; rows of zeros stay."""
    lengths = rows.norm(dim=1, keepdim=True)
    unit: Tensor = rows / lengths.clamp(min=torch.finfo(rows.dtype).tiny)
    return unit


def uncentred(inputs: Tensor) -> Tensor:
    """S = sum_mu x_mu x_mu^T (D, D) of inputs, in double precision: one matrix product."""
    rows = inputs.flatten(1).to(torch.float64)
    return rows.T @ rows


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


def directions_of_rows(
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
        jackknife=None if groups is None else left_out_row_spectra(products, groups),
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


def left_out_row_spectra(products: Tensor, groups: list[Tensor]) -> Tensor:
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
        raise Refusal(f"expected at least {GROUPS} networks, found {networks}")
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
